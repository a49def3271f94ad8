"""The hub and W&B: what forbids them, whether a key is there, and whether they answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from spikelm.machine.services import hub, hub_cache, unreachable, wandb

VARIABLES = (
    "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "XDG_CACHE_HOME", "WANDB_MODE", "WANDB_API_KEY",
    "WANDB_BASE_URL", "NETRC", "HTTP_PROXY", "http_proxy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person who has set nothing."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_tokens_and_keys_are_found_where_the_libraries_look(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (hub().logged_in, wandb().logged_in) == (False, False)
    (home / ".cache" / "huggingface").mkdir(parents=True)
    (home / ".cache" / "huggingface" / "token").write_text("hf_x\n")
    (home / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password secret\n")
    (home / ".netrc").chmod(0o600)
    assert (hub().logged_in, wandb().logged_in) == (True, True)
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example")
    monkeypatch.setenv("HF_HOME", str(home / "elsewhere"))
    assert (hub().logged_in, wandb().logged_in) == (False, False)
    assert hub_cache() == home / "elsewhere" / "hub"
    monkeypatch.setenv("HF_TOKEN", "hf_y")
    monkeypatch.setenv("WANDB_API_KEY", "key")
    assert (hub().logged_in, wandb().logged_in) == (True, True)
    assert "hf_y" not in repr(hub())
    assert "key" not in repr(wandb())


@pytest.mark.parametrize(
    ("name", "value", "forbidden"),
    [("HF_HUB_OFFLINE", "1", True), ("HF_DATASETS_OFFLINE", "True", True), ("HF_HUB_OFFLINE", "0", False)],
)
def test_variables_that_forbid_the_hub(name: str, value: str, forbidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert hub().forbidden == (f"{name}={value}" if forbidden else "")


def test_an_address_with_a_password_is_shown_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://user:password@hub.example/path")
    assert hub().host == "hub.example"


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    class Answers(BaseHTTPRequestHandler):
        code = 200

        def do_HEAD(self) -> None:
            self.send_response(self.server.code)  # type: ignore[attr-defined]
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Not on the screen."""

    made = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize(("code", "trouble"), [(200, ""), (404, ""), (401, ""), (503, "it answers with code 503")])
def test_whatever_a_service_answers_it_is_there(server: HTTPServer, code: int, trouble: str) -> None:
    server.code = code  # type: ignore[attr-defined]
    assert unreachable(f"http://name:password@127.0.0.1:{server.server_port}", 5) == trouble


def test_a_service_that_is_not_there_or_never_answers() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "refused" in unreachable(address, 1)
        silent.listen(1)
        started = time.monotonic()
        assert "timed out" in unreachable(address, 0.3)
        assert time.monotonic() - started < 3
    assert unreachable("ftp://x", 1) == unreachable("http://x:port", 1) == "it is no address of the web"
