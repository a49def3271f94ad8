"""What every command says of itself with --help, and of a mistake in its words: one layout, one style."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from spikelm import __version__
from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError

MISTAKE = "a mistake in the command, which the message names"
#: exit codes of a command that only reads and answers
ANSWERS = {0: "done", 2: MISTAKE}
#: of a command that looks for a run
FOUND = {0: "done", 1: "the run is not finished, or its records cannot be read", 2: f"{MISTAKE}; or no such run"}
#: of a command that trains
TRAINS = {
    0: "done",
    1: "a run failed",
    2: MISTAKE,
    75: "stopped by SIGTERM or SIGUSR1: the same command goes on",
    130: "stopped by Ctrl-C: the same command goes on",
}
COMMON = ("--runs-dir", "--help", "--version")
INDENT, WIDEST = 4, 110
KINDS = {"int": "a whole number", "float": "a number"}


@dataclass(frozen=True)
class Manual:
    """A command in words: its arguments and options are the parser's."""

    name: str
    about: str  # the end of the line NAME
    description: str
    examples: Mapping[str, str]  # command -> what it does
    exits: Mapping[int, str] = field(default_factory=lambda: ANSWERS)
    read_more: Sequence[str] = ()
    chapters: Callable[[], Mapping[str, str]] = dict  # further ones, made when the page is printed


class ManualParser(argparse.ArgumentParser):
    """A parser whose --help is a manual page, whose --version is spikelm's, and whose mistakes are ConfigErrors."""

    def __init__(self, manual: Manual, **options: Any) -> None:
        options = {**options, "prog": manual.name, "add_help": False, "conflict_handler": "resolve"}
        super().__init__(**options)
        self.manual = manual
        self.add_argument("-h", "--help", action="help", help="show this page")
        self.add_argument("--version", action="version", version=f"spikelm {__version__}", help="show the version")

    def format_help(self) -> str:
        chapters = {
            "NAME": f"{self.manual.name} - {self.manual.about}",
            "USAGE": self._usage(),
            "DESCRIPTION": "\n\n".join(map(_filled, self.manual.description.split("\n\n"))),
            **self._words(),
            **self.manual.chapters(),
            "EXAMPLES": "\n".join(f"{command}\n    {does}" for command, does in self.manual.examples.items()),
            "EXIT CODES": columns((str(code), meaning) for code, meaning in self.manual.exits.items()),
            "READ MORE": "\n".join(self.manual.read_more),
        }
        told = (f"{title}\n{textwrap.indent(text, ' ' * INDENT)}\n" for title, text in chapters.items() if text)
        return "\n".join(told)

    def _usage(self) -> str:
        arguments = [_shown(action) for action in self._actions if not action.option_strings]
        needed = [_flags(action) for action in self._actions if action.option_strings and action.required]
        return " ".join([self.prog, *arguments, *needed, "[options]"])

    def shown(self) -> list[argparse.Action]:
        """The arguments and options that --help tells of."""
        return [action for action in self._actions if action.help is not argparse.SUPPRESS]

    def long_flags(self) -> list[str]:
        """The options that --help tells of, by their long names."""
        return [flag for action in self.shown() for flag in action.option_strings if flag.startswith("--")]

    def _words(self) -> dict[str, str]:
        """Arguments, commands and options, each with what it does and its default."""
        visible = self.shown()
        commands = [action for action in visible if isinstance(action, argparse._SubParsersAction)]
        arguments = [action for action in visible if not action.option_strings and action not in commands]
        options = [action for action in visible if action.option_strings]
        return {
            "ARGUMENTS": columns((_value_name(action), _meaning(action)) for action in arguments),
            "COMMANDS": columns(
                (choice.dest, choice.help or "") for action in commands for choice in action._get_subactions()
            ),
            "OPTIONS": columns((_flags(action), _meaning(action)) for action in sorted(options, key=_is_common)),
        }

    def error(self, message: str) -> NoReturn:
        """argparse's message in the style of all others."""
        if found := re.match(r"unrecognized arguments: (\S+)", message):
            word, kind = found[1], "option" if found[1].startswith("-") else "argument"
            flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
            meant = nearest(word.partition("=")[0], flags) if kind == "option" else ""
            raise self._mistake(f"{self.prog} has no {kind} {word}{meant}")
        if found := re.match(r"the following arguments are required: (.+)", message):
            raise ConfigError(f"{self.prog} needs {found[1]}", next(iter(self.manual.examples)))
        if found := re.match(r"argument (\S+): expected (.+)", message):
            flag, wanted = max(found[1].split("/"), key=len), found[2].replace("argument", "value")
            raise self._mistake(f"{flag} needs {wanted}")
        raise self._mistake(message)

    def _mistake(self, what: str) -> ConfigError:
        return ConfigError(what, f"{self.prog} --help")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            kind = KINDS.get(str(getattr(action.type, "__name__", "")), "valid")
            raise self._mistake(f"{_name(action)} {arg_string} is not {kind}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(action.choices or ())
        if not choices or value in choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            raise self._mistake(f"{self.prog} has no command {value}{nearest(value, choices)}")
        raise self._mistake(f"{_name(action)} {value} is not valid{nearest(str(value), map(str, choices))}")


def check_config_dir(folder: str | None) -> None:
    """Raise where options of one's own are not where they are said to be."""
    if folder is not None and not os.path.isdir(folder):
        raise ConfigError(f"--config-dir {folder} is not a folder", "--config-dir DIR, with neuron/mine.yaml in it")


def _name(action: argparse.Action) -> str:
    return next((flag for flag in action.option_strings if flag.startswith("--")), _value_name(action))


def _value_name(action: argparse.Action) -> str:
    named = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return "|".join(map(str, action.choices)) if action.choices and not action.metavar else named


def _shown(action: argparse.Action) -> str:
    """An argument as the line USAGE has it."""
    name = _value_name(action)
    many = str(getattr(action, "save_nargs", action.nargs))  # argparse puts it aside while words are intermixed
    return {"*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}.get(many, name)


def _flags(action: argparse.Action) -> str:
    """An option with the name of its value: `-c, --cfg job|hydra|all`."""
    flags = ", ".join(sorted(action.option_strings, key=len))
    if action.nargs == 0:
        return flags
    return f"{flags} [{_value_name(action)}]" if action.nargs == "?" else f"{flags} {_value_name(action)}"


def _meaning(action: argparse.Action) -> str:
    """What it does, with its default where the text does not say it."""
    said = action.help or ""
    told = action.default in (None, False, "", argparse.SUPPRESS) or action.nargs in (0, "*") or "default" in said
    return said if told else f"{said} (default: {action.default})"


def _is_common(action: argparse.Action) -> int:
    """The options that every command has come last."""
    return COMMON.index(_name(action)) + 1 if _name(action) in COMMON else 0


def columns(rows: Iterable[tuple[str, str]]) -> str:
    """Words and their meanings side by side; a word that is too long has a line of its own."""
    pairs = list(rows)
    width = min(max((len(word) for word, _ in pairs), default=0), 26) + 2
    lines = []
    for word, meaning in pairs:
        beside = len(word) + 2 <= width
        first = f"{word:<{width}}" if beside else " " * width
        if not beside:
            lines.append(word)
        lines.append(_filled(meaning, first, " " * width))
    return "\n".join(line.rstrip() for line in lines)


def _filled(text: str, first: str = "", others: str = "") -> str:
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST) - INDENT
    filler = textwrap.TextWrapper(max(width, 50), first, others, break_long_words=False, break_on_hyphens=False)
    return filler.fill(text)
