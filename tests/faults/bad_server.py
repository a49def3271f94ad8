"""A W&B server on loopback that misbehaves: it hangs, answers 500, or works for a while and dies."""

from __future__ import annotations

import time
from typing import Any

from loopback import Loopback

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


class BadServer(Loopback):
    """`requests` counts what came."""

    def __init__(self, mode: str) -> None:
        self.mode, self.requests, self.paths = mode, 0, list[str]()
        super().__init__()

    def respond(self, path: str, sent: bytes) -> tuple[int, Any]:
        self.requests += 1
        self.paths.append(path)
        if self.mode == "hang":
            time.sleep(600)
        return (200, {"data": DATA}) if self.mode == "works" else (500, {})
