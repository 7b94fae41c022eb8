"""Many readers, large fleets, long days: one collector, little work, flat memory."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

from collectors.runtime import Runtime
from diagnosis.engine import judge
from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from fleet.observation import Observation
from pages import _memo, _state
from settings import Settings
from simulator.fleet_server import FleetServer
from tests import factories
from tests.factories import NOW
from tests.pages.conftest import texts
from tests.scenarios.world import World

Show = Callable[..., AppTest]
SHELL = Path(__file__).parents[2] / "pages" / "shell.py"


def test_fifty_tabs_ask_the_cluster_no_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with FleetServer.of_hosts(12) as server:
        (address, *_) = [api.url for api in server.ray.values()]
        settings = Settings(
            kubernetes="off", ray_addresses=(address,), poll_interval=3600, history="off"
        )
        runtime = Runtime(settings)
        runtime.start()
        try:
            look = runtime.wait_for_snapshot(30)
            assert look is not None
            # The first looks confirm each other; then nothing more is due for an hour.
            while (newer := runtime.wait_for_snapshot(3, newer_than=look)) is not None:
                look = newer
            before = {item.source: item.polls for item in look.stats}
            _state.install(_state.Serving(source=runtime))
            for _ in range(50):
                tab = AppTest.from_file(SHELL, default_timeout=20).run()
                assert "Live · looked" in texts(tab)
            last = runtime.snapshot()
            assert last is not None
            assert {item.source: item.polls for item in last.stats} == before
        finally:
            runtime.stop()


def test_what_is_computed_of_a_look_is_computed_once() -> None:
    look = factories.healthy()
    made = []
    for _ in range(50):
        assert _memo.once(look, "x", lambda: made.append(1) or len(made)) == 1
    assert len(made) == 1
    for _ in range(_memo.MOST):
        _memo.once(factories.healthy(), "x", lambda: 0)
    assert _memo.once(look, "x", lambda: 2) == 2


def _refreshed(tab: AppTest, source: object, number: int) -> None:
    source._snapshot = msgspec.structs.replace(factories.broken(), published_at=NOW + number)
    tab.run()


def test_memory_stays_flat_over_refreshes_with_new_looks(show: Show) -> None:
    """A hundred looks, each drawn by two pages; `benchmarks/bench_dashboard.py` does an hour."""
    tab = show("overview", factories.broken())
    source = _state.serving().source
    for number in range(20):
        _refreshed(tab, source, number)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(15):
            _refreshed(tab, source, number)
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        for number in range(60):
            _refreshed(tab, source, number)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - first
    finally:
        tracemalloc.stop()
    assert grown < 2_000_000, f"{grown / 60:,.0f} bytes a refresh"


@pytest.fixture(scope="module")
def huge() -> Snapshot:
    """2,000 hosts in 500 slices, with faults of several kinds."""
    world = World()
    for number in range(500):
        name = world.add()
        if number % 2:
            world.gang(f"train-{number}", name)
        if number % 10 == 0:
            world.die(f"ray-{name}-1", ago=300)
        if number % 25 == 0:
            world.waiting(f"waits-{number}", selector={"ray.io/tpu-slice-name": name})
    fleet = world.fleet()
    report, memory = judge(fleet, Memory())
    return Snapshot(
        observation=Observation(now=fleet.now), report=report, published_at=fleet.now, memory=memory
    )


@pytest.mark.parametrize(
    "page",
    ["overview", "finding", "slice", "scheduling", "placement", "gang", "history", "sources"],
)
def test_a_huge_fleet_on_each_page(show: Show, huge: Snapshot, page: str) -> None:
    query = {"id": huge.report.fleet.slices[0].id} if page == "slice" else {}
    if page == "gang":
        query = {"id": "train-1"}
    started = time.process_time()
    test = show(page, huge, query, now=huge.report.fleet.now)
    assert not test.exception
    assert not test.error
    # Generous: it catches what grows with the square of the fleet, not a busy machine.
    assert time.process_time() - started < 8
