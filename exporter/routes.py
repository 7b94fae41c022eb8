"""HTTP routes beside the dashboard: metrics, health, and the report as JSON.

They answer from the last snapshot and ask nothing of any cluster. Endpoints are plain functions,
which Starlette runs in its thread pool: encoding a large fleet never holds up the event loop.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from diagnosis.snapshot import Snapshot
from exporter.metrics import render
from exporter.report_json import report_to_json
from fleet.times import format_duration

_NOT_READY = "no look was taken yet: the sources have not answered"


def make_routes(
    snapshot: Callable[[], Snapshot | None],
    *,
    clock: Callable[[], float] = time.time,
    token: str | None = None,
    version: str = "",
) -> list[Route]:
    """Routes for a Starlette (or Streamlit) application.

    ``snapshot`` gives the last look or ``None``; ``clock`` the time in epoch seconds. With
    ``token``, ``/metrics`` and ``/api`` want ``Authorization: Bearer <token>``; the health routes
    never do, as kubelets send no token.
    """
    encoded = _Encoded()

    def metrics(request: Request) -> Response:
        if refusal := _refuse(request, token):
            return refusal
        body, content_type = render(
            snapshot(),
            clock(),
            accept=request.headers.get("accept", ""),
            version=version,
            process=True,
        )
        return Response(body, headers={"content-type": content_type})

    def healthz(request: Request) -> Response:
        return _text("ok")

    def readyz(request: Request) -> Response:
        reason = not_ready(snapshot(), clock())
        return _text("ok") if reason is None else _text(reason, status=503)

    def report(request: Request) -> Response:
        if refusal := _refuse(request, token):
            return refusal
        current = snapshot()
        if current is None:
            return _json({"error": _NOT_READY}, status=503)
        return Response(
            encoded.report(current),
            media_type="application/json",
            headers={"cache-control": "no-store"},
        )

    def nothing(request: Request) -> Response:
        # Without this the dashboard's page shell would answer: HTML with status 200.
        if refusal := _refuse(request, token):
            return refusal
        return _json({"error": f"no such endpoint: {request.url.path}"}, status=404)

    # Exact paths, with and without the slash: a Mount would leave one of them to the page shell.
    endpoints = {
        "/metrics": metrics,
        "/healthz": healthz,
        "/readyz": readyz,
        "/api/v1/report": report,
    }
    routes = [
        Route(path + slash, endpoint, methods=["GET"], include_in_schema=False)
        for path, endpoint in endpoints.items()
        for slash in ("", "/")
    ]
    return [*routes, Route("/api/{rest:path}", nothing, methods=["GET"])]


def not_ready(snapshot: Snapshot | None, now: float) -> str | None:
    """Why ``/readyz`` fails, in words; ``None`` when a look was taken and is not stale."""
    if snapshot is None:
        return _NOT_READY
    age = now - snapshot.published_at
    if age > snapshot.stale_after:
        return (
            f"stale: the last look is {format_duration(age)} old, "
            f"more than {format_duration(snapshot.stale_after)}"
        )
    return None


class _Encoded:
    """The report as bytes, encoded once a snapshot however many scripts ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: Snapshot | None = None
        self._body = b""

    def report(self, snapshot: Snapshot) -> bytes:
        with self._lock:
            if self._of is not snapshot:
                self._body = msgspec.json.encode(report_to_json(snapshot.report))
                self._of = snapshot
            return self._body


def _refuse(request: Request, token: str | None) -> Response | None:
    """401 when a token is asked for and the request does not carry it."""
    if not token:
        return None
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        return None
    response = _json({"error": "this endpoint wants 'Authorization: Bearer <token>'"}, status=401)
    response.headers["www-authenticate"] = "Bearer"
    return response


def _text(text: str, status: int = 200) -> Response:
    return Response(
        text + "\n", status, media_type="text/plain", headers={"cache-control": "no-store"}
    )


def _json(value: dict[str, str], status: int) -> Response:
    return Response(
        msgspec.json.encode(value),
        status,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )
