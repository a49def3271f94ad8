"""What the Tab key offers behind spikelm-run: flags, groups and their options, settings and their values.

What installs that also makes the shell offer the options of the commands that have no settings.

Hydra makes the shells ask (`spikelm-run -sc install=bash`), but knows neither options in folders (task=glue/mnli) nor
the values of a setting, and offers folders of conf/ that no run chooses from. The answer is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spikelm.config.checks import OPEN, all_keys
from spikelm.config.compose import group_names
from spikelm.config.plugins import option_names
from spikelm.config.settings.fields import rule_of
from spikelm.config.settings.schema import Composed

QUESTION = "query="  # query=bash among the words after -sc
OF_HYDRA = {
    "hydra/launcher": ("basic", "joblib", "parallel", "slurm"),
    "hydra/sweeper": ("basic", "jobs"),
}


def asking_shell(words: Sequence[str]) -> str:
    """The shell that asks, or nothing."""
    return next((word.removeprefix(QUESTION) for word in words if word.startswith(QUESTION)), "")


def scripts(words: Sequence[str], others: Mapping[str, Iterable[str]]) -> str:
    """What a shell is told of the options of `others`, by command, where Hydra's completion is put in or taken out."""
    asked = dict(word.split("=", 1) for word in words if word.startswith(("install=", "uninstall=")))
    lines = []
    for command, flags in others.items():
        if asked.get("install") == "fish":
            lines += [f"complete -c {command} -l {flag.removeprefix('--')}" for flag in sorted(flags)]
        elif "install" in asked:  # bash, and zsh with its bashcompinit, as for Hydra's own
            lines.append(f"complete -o default -W '{' '.join(sorted(flags))}' {command}")
        elif "uninstall" in asked:
            lines.append(f"complete {'-e -c' if asked['uninstall'] == 'fish' else '-r'} {command}")
    return "\n".join(lines)


def answer(line: str, flags: Iterable[str], shell: str) -> str:
    """What may stand in the place of the line's last word, as the shell reads it."""
    return ("\n" if shell == "fish" else " ").join(candidates(line, flags))


def candidates(line: str, flags: Iterable[str]) -> list[str]:
    """Every word that the last word of a command line may become; of keys up to the next dot only."""
    word = line.rpartition(" ")[2]
    if word.startswith("-"):
        return sorted(flag for flag in flags if flag.startswith(word))
    key, equals, value = word.partition("=")
    if not equals:
        return _keys(word)
    before, comma, _ = value.rpartition(",")  # neuron=lif,bi: the second value of a sweep
    offered = (f"{key}={before}{comma}{choice}" for choice in _choices(key))
    return [choice for choice in offered if choice.startswith(word)]


def _choices(key: str) -> Sequence[str]:
    if key in group_names():
        return option_names(key)
    rule = rule_of(Composed, key)
    if rule is None:
        return OF_HYDRA.get(key, ())
    return ("true", "false") if rule.flag else tuple(str(choice) for choice in rule.choices if choice != "")


def _keys(word: str) -> list[str]:
    """Groups, settings and sections that begin with the word."""
    offered = {f"{name}=" for name in (*group_names(), *OF_HYDRA) if name.startswith(word)}
    keys = [key for key in all_keys() if key.startswith(word)]
    inside = {key.rpartition(".")[0] for key in keys}
    for key in keys:
        head, dot, _ = key[len(word) :].partition(".")
        if dot:
            offered.add(f"{word}{head}.")
        elif key not in inside and key not in OPEN:
            offered.add(f"{key}=")
    return sorted(offered)
