"""What the simulator's tests share: waiting for a condition, the demo (started once), processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulator import demo as demo_module
from simulator.control import FaultView
from simulator.demo import Demo


def wait_for(what: Callable[[], object], seconds: float = 30.0, every: float = 0.1) -> object:
    """The first true answer of ``what``; fails the test when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        time.sleep(every)


def processes_of_session(session: int) -> list[int]:
    """Living processes (no zombies) of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in ("Z", "X") and int(fields[3]) == session:
            found.append(int(entry.name))
    return found


def fault(demo: Demo, key: str) -> FaultView:
    return next(view for view in demo.control.faults() if view.key == key)


def settled(demo: Demo, key: str, *, active: bool) -> FaultView:
    """Wait until a fault is made or mended."""
    wait_for(lambda: not fault(demo, key).busy, 120)
    view = fault(demo, key)
    assert view.active is active, view.text
    return view


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """The real demo, started once: ten raylets, a gang, the mirrored Kubernetes API."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with demo_module.start() as running:
        yield running
