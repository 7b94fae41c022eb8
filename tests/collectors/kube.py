"""A Kubernetes API of canned lists, and a kubeconfig for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.collectors.servers import Answer, Request, Server

NS = "ml"
EMPTY = ("pods", "nodes", "services", "events")
LISTS = {
    "rayclusters": "/apis/ray.io/v1/rayclusters",
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "services": f"/api/v1/namespaces/{NS}/services",
    "events": f"/api/v1/namespaces/{NS}/events",
    "slices": "/apis/accelerator.gke.io/v1beta1/slices",
}


def kubeconfig(path: Path, url: str, *, token: str = "t0ken", context: str = "demo") -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [
            {"name": context, "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(json.dumps(config))
    return path


def items(*rows: object, token: str = "") -> dict[str, Any]:
    return {"kind": "List", "metadata": {"continue": token}, "items": list(rows)}


def refused(code: int, message: str = "no") -> Answer:
    body = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return Answer(json.dumps(body).encode(), code)


def named(name: str, namespace: str | None = NS, **fields: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def kube(server: Server, prefix: str = "", **rows: list[Any]) -> None:
    """Make ``server`` answer as an API server with one RayCluster ``ml/train`` does."""
    rows.setdefault("rayclusters", [named("train")])
    for name, path in LISTS.items():
        server.json(prefix + path, items(*rows.get(name, [])))
    server.json("/api/v1/namespaces/default/events", items())
    if "slices" not in rows:
        server.routes[LISTS["slices"]] = refused(404, "the server could not find it")


def paged(rows: list[Any], size: int) -> Any:
    def answer(request: Request) -> Answer:
        start = int(request.query.get("continue", ["0"])[0])
        end = start + size
        token = str(end) if end < len(rows) else ""
        return Answer(json.dumps(items(*rows[start:end], token=token)).encode())

    return answer
