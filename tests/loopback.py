"""A server on loopback that a test answers for."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Loopback:
    """Serves in threads until stopped; `respond` has to be written."""

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                status, told = outer.respond(self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                body = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def respond(self, path: str, sent: bytes) -> tuple[int, Any]:
        """Status and JSON for what was sent to a path."""
        raise AssertionError(path)

    def stop(self) -> None:
        """Die: nobody listens any more."""
        self.server.shutdown()
        self.server.server_close()
