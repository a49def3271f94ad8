"""A W&B server on loopback that misbehaves: it hangs, answers 500, or works for a while and dies."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUCKET = {
    "id": "x", "name": "x", "displayName": "x", "description": "", "config": "{}", "sweepName": None,
    "project": {"id": "p", "name": "spikelm", "entity": {"id": "e", "name": "me"}}, "historyLineCount": 0,
}  # fmt: skip
DATA = {
    "upsertBucket": {"bucket": BUCKET, "inserted": True},
    "viewer": {"id": "v", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
    "serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "99"}, "latestLocalVersionInfo": None},
    "model": None, "project": None, "createRunFiles": {"runID": "x", "uploadHeaders": [], "files": []},
    "__schema": {"queryType": {"fields": []}}, "__type": {"fields": []},
}  # fmt: skip


class BadServer:
    """Serves in a thread until stopped; `requests` counts what came."""

    def __init__(self, mode: str) -> None:
        self.mode, self.requests, self.paths = mode, 0, list[str]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                outer.requests += 1
                outer.paths.append(self.path)
                if outer.mode == "hang":
                    time.sleep(600)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.dumps({"data": DATA}).encode() if outer.mode == "works" else b"{}"
                self.send_response(200 if outer.mode == "works" else 500)
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

    def stop(self) -> None:
        """Die: nobody listens any more."""
        self.server.shutdown()
        self.server.server_close()
