"""The Tab key behind spikelm-run: what is offered, in process and in a real bash."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spikelm.cli.command_line import precheck
from spikelm.cli.completion import scripts
from spikelm.config.checks import OPEN, all_keys
from spikelm.config.paths import config_dir

PROJECT = Path(__file__).resolve().parents[2]


def offered(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COMP_LINE", f"spikelm-run {line}")
    assert precheck(["-sc", "query=bash"]) is None
    return capsys.readouterr().out.split()


@pytest.mark.parametrize("group", ["task", "neuron", "system", "scale", "backbone"])
def test_every_option_of_a_group(
    group: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = config_dir() / group
    files = (path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))
    expected = {f"{group}={name}" for name in files if not name.startswith("at/")}
    assert set(offered(f"{group}=", capsys, monkeypatch)) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("task=glue/m", ["task=glue/mnli", "task=glue/mrpc"]),
        ("-m task=glue/rte neuron=lif,bispike_f", ["neuron=lif,bispike_fixed"]),
        ("trainer.compile=", [f"trainer.compile={word}" for word in ("auto", "off", "neurons", "model")]),
        ("force=", ["force=true", "force=false"]),
        ("hydra/launcher=pa", ["hydra/launcher=parallel"]),
        ("--mul", ["--multirun"]),
        ("finetune.sch", ["finetune.schedule."]),
        ("finetune.schedule.w", ["finetune.schedule.warmup="]),
        ("fig", []),
        ("tab", []),
    ],
)
def test_what_is_offered(
    line: str, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(line, capsys, monkeypatch) == words


def test_every_setting_can_be_reached(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    reached, waiting = set[str](), [""]
    while waiting:
        for word in offered(waiting.pop(), capsys, monkeypatch):
            if word.endswith("."):
                waiting.append(word)
            else:
                reached.add(word.removesuffix("="))
    keys = set(all_keys())
    parents = {key.rpartition(".")[0] for key in keys}
    leaves = {key for key in keys if key not in parents and key not in OPEN}  # the keys of OPEN are their class's
    assert len(leaves) > 100
    assert leaves <= reached


def test_shells_are_told_the_options_of_commands_without_settings() -> None:
    others = {"spikelm-generate": ["--seed", "--beams"]}
    assert scripts(["install=bash"], others) == "complete -o default -W '--beams --seed' spikelm-generate"
    assert scripts(["install=zsh"], others) == scripts(["install=bash"], others)
    fish = ["complete -c spikelm-generate -l beams", "complete -c spikelm-generate -l seed"]
    assert scripts(["install=fish"], others).splitlines() == fish
    assert scripts(["uninstall=bash"], others) == "complete -r spikelm-generate"
    assert scripts(["uninstall=fish"], others) == "complete -e -c spikelm-generate"
    assert scripts(["query=bash"], others) == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_bash_completes_the_word(tmp_path: Path) -> None:
    command = tmp_path / "spikelm-run"
    command.write_text(
        f"#!{sys.executable}\nimport sys; sys.path[:0] = [{str(PROJECT)!r}]\n"
        "from spikelm.cli.main import run\nrun()\n"
        "assert not {'torch', 'transformers', 'lightning'} & set(sys.modules), 'slow'\n"
    )
    command.chmod(0o755)
    script = """
eval "$(spikelm-run -sc install=bash)"
complete -p spikelm-run
COMP_LINE="spikelm-run task=glue/r" COMP_POINT=23 COMP_CWORD=1
hydra_bash_completion
echo "reply: ${COMPREPLY[*]}"
complete -p spikelm-generate
"""
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert "-F hydra_bash_completion spikelm-run" in done.stdout
    assert "reply: task=glue/rte\n" in done.stdout
    assert re.search(r"complete -o default -W '--beams --chat .*--top-p.*' spikelm-generate", done.stdout)
    assert done.stderr == ""
