"""A bundle in the place of a live cluster: the same snapshots, from files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from collectors.bundle import read_bundle
from collectors.runtime import Board, Listener, Runtime, SnapshotSource
from diagnosis.engine import replay
from diagnosis.snapshot import Snapshot
from diagnosis.thresholds import Thresholds
from fleet.mapping import build_fleet
from fleet.observation import Observation
from settings import Settings

NEVER_STALE = 10 * 365 * 86400.0
"""A bundle is as old as it is; its age is shown, and no newer look is due."""

DEFAULTS = Thresholds()


def snapshot_of(
    frames: list[Observation], thresholds: Thresholds, *, published_at: float
) -> Snapshot:
    """The snapshot after several looks (one or more, oldest first).

    Raises:
        ValueError: there is no look at all.
    """
    fleets = [build_fleet(frame, startup_grace=thresholds.slice_startup_grace) for frame in frames]
    return Snapshot(
        observation=frames[-1],
        report=replay(fleets, thresholds),
        published_at=published_at,
        stale_after=NEVER_STALE,
    )


class BundleRuntime:
    """As :class:`collectors.runtime.Runtime`, without a thread: a bundle does not change."""

    def __init__(
        self,
        path: str | Path,
        thresholds: Thresholds = DEFAULTS,
        *,
        listeners: Iterable[Listener] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(path)
        self._thresholds = thresholds
        self._clock = clock
        self._board = Board(listeners)
        self.frames: list[Observation] = []
        self.problem: str | None = None

    def start(self) -> None:
        """Read the bundle.

        Raises:
            BundleError: it cannot be read.
        """
        self.frames = read_bundle(self._path)
        self._board.publish(self.snapshot_after(len(self.frames) - 1))

    def snapshot_after(self, frame: int) -> Snapshot:
        """What was known after one of the frames (0 is the oldest).

        Raises:
            IndexError: there is no such frame.
        """
        if not 0 <= frame < len(self.frames):
            raise IndexError(f"no frame {frame}: the bundle holds {len(self.frames)}")
        return snapshot_of(self.frames[: frame + 1], self._thresholds, published_at=self._clock())

    def stop(self) -> None:
        """Nothing runs."""

    def snapshot(self) -> Snapshot | None:
        """The snapshot after the last frame; ``None`` before :meth:`start`."""
        return self._board.snapshot()

    def wait_for_snapshot(
        self, timeout: float, newer_than: Snapshot | None = None
    ) -> Snapshot | None:
        """The snapshot, unless it is the one that the caller has."""
        return self._board.wait(0.0 if newer_than is not None else timeout, newer_than)


def runtime_for(settings: Settings, listeners: Iterable[Listener] = ()) -> SnapshotSource:
    """What the settings ask for: a bundle where they name one, else the live cluster."""
    if settings.bundle is not None:
        return BundleRuntime(settings.bundle, settings.thresholds, listeners=listeners)
    return Runtime(settings, listeners=listeners)
