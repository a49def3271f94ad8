"""The server: this machine only, its own pages only, and only what changed is new."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up import run_id, write
from rich.console import Console

from spikelm.errors import ConfigError, SpikeLMError
from spikelm.report.page.serve import Rebuilder, Server, open_server
from spikelm.report.page.site import Site


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path, 1)
    write(tmp_path, 2, neuron="ann")
    Site(tmp_path, seconds=0.0).build()
    return tmp_path


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    with open_server(store / "report", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    server: Server, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_pages_are_served_and_known_ones_are_not_sent_again(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    status, headers, body = ask(server, "/")
    assert status == 200
    assert b"<h1>Overview</h1>" in body
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert ask(server, f"/run/{run_id(1)}.html")[0] == 200
    assert ask(server, "/runs.html?x=1")[0] == 200
    assert ask(server, "/index.html", headers={"If-None-Match": headers["etag"]})[::2] == (304, b"")
    status, again, nothing = ask(server, "/index.html", "HEAD")
    assert (status, nothing, again["etag"]) == (200, b"", headers["etag"])
    assert again["content-length"] == str(len(body))


def test_assets_are_kept_by_the_browser_and_large_answers_are_packed(server: Server, store: Path) -> None:
    (library,) = (store / "report" / "assets").glob("plotly-*.js")
    packed = {"Accept-Encoding": "gzip, br"}
    status, headers, body = ask(server, f"/assets/{library.name}", headers=packed)
    assert status == 200
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in headers["cache-control"], "five megabytes are sent once, not with every page"
    assert gzip.decompress(body) == library.read_bytes()
    assert len(body) < library.stat().st_size / 2
    status, headers, body = ask(server, f"/data/{run_id(1)}.js")
    assert (status, headers["cache-control"]) == (200, "no-cache"), "a run goes on"
    assert body.startswith(b"spikelm.take(")
    assert ask(server, "/compare.html")[0] == 200
    (style,) = (store / "report" / "assets").glob("style-*.css")
    assert ask(server, f"/assets/{style.name}")[1]["content-type"] == "text/css; charset=utf-8"


def test_nothing_but_the_pages_can_be_asked_for(server: Server, store: Path) -> None:
    secret = store / "secret.html"
    secret.write_text("secret")
    (store / "report" / "run" / "link.html").symlink_to(secret)
    (store / "report" / "other.html").write_text("another")
    folder = next((store / "glue-rte").iterdir()).name
    paths = [
        "/../secret.html",
        "/run/../../secret.html",
        "/%2e%2e/secret.html",
        "/run/%2e%2e%2f%2e%2e%2fsecret.html",
        "//etc/passwd",
        "/run/link.html",
        "/run/",
        "/run",
        "/.state.json",
        "/other.html",
        f"/../glue-rte/{folder}/result.json",
        "/run/none.html",
        "/assets/",
        "/assets/../.state.json",
        "/assets/secret.html",
        "/data/../../secret.html",
        "/run/a\0.html".replace("\0", "%00"),
    ]
    for path in paths:
        status, _, body = ask(server, path)
        assert (status, b"secret" in body) == (404, False), path
    assert ask(server, "/", "POST")[0] == 501
    assert ask(server, "/", headers={"Host": "evil.example:80"})[0] == 403
    assert ask(server, "/", headers={"Host": "localhost:1"})[0] == 200


def test_a_run_that_finishes_changes_its_pages_and_no_others(server: Server, store: Path) -> None:
    pages = ("/index.html", "/runs.html", f"/run/{run_id(1)}.html", f"/run/{run_id(2)}.html")
    before = {page: ask(server, page, "HEAD")[1]["etag"] for page in pages}
    rebuilder = Rebuilder(Site(store, seconds=0.0), 3600, Console(quiet=True))
    rebuilder.once()
    assert before == {page: ask(server, page, "HEAD")[1]["etag"] for page in pages}
    write(store, 2, neuron="ann", score=91.0)
    rebuilder.once()
    changed = [page for page in pages if ask(server, page, "HEAD")[1]["etag"] != before[page]]
    assert changed == ["/index.html", "/runs.html", f"/run/{run_id(2)}.html"]
    assert b"91.00" in ask(server, f"/run/{run_id(2)}.html")[2]


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SpikeLMError, match=f"port {port} of 127.0.0.1 is taken") as caught:
            open_server(tmp_path, port)
    assert "--port 0" in caught.value.fix
    with pytest.raises(ConfigError, match="65535"):
        open_server(tmp_path, 70000)


def test_a_build_that_fails_does_not_end_the_server(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    site = Site(store, seconds=0.0)
    console = Console(quiet=True)
    monkeypatch.setattr(console, "print", lambda text, **options: said.append(text))
    rebuilder = Rebuilder(site, 3600, console)
    monkeypatch.setattr(site, "build", lambda: (_ for _ in ()).throw(SpikeLMError("disk full")))
    rebuilder.once()
    rebuilder.once()
    assert said == ["not built: disk full"], "once, not every five seconds"
