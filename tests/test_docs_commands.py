"""Every command and block of Python in README and docs works; tests/docs_commands.py says how each is tried."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_commands import (
    HISTORY,
    PROJECT,
    READERS,
    Block,
    Command,
    Tries,
    WrongCommand,
    blocks,
    call,
    commands,
    pages,
    smoke,
    words_of,
)
from docs_sandbox import REFERENCE, sandbox

PAGES = [page for page in pages() if page.name not in HISTORY]
KNOWN: dict[str, str] = {}  # equal commands of several pages are tried once
#: blocks that need a GPU, the hub, keys or an installation
NOT_RUN_AT_MOST = 9


@pytest.fixture(scope="module")
def tries() -> Iterator[Tries]:
    with sandbox() as made:
        made.known = KNOWN
        yield made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_works(page: Path, tries: Tries) -> None:
    shown = commands(page)
    counts = Counter(tries.try_(command) for command in shown)
    print(f"{page.relative_to(PROJECT)}: {dict(counts)}")
    assert sum(counts.values()) == len(shown)


def test_commands_are_found_at_all_and_few_are_not_run() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    assert len(shown) > 200
    left_out = [block for page in PAGES for block in blocks(page) if block.not_run]
    for block in left_out:
        print(f"not run: {block.page.name}:{block.line}: {block.not_run}")
    assert len(left_out) <= NOT_RUN_AT_MOST


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```bash\nspikelm-run task=glue/rtee\n```", "did you mean glue/rte"),
        (
            "```bash\nspikelm-run task=glue/rte \\\n  neuron=liff  # a comment; or two\n```",
            "did you mean lif",
        ),
        ("```bash\nspikelm-run -m neuron=lif,psnn task=glue/rte\n```", "neuron=psnn is not there"),
        ("```bash\nmake reproduce-tabel3\n```", "No rule to make target"),
        ("```bash\nmake reproduce-table3 SCAL=smoke\n```", "no variable SCAL"),
        ("```bash\nmake reproduce-table3 OVERRIDES='k=-1'\n```", "k=-1"),
        ("```bash\nspikelm-report tabel 3\n```", "tabel"),
        ("```bash\nspikelm-report table 3 --sedes 1,2\n```", "--sedes"),
        ("```bash\nspikelm-report scores neuron=liff\n```", "did you mean lif"),
        ("```bash\nspikelm-audit\n```", "(?i)run"),
        ("```bash\nspikelm-run --help && frobnicate --now\n```", "no rule for frobnicate"),
        ("```bash\nsource .venv/bin/deactivate\n```", "is not there"),
        ("```console\n$ spikelm-run neuron=liff\nerror: all is well\n```", "does not print 'error: all is well'"),
        ("It is `make reproduce-tabel3` that does it.", "No rule to make target"),
        ("See `pytest tests/test_nothing.py`.", "tests/test_nothing.py is not there"),
        ("See `python -m benchmarks nothing`.", "no benchmark nothing"),
    ],
)
def test_a_wrong_command_of_a_document_is_found(block: str, message: str, tries: Tries, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nSome text.\n\n{block}\n")
    (shown,) = commands(page)
    with pytest.raises(WrongCommand, match=message) as error:
        tries.try_(shown)
    assert str(error.value).startswith("page.md:")


def test_blocks_and_sentences_are_read_as_a_shell_reads_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```bash\n# a comment\nmake a \\\n  B='c d'   # why\n\nmake e\n```\n\n"
        "<!-- not run: needs a GPU -->\n```bash\nnvidia-smi\n```\n"
        "\n```text\nmake f\n```\n\nCall `make\ng`, not `pip`.\n\n```console\n$ make h\nsaid\n$ make i\n```\n"
    )
    shown = commands(page)
    assert [(c.line, words_of(c.text), c.printed, c.not_run) for c in shown] == [
        (3, ["make", "a", "B=c d"], (), ""),
        (6, ["make", "e"], (), ""),
        (11, ["nvidia-smi"], (), "needs a GPU"),
        (22, ["make", "h"], ("said",), ""),
        (24, ["make", "i"], (), ""),
        (18, ["make", "g"], (), ""),
    ]


def python_blocks(slow: bool) -> list[list[Block]]:
    """The blocks of Python of each page, without those that are files."""
    found = [[block for block in blocks(page) if block.language == "python" and not block.title] for page in PAGES]
    kept = [[block for block in shown if bool(block.slow) == slow and not block.not_run] for shown in found]
    return [shown for shown in kept if shown]


def run_blocks(shown: list[Block]) -> None:
    namespace: dict[str, object] = {"__name__": "page"}
    for block in shown:
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
        exec(code, namespace)


@pytest.mark.parametrize("shown", python_blocks(slow=False), ids=lambda shown: shown[0].page.name)
def test_python_of_a_page_runs_as_it_stands(shown: list[Block], tries: Tries) -> None:
    run_blocks(shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_an_excerpt_is_in_the_file_that_it_names(page: Path) -> None:
    for block in blocks(page):
        if block.title and (PROJECT / block.title).exists():
            lines = textwrap.dedent((PROJECT / block.title).read_text()).splitlines()
            excerpt = [line.strip() for line in block.text.splitlines() if line.strip()]
            whole = [line.strip() for line in lines if line.strip()]
            places = range(len(whole) - len(excerpt) + 1)
            assert any(whole[n : n + len(excerpt)] == excerpt for n in places), f"{block.page.name}:{block.line}"


# The same commands in earnest: trained at scale=smoke, or called on a store with models.


def in_earnest(words: list[str], timeout: int = 600) -> str:
    path = os.pathsep.join([str(Path.cwd() / "calm"), str(Path.cwd() / "plugin"), str(PROJECT)])
    environment = {**os.environ, "PYTHONPATH": path, "WANDB_MODE": "offline"}
    command = [str(Path(sys.executable).parent / words[0]), *words[1:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def trained() -> list[list[str]]:
    distinct = {tuple(words) for page in PAGES for command in commands(page) if (words := smoke(command))}
    return [list(words) for words in sorted(distinct)]


@pytest.mark.slow
@pytest.mark.parametrize("words", trained(), ids=" ".join)
def test_a_run_of_the_documents_trains_at_the_smallest_scale(words: list[str], tries: Tries) -> None:
    assert "scale smoke" in in_earnest(["spikelm-run", *words])


@pytest.fixture
def trained_run(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained classifier in a store of its own; RUN is its folder."""
    monkeypatch.setenv("SPIKELM_RUNS", str(Path.cwd() / "trained"))
    shown = in_earnest(["spikelm-run", "task=glue/sst2", "neuron=bispike", "k=2", "scale=smoke"])
    place = Path(shown.split("\nin ")[-1].split("\n")[0].strip())
    Path("RUN").unlink()
    Path("RUN").symlink_to(place)
    return place


def parsed_only(page: Path) -> Iterator[Command]:
    """Commands of a page that `make test` only parses, but for those that never end or ask for GPUs and files."""
    endless = ("serve", "reproduce", "reference", "--check", "scale=", "source=", "paper", "minilm")
    for command in commands(page):
        words = [] if command.not_run else words_of(command.text)
        called = words[:1] and words[0] in ("spikelm-audit", "spikelm-export", "spikelm-verify", "spikelm-report")
        if called and not any(part in command.text for part in endless):
            yield command


@pytest.mark.slow
def test_commands_on_a_run_are_called_on_one(trained_run: Path, tries: Tries) -> None:
    done = set()
    for page in PAGES:
        for command in parsed_only(page):
            words = [str(trained_run) if word == READERS["RUN"] else word for word in words_of(command.text)]
            if words[1:2] not in (["table"], ["figure"], ["claims"]) and tuple(words) not in done:
                if words[1:2] == ["curves"]:  # there have to be some
                    in_earnest(["spikelm-run", "-m", *(word for word in words if "=" in word), "scale=smoke"])
                    words.append("scale=smoke")
                in_earnest(words)
                done.add(tuple(words))
    assert {words[0] for words in done} == {"spikelm-audit", "spikelm-export", "spikelm-verify", "spikelm-report"}
    assert (trained_run / "exported-int8").is_dir()
    for shown in python_blocks(slow=True):
        if shown[0].page.name == "export.md":
            run_blocks(shown)


@pytest.mark.slow
def test_tables_figures_and_claims_are_made_of_the_reference(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path.cwd() / "copy"
    subprocess.run(["cp", "-r", str(REFERENCE), str(copy)], check=True)
    monkeypatch.setenv("SPIKELM_RUNS", str(copy))
    asked = {command.text for page in PAGES for command in parsed_only(page)}
    made = [words for text in asked if (words := words_of(text))[1:2] in (["table"], ["figure"], ["claims"])]
    assert made
    for words in made:
        kept = [word for word in words if word not in ("--runs-dir", "runs/reference")]
        code, said = call(kept)
        assert code == 0, f"{words}\n{said[-2000:]}"
    for shown in python_blocks(slow=True):
        if shown[0].page.name != "export.md":
            run_blocks(shown)
