"""A service that looks at a made-up cluster, look by look, with a clock that the test turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from diagnosis.engine import judge
from diagnosis.finding import Report
from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from fleet.mapping import build_fleet
from fleet.observation import Observation
from history.changes import Change
from history.service import History
from tests.scenarios.world import World

POLL = 10.0


class Watch:
    """A world, the engine's memory, and the history if there is one."""

    def __init__(self, history: History | None = None, world: World | None = None) -> None:
        self.world = world if world is not None else World()
        self.history = history
        self.memory = Memory()
        self.last: Snapshot | None = None

    def look(self, after: float = POLL, *, record: bool = True) -> Snapshot:
        """One poll later."""
        self.world.now += after
        self.last = self.snapshot(self.world.observation())
        if record and self.history is not None:
            self.history.record(self.last)
            assert self.history.flush(30), "history did not keep up"
        return self.last

    def snapshot(self, observation: Observation) -> Snapshot:
        report, self.memory = judge(build_fleet(observation), self.memory)
        return Snapshot(
            observation=observation,
            report=report,
            published_at=observation.now + 0.5,
            memory=self.memory,
        )

    def report(self, after: float = POLL) -> Report:
        return self.look(after, record=False).report

    def clock(self) -> float:
        return self.world.now


def keep(url: str | Path, watch: Watch, **more: Any) -> History:
    """A history on the watch's clock."""
    history = History(url, clock=watch.clock, tick=0.05, **more)
    watch.history = history
    return history


def kinds(found: Callable[[], Any] | list[Change] | tuple[Change, ...]) -> list[str]:
    return [change.kind for change in (found() if callable(found) else found)]


def training(watch: Watch) -> str:
    """Two v6e slices, one of them at work; gives the busy one's name."""
    busy = watch.world.add()
    watch.world.add()
    watch.world.gang("train-a", busy)
    return busy
