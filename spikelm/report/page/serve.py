"""spikelm-report serve: the site on this machine alone, made again while runs go on."""

from __future__ import annotations

import errno
import re
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rich.console import Console

from spikelm.errors import ConfigError, SpikeLMError
from spikelm.report.page.site import Site

HOST = "127.0.0.1"  # never another: the page shows data and paths of its owner
PORT = 8321
SECONDS = 5.0  # between two looks at the store
#: the pages there are; no other file, hidden ones and those of other folders included, can be named
PAGE = re.compile(r"/(?:(?:index|runs|tables|figures|claims)\.html|run/[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*\.html)")


class Server(ThreadingHTTPServer):
    """Serves the pages of one folder to this machine."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        super().__init__((HOST, port), Handler)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of a page; everything else is refused."""

    server: Server
    server_version = "spikelm"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        if not self._local():
            return self._refuse(HTTPStatus.FORBIDDEN, body)
        path = unquote(urlsplit(self.path).path)
        path = "/index.html" if path == "/" else path
        file = self.server.folder / path[1:]
        # The second look is for links: whatever a name is, the file lies in the folder.
        if not PAGE.fullmatch(path) or not file.resolve().is_relative_to(self.server.folder):
            return self._refuse(HTTPStatus.NOT_FOUND, body)
        try:
            about, data = file.stat(), file.read_bytes() if body else b""
        except OSError:
            return self._refuse(HTTPStatus.NOT_FOUND, body)
        tag = f'"{about.st_mtime_ns:x}-{about.st_size:x}"'
        if body and self.headers.get("If-None-Match") == tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self._end(tag, 0)
            return None
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self._end(tag, len(data) if body else about.st_size)
        self.wfile.write(data)

    def _local(self) -> bool:
        """Whether it was asked for by a name of this machine: a site elsewhere must not read it through a browser."""
        host = self.headers.get("Host", "")
        return host.rpartition(":")[0] in (HOST, "localhost") or host in (HOST, "localhost")

    def _refuse(self, status: HTTPStatus, body: bool) -> None:
        data = f"{status.phrase}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self._end("", len(data))
        self.wfile.write(data if body else b"")

    def _end(self, tag: str, length: int) -> None:
        if tag:
            self.send_header("ETag", tag)
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal says what was built."""


class Rebuilder(threading.Thread):
    """Builds every few seconds; only what changed is written, so only those pages load again."""

    def __init__(self, site: Site, seconds: float, console: Console) -> None:
        super().__init__(name="rebuild", daemon=True)
        self._site = site
        self._seconds = seconds
        self._console = console
        self._ended = threading.Event()
        self._said = ""

    def run(self) -> None:
        while not self._ended.wait(self._seconds):
            self.once()

    def once(self) -> None:
        """One build; a failure is said once and tried again later."""
        try:
            built = self._site.build()
        except (SpikeLMError, OSError) as error:
            if str(error) != self._said:
                self._said = str(error)
                self._console.print(f"not built: {error}", markup=False, soft_wrap=True)
            return
        self._said = ""
        if built.written:
            self._console.print(f"{built.written} pages changed, {built.runs} runs", highlight=False)

    def stop(self) -> None:
        """End after the build that is going on."""
        self._ended.set()
        self.join(10)


def open_server(folder: Path, port: int) -> Server:
    """The server on its port, or an error that says what to do about it."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port {port}: ports go from 0 (any that is free) to 65535")
    try:
        return Server(folder, port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken by another program" if error.errno == errno.EADDRINUSE else "is not allowed to you"
        raise SpikeLMError(f"port {port} of {HOST} {why}", "--port 0 takes any that is free") from None


def serve(root: Path, folder: Path, port: int = PORT, seconds: float = SECONDS, console: Console | None = None) -> None:
    """Build the site of a store in a folder, then serve it until Ctrl-C."""
    console = console or Console()
    site = Site(root, folder, seconds=2.0)
    server = open_server(site.folder, port)  # before the build: a taken port is said at once
    with server:
        site.build()
        rebuilder = Rebuilder(site, seconds, console)
        rebuilder.start()
        console.print(f"{server.url} shows {root}, this machine only; Ctrl-C ends it", soft_wrap=True, highlight=False)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            console.print("ended")
        finally:
            rebuilder.stop()
