"""What a config, a name or a message cannot do: run somebody's code, leave the store, give a key away."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from spikelm.cli.command_line import precheck
from spikelm.config import trust
from spikelm.config.compose import load_config
from spikelm.config.redact import redacted, refuse_secrets
from spikelm.errors import ConfigError
from spikelm.runs.experiment import open_run

SECRET = "planted" + "0123456789abcdef" * 2
HEX = "5ec2e7" * 6 + "5ec2"  # as W&B's older keys look


@pytest.mark.parametrize(
    "overrides",
    [
        ["neuron._target_=os.system"],
        ["neuron._target_=builtins.exec"],
        ["neuron._target_=spikelmevil.Neuron"],
        ["weights=binary", "weights._target_=subprocess.Popen"],
        ["+hydra.callbacks.evil._target_=os.system"],
        ["+hydra.callbacks.evil={_target_: subprocess.Popen, args: [touch, pwned]}"],
        ["hydra.callbacks.summary._target_=spikelm.machine.environment.subprocess.Popen"],  # ours only imports it
        ["+hydra.callbacks.evil._target_=hydra.utils.os.system"],
        ["hydra.launcher._target_=os.system"],
        ["hydra.sweeper._target_=os.system"],
        ["+hydra.job_logging.formatters.evil={(): os.system}"],
        ["+hydra.job_logging.handlers.evil.class=os.system"],
    ],
    ids=str,
)
def test_a_class_of_a_strange_package_is_refused(overrides: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"allowed packages|cannot be imported|not of|not an override|is not"):
        precheck(overrides)


def test_hydras_own_launchers_pass() -> None:
    assert precheck(["-m", "hydra/launcher=basic", "T=1,2"])
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    assert precheck(["-m", "hydra/launcher=joblib", "T=1,2"])


def test_a_package_is_trusted_on_purpose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_trusted", {"spikelm"})
    (tmp_path / "mypackage.py").write_text("import os\nclass Mine: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not trust.allowed("mypackage.Mine")
    monkeypatch.setenv("SPIKELM_ALLOW", "mypackage, other")
    assert trust.allowed("mypackage.Mine")
    assert trust.load("mypackage.Mine", "class").__name__ == "Mine"
    with pytest.raises(ConfigError, match="cannot be imported"):
        trust.load("mypackage.os.system", "class")
    with pytest.raises(ConfigError, match="not of mypackage itself"):
        trust.load("mypackage.os", "class")
    monkeypatch.delenv("SPIKELM_ALLOW")
    assert not trust.allowed("mypackage.Mine")
    trust.trust("mypackage")
    assert trust.allowed("mypackage.Mine")
    assert not trust.allowed("mypackage_evil.Mine")
    assert "mypackage_evil" not in sys.modules


@pytest.mark.parametrize(
    "target", ["", ".", "spikelm", "spikelm.", ".spikelm.x", "spikelm..x", "spikelm.a b", "os.spikelm"]
)
def test_what_is_no_name_of_a_class_is_not_allowed(target: str) -> None:
    assert not trust.allowed(target)


@pytest.mark.parametrize("key", ["task.name", "backbone.name", "neuron.name", "system", "scale", "weights.name"])
@pytest.mark.parametrize("name", ["../../../elsewhere/x", "/elsewhere/x", "a/../../b", "..", "a\x00b", ".hidden"])
def test_names_do_not_leave_the_store(key: str, name: str, tmp_path: Path) -> None:
    try:
        config = load_config([f"{key}='{name}'", f"runs_dir={tmp_path / 'runs'}"])
    except ConfigError:
        return
    directory = open_run(config).directory.resolve()
    assert directory.is_relative_to((tmp_path / "runs").resolve())


def test_every_name_of_ours_passes_and_a_path_does_not() -> None:
    with pytest.raises(ConfigError, match=r"task\.name"):
        load_config(["task.name=../x"])
    assert load_config(["task=glue/rte", "system=spikelm_t4"]).task.name == "glue/rte"


@pytest.mark.parametrize(
    "override",
    [
        f"tracker.entity={SECRET}",
        f"tracker.project=x-{SECRET}",
        f"+tracker.api_key={HEX}",
        "tracker.group=hf_" + "aB3" * 10,
        "tracker.group=wandb_v1_" + "aB3" * 10,
    ],
)
def test_a_key_in_an_override_is_refused_and_not_repeated(override: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    with pytest.raises(ConfigError, match="looks like a key") as caught:
        precheck([override])
    assert override.partition("=")[2].removeprefix("x-") not in str(caught.value)


def test_revisions_of_the_hub_are_no_keys() -> None:
    refuse_secrets([f"backbone.path=some/model@{HEX}", f"source.revision={HEX}", f"source.text=[{{revision: {HEX}}}]"])


def test_messages_and_records_hold_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rich.console import Console

    from spikelm.errors import SpikeLMError
    from spikelm.runs import experiment
    from spikelm.training import launch

    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert redacted(f"401 for url https://x?token={SECRET}") == "401 for url https://x?token=***"

    def leaks(*_: Any) -> Any:
        raise RuntimeError(f"Authorization: Bearer {SECRET}")

    monkeypatch.setattr(launch, "train", leaks)
    config = load_config(["scale=smoke", "task=pretrain", f"runs_dir={tmp_path}", "tracker.mode=disabled"])
    with pytest.raises(SpikeLMError) as caught:
        experiment.run_experiment(config, Console(quiet=True))
    assert SECRET not in str(caught.value)
    status = json.loads((open_run(config).directory / "status.json").read_text())
    assert "Bearer ***" in status["message"]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
