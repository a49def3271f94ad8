"""--help of every command: one layout, true examples, nothing heavy loaded; --version and mistakes in one style."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spikelm import __version__
from spikelm.cli import main as entries
from spikelm.cli.command_line import precheck, run_parser

PROJECT = Path(__file__).resolve().parents[2]
COMMANDS = ("run", "report", "energy", "audit", "export", "predict", "generate")
COMMANDS += ("prepare", "verify", "doctor", "harness")
OF_REPORT = (
    *("runs", "run", "table", "figure", "claims", "reproduce", "reference", "scores", "curves"),
    *("page", "serve", "command", "wandb"),
)
PAGES = [*((name,) for name in COMMANDS), *(("report", name) for name in OF_REPORT)]
CHAPTERS = ["NAME", "USAGE", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT CODES", "READ MORE"]
HEAVY = ("torch", "lightning", "transformers", "wandb", "datasets", "matplotlib", "numpy", "pydantic")


def called(*words: str) -> tuple[int, str, str]:
    """Exit code, output and error of a command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, [f"spikelm-{words[0]}", *words[1:]]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            getattr(entries, words[0])()
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_every_page_has_the_same_layout(command: tuple[str, ...]) -> None:
    code, said, _ = called(*command, "--help")
    assert code == 0
    titles = [line for line in said.splitlines() if re.match(r"[A-Z]", line)]
    assert [title for title in titles if title in CHAPTERS] == CHAPTERS
    name = " ".join([f"spikelm-{command[0]}", *command[1:]])
    assert said.startswith(f"NAME\n    {name} - ")
    assert "--version" in said
    assert max(map(len, said.split("EXAMPLES")[0].splitlines())) <= 130
    for line in re.findall(r"^ {4,}(-\S.*)$", said.split("OPTIONS\n")[1].split("\n\n")[0], re.MULTILINE):
        assert re.search(r" {2,}\S|\]$|\|", line), f"an option without a word about it: {line}"


@pytest.mark.parametrize(
    "command",
    [("audit",), ("export",), ("predict",), ("generate",), ("report", "run"), ("report", "command")],
    ids=" ".join,
)
def test_a_run_that_is_not_there_is_a_mistake_in_every_manual(command: tuple[str, ...]) -> None:
    codes = called(*command, "--help")[1].split("EXIT CODES\n")[1]
    assert re.search(r"^ +2 .*no such run", codes, re.MULTILINE)


def documents() -> Iterator[str]:
    for command in PAGES:
        yield from re.findall(r"docs/[\w/-]+\.md", called(*command, "--help")[1])


def test_documents_to_read_are_there() -> None:
    named = set(documents())
    assert len(named) >= 6
    there = {path.name for path in (PROJECT / "docs").rglob("*.md")}
    assert {Path(name).name for name in named} <= there


def test_examples_of_runs_are_valid(runs_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("task=glue/rte\n")
    monkeypatch.chdir(tmp_path)
    examples = [shlex.split(line)[1:] for line in run_parser().manual.examples if line.startswith("spikelm-run")]
    assert len(examples) >= 8
    for words in examples:
        with contextlib.redirect_stdout(io.StringIO()):
            precheck(words)


def test_help_of_every_command_loads_nothing_heavy() -> None:
    code = (
        f"import sys, io, contextlib; sys.path[:0] = [{str(PROJECT)!r}]; from spikelm.cli import main\n"
        f"for words in {PAGES!r}:\n"
        "    sys.argv = ['spikelm-' + words[0], *words[1:], '--help']\n"
        "    with contextlib.redirect_stdout(io.StringIO()): getattr(main, words[0])()\n"
        f"    assert not (loaded := set({HEAVY!r}) & set(sys.modules)), (words, loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_the_version_is_ours(command: tuple[str, ...]) -> None:
    assert called(*command, "--version")[:2] == (0, f"spikelm {__version__}\n")


@pytest.mark.parametrize("command", [page for page in PAGES if page != ("harness",)], ids=" ".join)
def test_an_unknown_option_is_refused_as_an_override_is(command: tuple[str, ...]) -> None:
    given = {"run": ("x",), "command": ("x",), "table": ("3",), "figure": ("fig4",), "reproduce": ("3",)}
    given["reference"] = ("--to", "x")
    words = ("T=1",) if command[-1] in ("scores", "curves") else given.get(command[-1], ()) if command[1:] else ()
    words = ("x",) if command[0] in ("audit", "export", "generate") else words
    words = ("x", "y") if command[0] == "predict" else words
    code, said, error = called(*command, *words, "--hep")
    assert (code, said) == (2, "")
    name = " ".join([f"spikelm-{command[0]}", *command[1:]])
    assert error == f"error: {name} has no option --hep; did you mean --help?\n  fix: {name} --help\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report", "tabel", "3"), "spikelm-report has no command tabel; did you mean table?"),
        (("report", "table"), "spikelm-report table needs TABLE"),
        (("report", "runs", "mine"), "spikelm-report runs has no argument mine"),
        (("report", "serve", "--port", "x"), "--port x is not a whole number"),
        (("audit",), "spikelm-audit needs RUN"),
        (("generate",), "spikelm-generate needs RUN"),
        (("predict", "x"), "spikelm-predict needs FILE"),
        (("predict", "x", "y", "--batch", "many"), "--batch many is not a whole number"),
        (("export", "x", "--push", "film"), "--push film is not the name of a repository"),
        (("generate", "x", "y", "z"), "spikelm-generate has no argument z"),
        (("energy", "--rate", "abc"), "--rate abc is not a number"),
        (("energy", "--rate", "-2"), "--rate -2 is not valid; a firing rate is a number of at least 0"),
        (("energy", "--length", "0"), "--length 0 is not valid; it is a whole number of at least 1"),
        (("energy", "--rate"), "--rate needs one value"),
        (("export", "x", "precision=int9"), "--precision int9 is not valid; did you mean int8?"),
        (("doctor", "--scale", "huge"), "--scale huge is not valid; valid: mini, minilm, paper, smoke"),
        (("run", "--cfg", "jbo"), "--cfg jbo is not valid; did you mean job?"),
        (("run", "--config-dir"), "--config-dir needs one value"),
        (("run", "--config-dir", "/nope"), "--config-dir /nope is not a folder"),
        (("run", "runs_dir="), "runs_dir= names no folder"),
        (("run", f"runs_dir={__file__}"), f"runs_dir={__file__} is a file, not a folder"),
        (("verify", "--runs-dir", __file__), f"--runs-dir {__file__} is not a folder"),
        (("report", "table", "3", "--source", "web"), "--source web is not valid; valid: embedded, hub, local"),
        (("report", "claims", "scale=smoke"), "scale=smoke: scale of a table's runs comes from --scale"),
        (("doctor", "--json", f"{__file__}/x"), f"--json {__file__}/x cannot be written: File exists"),
    ],
    ids=lambda value: " ".join(value).replace(__file__, "FILE") if isinstance(value, tuple) else "",
)
def test_mistakes_are_one_line_with_a_fix(words: tuple[str, ...], says: str) -> None:
    code, said, error = called(*words)
    assert (code, said) == (2, "")
    first, *rest = error.splitlines()
    assert first == f"error: {says}"
    assert len(rest) <= 1


def test_a_store_is_named_before_or_without_a_command(tmp_path: Path) -> None:
    for words in (
        ("--runs-dir", str(tmp_path)),
        ("--runs-dir", str(tmp_path), "runs"),
        ("runs", "--runs-dir", str(tmp_path)),
    ):
        code, said, _ = called("report", *words)
        assert code == 0
        assert str(tmp_path) in said.replace("\n", "")
    assert list(tmp_path.iterdir()) == []


def test_options_may_stand_between_overrides() -> None:
    code, said, _ = called("run", "T=1", "--cfg", "job", "k=7")
    assert code == 0
    assert "\nk: 7.0\n" in said
    before, after = (called("energy", *words)[1] for words in (["--rate", "0.3", "T=4"], ["T=4", "--rate", "0.3"]))
    assert before == after
    assert precheck(["T=1,2", "-m", "k=3", "dry_run=true"]) == ["T=1,2", "k=3", "dry_run=true", "-m"]


@pytest.mark.parametrize("flag", ["--help", "--info", "--hydra-help", "--cfg=all"])
def test_a_reader_who_goes_away_ends_the_command_without_a_word(flag: str, runs_dir: Path) -> None:
    code = f"import sys; sys.path[:0] = [{str(PROJECT)!r}]; from spikelm.cli.main import run; run()"
    program = [sys.executable, "-c", code, flag]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stderr
        writer.stdout.close()
        assert writer.stderr.read() == ""
    assert writer.returncode in (0, 141)  # argparse says nothing of a page that nobody reads
