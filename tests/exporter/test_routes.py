from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from diagnosis.snapshot import Snapshot
from exporter.routes import make_routes
from tests import factories
from tests.factories import NOW


class Client:
    """Asks the routes without a server in between."""

    def __init__(self, routes: list[Route]) -> None:
        self._app = Starlette(routes=routes)

    def get(self, path: str, **options: object) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.get(path, **options)

        return asyncio.run(ask())


def client(snapshot: Snapshot | None, *, now: float = NOW, token: str | None = None) -> Client:
    return Client(make_routes(lambda: snapshot, clock=lambda: now, token=token, version="0.1.0"))


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_metrics_with_and_without_the_slash(path: str) -> None:
    answer = client(factories.healthy()).get(path, follow_redirects=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "slicewatch_slice_status" in answer.text
    assert "process_resident_memory_bytes" in answer.text


def test_metrics_before_the_first_look() -> None:
    answer = client(None).get("/metrics")
    assert answer.status_code == 200
    assert "slicewatch_build_info" in answer.text
    assert "snapshot_age" not in answer.text


def test_metrics_as_openmetrics() -> None:
    answer = client(factories.healthy()).get(
        "/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"}
    )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")


def test_health_says_that_the_process_is_alive() -> None:
    assert client(None).get("/healthz").text == "ok\n"


def test_ready_needs_a_first_look() -> None:
    answer = client(None).get("/readyz")
    assert answer.status_code == 503
    assert "no look was taken yet" in answer.text
    assert client(factories.empty()).get("/readyz").status_code == 200


def test_ready_fails_when_stale() -> None:
    answer = client(factories.healthy(), now=NOW + 120).get("/readyz")
    assert (answer.status_code, answer.text) == (
        503,
        "stale: the last look is 2 min old, more than 30 s\n",
    )


def test_report() -> None:
    answer = client(factories.broken()).get("/api/v1/report")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["schema"] == "slicewatch/v1"


def test_report_before_the_first_look_is_json_too() -> None:
    answer = client(None).get("/api/v1/report")
    assert answer.status_code == 503
    assert "no look" in answer.json()["error"]


def test_report_follows_the_snapshot() -> None:
    shown: list[Snapshot] = [factories.broken()]
    routes = make_routes(lambda: shown[-1], clock=lambda: NOW)
    api = Client(routes)
    assert len(api.get("/api/v1/report").json()["findings"]) == 3
    shown.append(factories.healthy())
    assert api.get("/api/v1/report").json()["findings"] == []


def test_an_unknown_endpoint_is_json_and_404() -> None:
    answer = client(factories.healthy()).get("/api/v2/report")
    assert answer.status_code == 404
    assert answer.json() == {"error": "no such endpoint: /api/v2/report"}


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/report", "/api/x"])
def test_token(path: str) -> None:
    api = client(factories.healthy(), token="s3cret")
    refused = api.get(path)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "s3cret" not in json.dumps(refused.json())
    for wrong in ("Bearer s3cre", "Basic s3cret", "Bearer", "Bearer \xe9"):
        header = {"authorization": wrong.encode("latin-1")}
        assert api.get(path, headers=header).status_code == 401
    assert api.get(path, headers={"authorization": "bearer s3cret"}).status_code != 401
    assert api.get("/healthz").status_code == 200
    assert api.get("/readyz").status_code == 200
