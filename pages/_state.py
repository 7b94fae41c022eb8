"""What all pages read: where the last look comes from. Set once by ``app.py`` at start-up.

Nothing here imports Streamlit. The source publishes frozen snapshots by swapping one reference, so
any number of open tabs read the same one and ask nothing of any cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from diagnosis.snapshot import Snapshot


class Source(Protocol):
    """Whatever has a last look: the live runtime, or a bundle."""

    def snapshot(self) -> Snapshot | None: ...


class FaultView(Protocol):
    """One fault that the demo can make; see ``simulator.control``."""

    @property
    def key(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def active(self) -> bool: ...
    @property
    def busy(self) -> bool: ...


class Demo(Protocol):
    """What the page *Break something* needs of the demo."""

    def faults(self) -> Sequence[FaultView]: ...

    def inject(self, key: str) -> None: ...

    def mend(self, key: str) -> None: ...


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How this process shows things.

    ``refresh_seconds``: how often an open page draws itself anew; ``None`` for a bundle, which
    does not change. ``bundle``: the bundle's name, or ``None`` for live clusters. ``frames``: how
    many looks the bundle holds. ``demo``: the control of the demo's faults, in demo mode only.
    ``clock`` gives wall time in epoch seconds.
    """

    source: Source
    refresh_seconds: float | None = 3.0
    bundle: str | None = None
    frames: int = 1
    demo: Demo | None = None
    clock: Callable[[], float] = time.time


class _Nothing:
    def snapshot(self) -> Snapshot | None:
        return None


_serving = Serving(source=_Nothing())


def install(serving: Serving) -> None:
    """Make this what all pages read from now on."""
    global _serving
    _serving = serving


def serving() -> Serving:
    return _serving


def snapshot() -> Snapshot | None:
    """The last look; ``None`` before the first."""
    return _serving.source.snapshot()


def now(current: Snapshot) -> float:
    """What ages are counted from: wall time, or in a bundle the moment it was captured."""
    return current.report.fleet.now if _serving.bundle is not None else _serving.clock()


def stale(current: Snapshot) -> bool:
    """Whether a live look is older than it should be."""
    if _serving.bundle is not None:
        return False
    return _serving.clock() - current.published_at > current.stale_after
