"""spikelm-export --push, against a hub on loopback: nothing without a token, no token in what is said or sent."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback

from spikelm.cli.export import export_main
from spikelm.cli.push import check_push, push
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.store.written_files import WrittenFiles

TOKEN = "a-token-of-the-hub"


class Hub(Loopback):
    """A hub that keeps what is committed to its one repository."""

    def __init__(self) -> None:
        super().__init__()
        self.private: bool | None = None  # None: the repository is not there
        self.files: dict[str, bytes] = {}
        self.refuses = False

    def respond(self, path: str, sent: bytes) -> tuple[int, Any]:
        if self.refuses:
            return 403, {"error": f"no rights for {TOKEN}"}
        if path == "/api/repos/create":
            if self.private is None:
                self.private = json.loads(sent).get("visibility") == "private"
            return 200, {"url": f"{self.url}/jane/film"}
        if "/preupload/" in path:
            asked = json.loads(sent)["files"]
            return 200, {
                "files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in asked]
            }
        if "/commit/" in path:
            for line in sent.splitlines():
                if (part := json.loads(line))["key"] == "file":
                    self.files[part["value"]["path"]] = base64.b64decode(part["value"]["content"])
            return 200, {"commitUrl": f"{self.url}/jane/film/commit/0", "commitOid": "0" * 40}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        return 200, {"id": "jane/film", "private": bool(self.private), "sha": "0" * 40, "siblings": [], "tags": []}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A hub on loopback, and a machine that has a token for it."""
    server = Hub()
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    yield server
    server.stop()


@pytest.fixture
def exported(tmp_path: Path) -> WrittenFiles:
    """Two files written into a folder that has others."""
    made = tmp_path / "exported"
    (made / "thesis").mkdir(parents=True)
    (made / "thesis" / "thesis.pdf").touch()
    (made / "config.json").touch()
    written = WrittenFiles(made)
    (made / "README.md").write_text("---\nlibrary_name: spikelm\n---\n# film\n")
    (made / "model.safetensors").write_bytes(bytes(range(256)))
    return written


def test_the_folder_is_on_the_hub(hub: Hub, exported: WrittenFiles) -> None:
    check_push("jane/film")
    assert push(exported, "jane/film", private=True) == f"{hub.url}/jane/film"
    assert hub.private
    assert hub.files == {name: (exported.folder / name).read_bytes() for name in ("README.md", "model.safetensors")}


def test_what_shall_be_private_does_not_go_where_everybody_sees_it(hub: Hub, exported: WrittenFiles) -> None:
    hub.private = False
    with pytest.raises(ConfigError, match="everybody sees it"):
        push(exported, "jane/film", private=True)
    assert hub.files == {}
    push(exported, "jane/film", private=False)
    assert len(hub.files) == 2


def test_a_refusal_is_told_without_the_token(hub: Hub, exported: WrittenFiles) -> None:
    hub.refuses = True
    with pytest.raises(SpikeLMError, match="did not take jane/film") as refused:
        push(exported, "jane/film", private=False)
    assert "hf upload jane/film" in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_without_a_token_nothing_is_begun(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ConfigError, match="no token") as refused:
        export_main(["no-such-run", "--push", "jane/film"])  # the token is asked for before the run
    assert "hf auth login" in str(refused.value)


@pytest.mark.parametrize("name", ["film", "jane/film/2", "jane/fi lm", "/film", "jane/"])
def test_a_repository_has_an_owner_and_a_name(name: str, hub: Hub) -> None:
    with pytest.raises(ConfigError, match="not the name of a repository"):
        check_push(name)


def test_a_variable_that_forbids_the_network_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE=1 forbids"):
        check_push("jane/film")


def test_private_alone_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="--private has no effect"):
        export_main(["no-such-run", "--private"])
