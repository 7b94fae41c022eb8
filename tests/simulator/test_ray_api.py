from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator import fleet_rows
from simulator.fleet import FleetBuilder
from simulator.http_server import Failure
from simulator.ray_api import RayAPI


@pytest.fixture(scope="module")
def rows() -> dict[str, list[dict[str, Any]]]:
    fleet = FleetBuilder().slices("v6e", "16x16", 2).gang("train-a").build()
    return fleet_rows.rows(fleet.clusters[0])


@pytest.fixture
def api(rows: dict[str, list[dict[str, Any]]]) -> Iterator[RayAPI]:
    with RayAPI(lambda: rows) as running:
        yield running


def client(api: RayAPI) -> httpx.Client:
    return httpx.Client(base_url=api.url, trust_env=False)


def result(api: RayAPI, part: str, **query: object) -> dict[str, Any]:
    answer = httpx.get(f"{api.url}/api/v0/{part}", params=query, trust_env=False)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["result"]


def test_the_default_limit_is_100(api: RayAPI) -> None:
    found = result(api, "nodes")
    assert (found["total"], len(found["result"])) == (129, 100)
    assert len(result(api, "nodes", limit=10_000)["result"]) == 129


def test_more_than_ten_thousand_is_refused(api: RayAPI) -> None:
    answer = httpx.get(f"{api.url}/api/v0/nodes?limit=10001", trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["result"] is False
    assert "exceeds the supported limit 10000" in answer.json()["msg"]


def test_the_head_cuts_before_it_filters() -> None:
    many = [
        {"placement_group_id": f"{number:06d}", "state": "REMOVED"} for number in range(10_000)
    ] + [{"placement_group_id": "999999", "state": "CREATED"}]
    with RayAPI(lambda: {"placement_groups": many}) as api:
        found = result(
            api,
            "placement_groups",
            limit=10_000,
            filter_keys="state",
            filter_predicates="=",
            filter_values="CREATED",
        )
    assert found["total"] == 10_001
    assert found["num_after_truncation"] == 10_000
    assert found["num_filtered"] == 0


def test_columns_with_and_without_detail(api: RayAPI) -> None:
    assert "start_time_ms" not in result(api, "nodes", limit=1)["result"][0]
    assert "start_time_ms" in result(api, "nodes", limit=1, detail=1)["result"][0]
    assert "bundles" in result(api, "placement_groups", detail="true")["result"][0]


def test_filters(api: RayAPI) -> None:
    def count(key: str, predicate: str, value: str) -> int:
        query = {"filter_keys": key, "filter_predicates": predicate, "filter_values": value}
        return int(result(api, "nodes", **query)["num_filtered"])

    assert count("is_head_node", "=", "true") == 1
    assert count("state", "=", "alive") == 129
    assert count("state", "!=", "ALIVE") == 0
    bad = {"filter_keys": "labels", "filter_predicates": "=", "filter_values": "x"}
    assert httpx.get(f"{api.url}/api/v0/nodes", params=bad, trust_env=False).status_code == 400


def test_tokens(rows: dict[str, list[dict[str, Any]]]) -> None:
    with RayAPI(lambda: rows, token="t") as api, client(api) as web:
        get = web.get
        assert get("/api/v0/nodes").status_code == 401
        assert get("/api/version", headers={"Authorization": "Bearer x"}).status_code == 403
        assert get("/api/version", headers={"Authorization": "Bearer t"}).status_code == 200
        assert get("/api/version", headers={"X-Ray-Authorization": "Bearer t"}).status_code == 200
        assert get("/api/authentication_mode").json() == {"authentication_mode": "token"}


def test_failures(api: RayAPI) -> None:
    api.failures.add(Failure("nodes", status=500, times=1))
    api.failures.add(Failure(status=429, times=1))
    with client(api) as web:
        failed = web.get("/api/v0/nodes")
        assert failed.status_code == 500
        assert failed.json()["result"] is False
        assert web.get("/api/v0/actors").status_code == 429
        assert web.get("/api/v0/actors").status_code == 200


@pytest.mark.slow
def test_ray_list_reads_it(api: RayAPI) -> None:
    ray = Path(sys.executable).parent / "ray"
    done = subprocess.run(
        [str(ray), "list", "nodes", "--address", api.url, "--filter", "is_head_node=true"],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert "Total: 1" in done.stdout
    assert "ALIVE" in done.stdout
