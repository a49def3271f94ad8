"""What make exports and installs, as make itself says it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
SHOW = 'show: ; @echo "HF_HUB_OFFLINE=$$HF_HUB_OFFLINE WANDB_MODE=$$WANDB_MODE"'
INDEX = "https://packages.example/whl/cu126"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*words: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "WANDB_MODE")}
    command = ["make", "--no-print-directory", "-C", str(ROOT), *words]
    return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "offline"),
    [
        ([], "1"),
        (["SCALE=smoke", "SOURCE=embedded"], "1"),
        (["SCALE=paper"], ""),
        (["SCALE=paper", "SOURCE=embedded"], ""),
        (["SOURCE=hub"], ""),
    ],
)
def test_make_forbids_the_network_for_embedded_data_alone(words: list[str], offline: str) -> None:
    assert make("--eval", SHOW, "show", *words) == f"HF_HUB_OFFLINE={offline} WANDB_MODE=\n"


def test_what_the_user_has_set_stays() -> None:
    shown = make("--eval", SHOW, "show", HF_HUB_OFFLINE="0", WANDB_MODE="online")
    assert shown == "HF_HUB_OFFLINE=0 WANDB_MODE=online\n"


def installs(*words: str) -> list[str]:
    """The commands of `make setup` in a folder without an environment."""
    return [line for line in make("-n", "-W", "pyproject.toml", "setup", *words).splitlines() if "pip install" in line]


def test_an_index_of_torch_is_for_torch_alone() -> None:
    assert not any("index" in line for line in installs())
    first, *others = installs(f"TORCH_INDEX={INDEX}")
    assert first.endswith(f"--extra-index-url {INDEX} torch")
    assert not any(INDEX in line for line in others)


def test_the_pinned_version_of_torch_can_be_another() -> None:
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    assert f"torch==.*/torch=={pinned[1]}/" in make("-n", "-W", "pyproject.toml", "setup")
    assert "torch==.*/torch==2.12.0/" in make("-n", "-W", "pyproject.toml", "setup", "TORCH=2.12.0")


@pytest.mark.parametrize("build", ["cpu", "cu126", "cu130"])
def test_a_build_of_the_pinned_version_satisfies_the_pin(build: str) -> None:
    (pin,) = (line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    specifier = SpecifierSet(pin.removeprefix("torch"))
    version = pin.removeprefix("torch==")
    assert specifier.contains(f"{version}+{build}"), "pip ignores a build's label where the pin has none"
    assert not specifier.contains(f"{version}.1+{build}")


@pytest.mark.parametrize(("table", "task"), [("field", "glue/rte"), ("decoders", "lm/embedded")])
def test_a_table_of_our_own_is_reproduced_with_the_same_variables_as_the_papers(table: str, task: str) -> None:
    words = ["SCALE=smoke", "SEEDS=1,2", f"TASKS={task}", "LAUNCHER=basic"]
    called = [line for line in make("-n", f"reproduce-{table}", *words).splitlines() if "spikelm-report" in line]
    assert called == [
        f".venv/bin/spikelm-report reproduce {table} --scale smoke --seeds 1,2  --tasks {task}  --launcher basic"
    ]
    assert re.search(rf"^  reproduce-{table} +\S", make("help"), re.MULTILINE)
