from __future__ import annotations

import httpx
import pytest

from simulator.fleet_server import FleetServer
from tests.simulator.conftest import wait_for


@pytest.fixture
def server():
    with FleetServer.of_hosts(400, seed=2) as running:
        yield running


def test_both_apis_show_the_same_hosts(server: FleetServer) -> None:
    assert len(server.fleet.hosts) == 400
    total = 0
    for api in server.ray.values():
        answer = httpx.get(f"{api.url}/api/v0/nodes?limit=10000", trust_env=False).json()
        total += answer["data"]["result"]["total"] - 1
    assert total == 400
    pods = server.kube.store.all("pods")
    assert len(pods) == 400 + server.ray_count


def test_faults_come_and_go_and_leave_nothing_behind(server: FleetServer) -> None:
    def state() -> dict[str, object]:
        return {
            kind: {
                e.key: {k: v for k, v in e.obj.items() if k != "metadata"}
                for e in server.kube.store.all(kind)
            }
            for kind in server.kube.store
        }

    before = state()
    keys = [view.key for view in server.faults()]
    assert keys == ["stop_host", "split_group", "squat", "leak_head", "stall_pod", "no_capacity"]
    for key in keys:
        server.inject(key)
        wait_for(lambda key=key: key in [v.key for v in server.faults() if v.active and not v.busy])
    changed = state()
    assert changed != before
    for key in keys:
        server.mend(key)
        wait_for(lambda key=key: key not in [v.key for v in server.faults() if v.active or v.busy])
    assert state() == before


def test_unknown_faults_do_nothing(server: FleetServer) -> None:
    version = server.kube.store.version
    server.inject("nothing")
    server.mend("nothing")
    server.mend("squat")
    assert server.kube.store.version == version
