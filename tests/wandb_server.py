"""As much of a W&B server as runs, artifacts and a dashboard need, on loopback; what it was sent is kept."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

from loopback import Loopback

PROJECT = {"id": "p", "internalId": "UHJvamVjdDox", "name": "spikelm", "entityName": "me"}
PROJECT |= {"entity": {"id": "e", "name": "me"}}  # type: ignore[dict-item]
HISTORY = "wandb-history.jsonl"
DATES = {"createdAt": "2026-01-01T00:00:00", "updatedAt": "2026-01-01T00:00:00"}
#: what any other question is answered with
DATA = {
    "viewer": {"id": "v", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
    "serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "99"}, "latestLocalVersionInfo": None},
    "project": PROJECT | {"artifact": None},
    "model": None,
    "models": {"edges": [], "pageInfo": {"hasNextPage": False, "endCursor": ""}},
    "upsertModel": {"project": PROJECT, "model": PROJECT, "inserted": True},
}


class WandbServer(Loopback):
    """Saved workspaces and reports by id, uploads by name, runs and what they logged by run."""

    def __init__(self) -> None:
        self.views, self.files, self.runs = dict[str, Any](), dict[str, bytes](), dict[str, Any]()
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.committed: list[str] = []
        super().__init__()

    def respond(self, path: str, sent: bytes) -> tuple[int, Any]:
        if path == "/graphql":
            asked = json.loads(sent)
            return 200, {"data": self.asked(asked["query"], asked.get("variables") or {})}
        if path.startswith("/storage/"):
            self.files[path.removeprefix("/storage/")] = sent
        elif path.endswith("/file_stream"):
            part = (json.loads(sent).get("files") or {}).get(HISTORY) or {"content": []}
            self.streams.setdefault(path.split("/")[-2], []).extend(map(json.loads, part["content"]))
        return 200, {}

    def asked(self, query: str, sent: dict[str, Any]) -> dict[str, Any]:
        """The answer to a GraphQL question, by its name."""
        found = re.search(r"(?:query|mutation)\s+(\w+)", query)
        special = getattr(self, f"on_{found[1].lower()}", None) if found else None
        return special(sent) if special else DATA

    def on_upsertbucket(self, sent: dict[str, Any]) -> dict[str, Any]:
        known = {key: value for key, value in sent.items() if value is not None}
        self.runs.setdefault(sent["name"], {}).update(known)
        bucket = {"id": "b", "name": sent["name"], "displayName": "x", "description": "", "config": "{}"}
        bucket |= {"sweepName": None, "project": PROJECT, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def on_createrunfiles(self, sent: dict[str, Any]) -> dict[str, Any]:
        places = [{"name": name, "uploadUrl": f"{self.url}/storage/run/{name}"} for name in sent["files"]]
        return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": places}}

    def on_createartifact(self, sent: dict[str, Any]) -> dict[str, Any]:
        self.artifacts.append(sent["input"])
        made = {"id": str(len(self.artifacts) - 1), "digest": "d", "state": "PENDING", "aliases": []}
        return {"createArtifact": {"artifact": made | {"artifactSequence": {"id": "s", "latestArtifact": None}}}}

    def on_createartifactmanifest(self, sent: dict[str, Any]) -> dict[str, Any]:
        return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": self._place("manifest.json")}}}

    def on_createartifactfiles(self, sent: dict[str, Any]) -> dict[str, Any]:
        nodes = [{"node": self._place(file["name"])} for file in sent["input"]["artifactFiles"]]
        return {"createArtifactFiles": {"files": self._page(nodes)}}

    def on_commitartifact(self, sent: dict[str, Any]) -> dict[str, Any]:
        self.committed.append(self.artifacts[int(sent["artifactID"])]["artifactCollectionName"])
        return {"commitArtifact": {"artifact": {"id": sent["artifactID"], "digest": "d"}}}

    def on_upsertview(self, sent: dict[str, Any]) -> dict[str, Any]:
        id = sent.get("id") or base64.b64encode(f"View:{len(self.views)}".encode()).decode()
        self.views[id] = {**sent, "id": id, "project": PROJECT, **DATES}
        return {"upsertView": {"view": self.views[id], "inserted": True}}

    on_upsertview2 = on_upsertview

    def on_view(self, sent: dict[str, Any]) -> dict[str, Any]:
        named = [{"node": view} for view in self.views.values() if view["name"] == sent["viewName"]]
        return {"project": {"allViews": self._page(named)}}

    def on_specificreport(self, sent: dict[str, Any]) -> dict[str, Any]:
        return {"view": self.views.get(sent["reportId"])}

    def _place(self, name: str) -> dict[str, Any]:
        file = {"id": "f", "name": name, "displayName": name, "uploadUrl": f"{self.url}/storage/{name}"}
        return file | {"uploadHeaders": [], "uploadMultipartUrls": None, "storagePath": "x", "artifact": {"id": "a"}}

    @staticmethod
    def _page(edges: Sequence[Any]) -> dict[str, Any]:
        return {"edges": list(edges), "pageInfo": {"hasNextPage": False, "endCursor": ""}}
