"""Ray's state API over HTTP for an invented cluster, with the limits and filters of the real one.

``ray list nodes --address http://127.0.0.1:PORT`` works on it. A bearer token and failures can be
switched on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from simulator.http_server import Failures, ServerThread, spoil

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]

DEFAULT_LIMIT = 100
SERVER_LIMIT = 10_000

IDS = {
    "nodes": "node_id",
    "placement_groups": "placement_group_id",
    "actors": "actor_id",
    "tasks": "task_id",
    "jobs": "job_id",
}
SHORT: dict[str, tuple[str, ...]] = {
    "nodes": (
        *("node_id", "node_ip", "is_head_node", "state", "state_message", "node_name"),
        *("resources_total", "labels"),
    ),
    "placement_groups": ("placement_group_id", "name", "creator_job_id", "state"),
    "actors": (
        *("actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "ray_namespace"),
    ),
    "tasks": (
        *("task_id", "attempt_number", "name", "state", "job_id", "actor_id", "type"),
        *("func_or_class_name", "parent_task_id", "node_id", "worker_id", "worker_pid"),
        "error_type",
    ),
    "jobs": (
        *("job_id", "submission_id", "entrypoint", "type", "status", "message", "error_type"),
        "driver_info",
    ),
}
"""Columns without ``detail``."""
FILTERS: dict[str, tuple[str, ...]] = {
    "nodes": ("node_id", "node_ip", "is_head_node", "state", "node_name"),
    "placement_groups": ("placement_group_id", "name", "creator_job_id", "state", "is_detached"),
    "actors": (
        *("actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "ray_namespace"),
        *("placement_group_id", "repr_name"),
    ),
    "tasks": (*SHORT["tasks"], "language", "placement_group_id"),
    "jobs": ("job_id", "submission_id", "type", "status"),
}


class RayAPI:
    """One cluster's dashboard port. ``rows()`` gives the rows to serve, with all columns."""

    def __init__(
        self,
        rows: Callable[[], Rows],
        *,
        status: Callable[[], Row] = lambda: {"result": True, "msg": "", "data": {}},
        metrics: Callable[[], str] = lambda: "",
        version: str = "2.60.0",
        token: str | None = None,
        port: int = 0,
    ) -> None:
        self.rows = rows
        self.status = status
        self.metrics = metrics
        self.version = version
        self.token = token
        self.failures = Failures()
        self.server = ServerThread(self, port=port)

    @property
    def url(self) -> str:
        return self.server.url

    def start(self) -> RayAPI:
        """Serve from a thread until :meth:`stop`."""
        self.server.start()
        return self

    def stop(self) -> None:
        """Stop serving."""
        self.server.stop()

    def __enter__(self) -> RayAPI:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        if scope["type"] == "http":
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path.rstrip("/") or "/"
        part = path.removeprefix("/api/v0/") if path.startswith("/api/v0/") else ""
        failure = self.failures.take(part, "get", path)
        if failure is not None and failure.latency:
            await asyncio.sleep(failure.latency)
        if failure is not None and failure.status is not None:
            return _refusal(failure.status)
        if self.token and path not in ("/api/authentication_mode", "/api/healthz"):
            refusal = self._check(request)
            if refusal is not None:
                return refusal
        response = self._serve(path, part, request)
        if failure is not None and failure.body is not None:
            body, media = spoil(bytes(response.body), failure.body)
            return Response(body, media_type=media)
        return response

    def _check(self, request: Request) -> Response | None:
        given = request.headers.get("authorization") or request.headers.get("x-ray-authorization")
        if not given:
            return Response("Unauthorized: Missing authentication token", 401)
        if given.removeprefix("Bearer ") != self.token:
            return Response("Forbidden: Invalid authentication token", 403)
        return None

    def _serve(self, path: str, part: str, request: Request) -> Response:
        if part in IDS:
            return self._list(part, request)
        if path == "/api/version":
            return _json(
                {
                    "version": "4",
                    "ray_version": self.version,
                    "ray_commit": "0" * 40,
                    "session_name": "session_invented",
                }
            )
        if path == "/api/authentication_mode":
            return _json({"authentication_mode": "token" if self.token else "disabled"})
        if path == "/api/cluster_status":
            return _json(self.status())
        if path == "/api/jobs":
            return _json([])
        if path == "/metrics":
            return Response(self.metrics(), media_type="text/plain; version=0.0.4")
        if path in ("/api/healthz", "/api/gcs_healthz"):
            return Response("success", media_type="text/plain")
        return Response("404: Not Found", 404, media_type="text/plain")

    def _list(self, part: str, request: Request) -> Response:
        query = request.query_params
        try:
            limit = int(query.get("limit") or DEFAULT_LIMIT)
        except ValueError:
            return _reply(500, "invalid literal for int()", None)
        if limit > SERVER_LIMIT:
            return _reply(
                400,
                f"Given limit {limit} exceeds the supported limit {SERVER_LIMIT}. Use a lower "
                "limit, or set the `RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a "
                "larger value.",
                None,
            )
        found = self.rows().get(part, [])
        total = len(found)
        found = found[:SERVER_LIMIT]  # the head cuts before it filters
        after_truncation = len(found)
        try:
            found = _filtered(part, found, request)
        except ValueError as error:
            return _reply(400, str(error), None)
        filtered = len(found)
        found = sorted(found, key=lambda row: str(row.get(IDS[part])))[:limit]
        if query.get("detail", "").lower() not in ("1", "true"):
            found = [{key: row.get(key) for key in SHORT[part]} for row in found]
        result = {
            "total": total,
            "num_after_truncation": after_truncation,
            "num_filtered": filtered,
            "result": found,
            "partial_failure_warning": "",
            "warnings": None,
        }
        return _reply(200, "", result)


def _filtered(part: str, found: list[Row], request: Request) -> list[Row]:
    """Rows that match ``filter_keys``, ``filter_predicates`` and ``filter_values``."""
    query = request.query_params
    terms = zip(
        query.getlist("filter_keys"),
        query.getlist("filter_predicates"),
        query.getlist("filter_values"),
        strict=False,
    )
    for key, predicate, value in terms:
        key = key.lower()
        if key not in FILTERS[part]:
            raise ValueError(f"The given filter column {key} is not supported.")
        if predicate not in ("=", "!="):
            raise ValueError(f"Unsupported filter predicate {predicate} is given.")
        equal = predicate == "="
        found = [row for row in found if key in row and _same(row[key], value) is equal]
    return found


def _same(have: Any, wanted: str) -> bool:
    if isinstance(have, bool):
        return have is (wanted.lower() in ("1", "true"))
    return have is not None and str(have).lower() == wanted.lower()


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _reply(status: int, message: str, result: Row | None) -> Response:
    return _json({"result": status == 200, "msg": message, "data": {"result": result}}, status)


def _refusal(status: int) -> Response:
    """What the head says with this code."""
    if status == 429:
        return _reply(429, "Max number of in-progress requests=100 reached.", None)
    if status == 401:
        return Response("Unauthorized: Missing authentication token", 401)
    if status == 403:
        return Response("Forbidden: Invalid authentication token", 403)
    if status == 500:
        return _reply(500, "Failed to query data from GCS. It is likely unavailable.", None)
    return Response(f"{status}: error", status, media_type="text/plain")
