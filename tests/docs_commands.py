"""Every command that the documents show, and how each is tried: python -m tests.docs_commands lists them.

Commands stand in blocks of the languages `bash` and `console` (there behind `$ `, followed by what they print), and in
sentences as `spikelm-...`, `make ...`, `pytest ...` or `python -m ...`. A reader's folders (RUN, DATA, DIR, ...) are
real folders of those names. How a command is tried depends on what it is:

    run        it is called as it stands: --help, --cfg job, dry_run=true, energies, lists, the page
    composed   spikelm-run: its settings, and each value of a sweep, are composed and checked as the command itself does
               before it trains; the slow tests train it at scale=smoke, the first job of a sweep
    parsed     the command's own parser reads it, and overrides are composed; the slow tests call it
    made       make -n with the same words: target and variables are there, and what it would call is tried likewise
    found      pytest and python -m: the files, tests and modules are there; spikelm-harness without the extra lm-eval
    set        export and cd: nothing can go wrong
    not run    `<!-- not run: why -->` stands above the block

Blocks of Python are run as they stand, one after the other in one namespace per page; `<!-- slow: why -->` above leaves
one to the slow tests. A block with `title="path"` is a file: one of the repository has to hold it word for word, any
other is written for the commands of its page.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SHELL = ("bash", "console")
#: an old log keeps the commands of its day
HISTORY = ("log.md", "CHANGELOG.md")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (not run|slow): ([^>]+?) -->\n\Z")
TITLE = re.compile(r'title="([^"]+)"')
IN_A_SENTENCE = re.compile(r"(?<!`)`((?:spikelm-[a-z]+|make|pytest|python -m)\s[^`]+)`(?!`)")
#: what a reader puts in: a commit, and a run by the first digits of its id
READERS = {"COMMIT": "0123456789abcdef0123456789abcdef01234567", "RUN": "4dbd1b6e", "ID": "4dbd1b6e"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it is (if any), why it is not run or is slow (if so)."""

    page: Path
    line: int
    language: str
    text: str
    title: str = ""
    not_run: str = ""
    slow: str = ""


@dataclass(frozen=True)
class Command:
    """A command of a page, on one line; `printed` is what a console block shows of its output."""

    page: Path
    line: int
    text: str
    printed: tuple[str, ...] = ()
    not_run: str = ""

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


def pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and all of docs/."""
    return [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        before = text[: found.start()]
        mark = MARK.search(before)
        why = {mark[1]: mark[2]} if mark else {}
        title = TITLE.search(found[2])
        yield Block(
            page,
            before.count("\n") + 2,
            found[1],
            found[3],
            title[1] if title else "",
            why.get("not run", ""),
            why.get("slow", ""),
        )


def commands(page: Path) -> list[Command]:
    """The commands of a page: of its shell blocks, then of its sentences."""
    found: list[Command] = []
    for block in blocks(page):
        if block.language in SHELL:
            found += _of_console(block) if block.language == "console" else _of_script(block)
    if page.name not in HISTORY:
        text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())
        for span in IN_A_SENTENCE.finditer(text):
            found.append(Command(page, text[: span.start()].count("\n") + 1, " ".join(span[1].split())))
    return found


def _of_script(block: Block) -> Iterator[Command]:
    started = 0
    joined = ""
    for number, line in enumerate(block.text.splitlines()):
        joined, started = (joined + line.strip(), started) if joined else (line.strip(), number)
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        text, joined = joined, ""
        if text and not text.startswith("#"):
            yield Command(block.page, block.line + started, text, not_run=block.not_run)


def _of_console(block: Block) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *printed = part.splitlines()
        line = block.line + block.text[: block.text.index(part)].count("\n")
        yield Command(block.page, line, first, tuple(text for text in printed if text.strip()), block.not_run)


def words_of(text: str) -> list[str]:
    """The words of a command as a shell sees them: comments and `...` are gone, a placeholder of a commit is one."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    words = [word for word in lexer if word not in ("...", "[FOLDER]", "[-v]")]
    return [READERS.get(word) or word.replace("COMMIT", READERS["COMMIT"]) for word in words]


def calls_of(text: str) -> list[list[str]]:
    """The calls that a line makes one after the other: what `&&`, `;` and `|` join; where output goes is left out."""
    calls: list[list[str]] = [[]]
    words = iter(words_of(text))
    for word in words:
        if word in ("&&", ";", "|"):
            calls.append([])
        elif word == ">":
            next(words)
        else:
            calls[-1].append(word)
    return [words for words in calls if words]


class WrongCommand(Exception):
    """A document shows a command that does not work."""


def outcome(call: Callable[[], object]) -> tuple[int, str]:
    """The exit code and the output of a call in this process."""
    out = io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            call()
        except SystemExit as stop:
            code = stop.code or 0
    return (code if isinstance(code, int) else 1), out.getvalue()


def entry_points() -> dict[str, str]:
    """spikelm-run and its siblings: command -> module:function."""
    return dict(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"])


def call(words: Sequence[str]) -> tuple[int, str]:
    """Call a command of spikelm in this process."""
    module, _, function = entry_points()[words[0]].partition(":")
    before = sys.argv
    sys.argv = list(words)
    try:
        return outcome(getattr(importlib.import_module(module), function))
    finally:
        sys.argv = before


class _Parsed(BaseException):
    """What a command's parser made of its words; a command that catches errors does not catch it."""


def parsed(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """What a command's own parser makes of its words: the command is called and stopped behind its parser."""
    original = argparse.ArgumentParser.parse_known_args
    depth = 0

    def stop(parser: argparse.ArgumentParser, *args: object, **options: object) -> object:
        nonlocal depth
        depth += 1
        try:
            made = original(parser, *args, **options)  # type: ignore[arg-type]
        finally:
            depth -= 1
        if depth == 0:
            raise _Parsed(*made)
        return made

    argparse.ArgumentParser.parse_known_args = stop  # type: ignore[assignment, method-assign]
    try:
        code, said = call(words)
    except _Parsed as made:
        namespace, rest = made.args
        if wrong := [word for word in rest if word.startswith("-") or "=" not in word]:
            raise WrongCommand(f"unknown words: {' '.join(wrong)}") from None
        return namespace, rest
    finally:
        argparse.ArgumentParser.parse_known_args = original  # type: ignore[method-assign]
    raise WrongCommand(f"exit code {code}: {said.strip()[-400:]}")


@dataclass
class Tries:
    """How commands were tried, and what came of it; equal commands are tried once."""

    known: dict[str, str] = field(default_factory=dict)

    def try_(self, command: Command) -> str:
        """How it was tried; WrongCommand with its place where it does not work."""
        if command.not_run:
            return "not run"
        key = command.text + "\n".join(command.printed)
        if key not in self.known:
            try:
                self.known[key] = self._try(command)
            except WrongCommand as error:
                raise WrongCommand(f"{command.where}: {command.text}\n  {error}") from None
        return self.known[key]

    def _try(self, command: Command) -> str:
        first, *_others = [self._try_words(words, command.printed) for words in calls_of(command.text)]
        return first

    def _try_words(self, words: list[str], printed: Sequence[str]) -> str:
        name = Path(words[0]).name
        if name in entry_points():
            return _try_ours([name, *words[1:]], printed)
        if name == "make":
            return _try_make(words[1:])
        if name in ("python", "pytest"):
            return _try_found(name, words[1:])
        if name == "source" and len(words) > 1:
            return _try_source(words[1:])
        if name == "eval" and (inner := re.fullmatch(r"\$\((.+)\)", words[1])):
            return self._try_words(words_of(inner[1]), printed)
        if name in ("export", "cd", "head", "source"):  # source alone reads what comes through a pipe
            return "set"
        raise WrongCommand(f"no rule for {name}: add one to tests/docs_commands.py, or `<!-- not run: why -->` above")


def _try_ours(words: list[str], printed: Sequence[str]) -> str:
    if words[0] == "spikelm-harness" and importlib.util.find_spec("lm_eval") is None:
        return _try_harness(words)
    asked = set(words)
    if printed:
        _, said = call(words)
        if missing := [line for line in printed if line.strip() not in ("...", "") and line.rstrip() not in said]:
            raise WrongCommand(f"does not print {missing[0]!r}, but:\n{said}")
        return "run"
    if asked & {"dry_run=true", "-sc"}:  # Hydra sets up logging for the whole process
        module = entry_points()[words[0]].partition(":")[0]
        done = subprocess.run([sys.executable, "-m", module, *words[1:]], capture_output=True, text=True, check=False)
        if done.returncode:
            raise WrongCommand(done.stderr.strip()[-600:])
        return "run"
    if asked & {"--help", "--version"} or "--cfg" in asked:
        return _called(words)
    if words[0] == "spikelm-run":
        compose(words[1:])
        return "composed"
    if words[0] == "spikelm-energy" or tuple(words[:2]) in {
        ("spikelm-report",),
        ("spikelm-report", "page"),
        ("spikelm-report", "runs"),
        ("spikelm-report", "run"),
        ("spikelm-report", "command"),
    }:
        return _called(words)
    namespace, rest = parsed(words)
    overrides = [*getattr(namespace, "overrides", []), *rest]
    if overrides:
        groups = {"scale": "scale", "source": "source", "launcher": "hydra/launcher"}
        options = [(group, getattr(namespace, name, "")) for name, group in groups.items()]
        compose(["-m", *(f"{group}={value}" for group, value in options if value), *overrides])
    return "parsed"


def _try_harness(words: list[str]) -> str:
    """Without the harness its options cannot be read: our own page has to come, and our own task to be there."""
    given = dict(pairwise(words))
    if (folder := given.get("--include_path")) and not (PROJECT / folder / f"{given['--tasks']}.yaml").is_file():
        raise WrongCommand(f"{folder} has no task {given['--tasks']}")
    _called([words[0], "--help"])
    return "found"


def _called(words: Sequence[str]) -> str:
    code, said = call(words)
    if code:
        raise WrongCommand(f"exit code {code}: {said.strip()[-600:]}")
    return "run"


def compose(words: Sequence[str]) -> None:
    """What spikelm-run checks before it trains; other options of a sweep are looked up, which says the same sooner."""
    from hydra._internal.utils import get_args_parser

    from spikelm.cli.command_line import precheck
    from spikelm.config.overrides import sweep_values
    from spikelm.config.plugins import option_names
    from spikelm.errors import SpikeLMError

    overrides = get_args_parser().parse_args(list(words)).overrides
    try:
        known = {}
        for values in sweep_values(overrides):
            group = values[0].partition("=")[0]
            if len(values) > 1 and group in ("task", "neuron", "system", "weights"):
                known[group] = values[0]
                for value in values[1:]:
                    if value.partition("=")[2] not in option_names(group):
                        raise WrongCommand(f"{value} is not there")
        precheck([known.get(word.partition("=")[0], word) for word in words])
    except SpikeLMError as error:
        raise WrongCommand(str(error)) from None


def _try_make(words: list[str]) -> str:
    text = (PROJECT / "Makefile").read_text()
    for word in words:
        name, given, _ = word.partition("=")
        if given and not re.search(rf"^{name} \?=|\$\({name}\)|filter \w+,\$\({name}\)", text, re.MULTILINE):
            raise WrongCommand(f"the Makefile has no variable {name}")
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(PROJECT), "-n", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WrongCommand(done.stderr.strip())
    for line in done.stdout.splitlines():
        called = line.split()
        if called and called[0].startswith(".venv/bin/spikelm-"):
            _try_ours([Path(called[0]).name, *shlex.split(line)[1:]], ())
    return "made"


def _try_found(name: str, words: list[str]) -> str:
    if name == "python" and words[0] == "-c":
        compile(words[1], "python -c", "exec")
        return "found"
    if name == "python" and words[0] == "-m":
        if "NAME" not in words[1] and importlib.util.find_spec(words[1]) is None:
            raise WrongCommand(f"there is no module {words[1]}")
        if words[1] == "benchmarks":
            from benchmarks.__main__ import NAMES

            if unknown := [word for word in words[2:] if not word.startswith("-") and word not in NAMES]:
                raise WrongCommand(f"there is no benchmark {unknown[0]}")
        return "found"
    files = [word.partition("::")[0] for word in words if "/" in word or word.endswith(".py")]
    if missing := [file for file in files if not (PROJECT / file).exists()]:
        raise WrongCommand(f"{missing[0]} is not there")
    if name == "pytest" and "-k" in words:
        wanted = words[words.index("-k") + 1]
        sources = [(PROJECT / file).read_text() for file in files if file.endswith(".py")]
        if sources and not any(wanted in source for source in sources):
            raise WrongCommand(f"no test of {files} is called {wanted}")
    return "found"


def _try_source(words: list[str]) -> str:
    if not (PROJECT / words[0]).is_file():
        raise WrongCommand(f"{words[0]} is not there")
    script = f"source {shlex.quote(words[0])} && command -v spikelm-run"
    done = subprocess.run(["bash", "-c", script], cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongCommand(f"spikelm-run is not on the path behind it: {done.stderr}")
    return "run"


def smoke(command: Command) -> list[str] | None:
    """The same spikelm-run at scale=smoke, of a sweep the first job; None where the data or devices are not here."""
    from spikelm.config.overrides import sweep_values

    words = words_of(command.text)
    if Path(words[0]).name != "spikelm-run" or command.not_run or command.printed:
        return None
    if {"--help", "--cfg", "--version", "-sc", "dry_run=true"} & set(words) or "--config-dir" in words:
        return None
    elsewhere = ("source=", "source.", "scale=paper", "scale=minilm", "backbone=", "backbone.", "task.files", "hydra/")
    if any(word.startswith(elsewhere) for word in words):
        return None
    kept = [values[0] for values in sweep_values([word for word in words[1:] if word != "-m"])]
    return [*(word for word in kept if not word.startswith("scale=")), "scale=smoke"]


def main() -> None:
    """List every command and how `make test` tries it, and count."""
    sys.path.insert(0, str(PROJECT))
    counts: Counter[str] = Counter()
    from docs_sandbox import sandbox

    with sandbox() as tries:
        for page in pages():
            print(f"\n{page.relative_to(PROJECT)}")
            for command in commands(page):
                try:
                    how = tries.try_(command)
                except WrongCommand as error:
                    how = "WRONG"
                    print(f"  {error}")
                counts[how] += 1
                why = f"   ({command.not_run})" if command.not_run else ""
                print(f"  {how:<9} {command.text}{why}")
    python = [block for page in pages() for block in blocks(page) if block.language == "python"]
    print(f"\n{sum(counts.values())} commands: " + ", ".join(f"{number} {how}" for how, number in counts.most_common()))
    print(f"{len(python)} blocks of Python, {sum(bool(block.slow) for block in python)} of them in the slow tests")


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(Path(__file__).parent))
    importlib.import_module("docs_commands").main()  # the module that the sandbox knows
