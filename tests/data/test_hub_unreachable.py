"""A hub that refuses or hangs: one question, one line with the command that helps, no minutes of trying again."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback
from rich.console import Console

from spikelm.catalog.checkpoint_files import weights_folder
from spikelm.config.compose import load_config
from spikelm.data.sources.rows import load_rows
from spikelm.errors import ConfigError, DataError
from spikelm.machine import services
from spikelm.machine.offline import VARIABLES


class Hub(Loopback):
    """A hub that has nothing."""

    def respond(self, path: str, sent: bytes) -> tuple[int, Any]:
        return 404, {}


@pytest.fixture(params=["refuses", "hangs"])
def silent_hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """What is said of a hub at an address where nobody listens, or nobody answers."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(services, "PATIENCE", 0.3)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        if request.param == "hangs":
            place.listen(5)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{place.getsockname()[1]}")
        yield "timed out" if request.param == "hangs" else "refused"


@pytest.fixture
def never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's library may look into its cache, and nothing else."""
    import huggingface_hub

    def cached(*args: Any, local_files_only: bool = False, **options: Any) -> str:
        assert local_files_only, "the network was tried again"
        raise OSError("not in the cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", cached)


@pytest.mark.usefixtures("never_again")
def test_rows_of_a_silent_hub_name_the_way_out(silent_hub: str, runs_dir: Path) -> None:
    config = load_config(["task=glue/rte", "source=hub"])
    with pytest.raises(DataError, match="could not be loaded: it is not in the hub's cache") as caught:
        load_rows(config.task, config.source)
    assert f"127.0.0.1 cannot be reached ({silent_hub}" in caught.value.what.replace("[Errno 111] Connection ", "")
    assert caught.value.fix.startswith("hf download nyu-mll/glue --repo-type dataset")


@pytest.mark.usefixtures("never_again")
def test_weights_of_a_silent_hub_name_the_way_out(silent_hub: str) -> None:
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1 cannot be reached") as caught:
        weights_folder("google/bert")
    assert "hf download google/bert" in caught.value.fix


@pytest.mark.usefixtures("never_again")
def test_a_run_says_it_before_torch_is_loaded(silent_hub: str, runs_dir: Path) -> None:
    from spikelm.runs.experiment import run_experiment

    printed = io.StringIO()
    config = load_config(["scale=smoke", "task=glue/rte", "source=hub", "tracker.mode=disabled"])
    with pytest.raises(DataError):
        run_experiment(config, Console(file=printed, width=200))
    assert printed.getvalue().startswith("warning: 127.0.0.1 cannot be reached")
    assert printed.getvalue().count("warning:") == 1, "not again for the pretrained model, which comes first"


def test_a_hub_that_answers_anything_is_left_to_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    try:
        assert services.cannot_fetch() == ""
    finally:
        hub.stop()
    assert services.cannot_fetch() == "", "asked once"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE=1" in services.cannot_fetch()
