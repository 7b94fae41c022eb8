"""A bundle's frames as time: the same questions as :class:`history.service.History` answers.

Each frame is judged with the memory of those before it, once. What was judged is kept without its
fleet, which is the large part; a fleet is rebuilt when its frame is looked at.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

import msgspec

from diagnosis.engine import judge
from diagnosis.finding import Report
from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from diagnosis.thresholds import Thresholds
from fleet.mapping import build_fleet
from fleet.model import Fleet
from fleet.observation import Observation
from history.changes import Change, ChangeKind, changes
from history.errors import HistoryError
from history.spans import FindingSpan, StatusSpan, finding_spans, status_spans

STATUS_KINDS = ("slice_status", "slice_appeared", "slice_gone")


class Replay:
    """The looks of a bundle. It starts, stops and snaps like the runtime, and never changes."""

    def __init__(self, frames: Sequence[Observation], thresholds: Thresholds, name: str) -> None:
        """Judge all frames.

        Args:
            frames: one a look, oldest first.
            thresholds: of the rules.
            name: what the bundle is called.

        Raises:
            ValueError: there is no frame at all.
        """
        if not frames:
            raise ValueError("no frames to judge")
        self.name = name
        self._thresholds = thresholds
        self._lock = threading.Lock()
        # Two frames of one moment cannot be told apart on a line of time: the later one counts.
        self._frames = list({frame.now: frame for frame in frames}.values())
        self._frames.sort(key=lambda frame: frame.now)
        self._times = [frame.now for frame in self._frames]
        self._reports: list[Report] = []
        self._changes: list[Change] = []
        memory = Memory(eager=False)
        before: Report | None = None
        fleet = self._fleet(self._frames[0])
        for number, frame in enumerate(self._frames):
            fleet = self._fleet(frame)
            report, memory = judge(fleet, memory, thresholds)
            if number == 0:
                # Nothing confirms the first frame: it is judged for itself, as `diagnose` does.
                report = judge(fleet, None, thresholds)[0]
            self._changes += changes(before, report)
            before = report
            bare = msgspec.structs.replace(fleet, slices=(), placement_groups=(), nodes={})
            self._reports.append(msgspec.structs.replace(report, fleet=bare))
        assert before is not None
        self._last = self._snapshot(len(self._frames) - 1, fleet)
        self._kept: tuple[int, Snapshot] = (len(self._frames) - 1, self._last)

    @property
    def frames(self) -> int:
        """How many looks there are."""
        return len(self._frames)

    def start(self) -> None:
        """Nothing runs behind a bundle."""

    def stop(self) -> None:
        """Nothing runs behind a bundle."""

    def snapshot(self) -> Snapshot | None:
        """The last look."""
        return self._last

    # --- the questions of history

    def changes(
        self,
        start: float,
        end: float,
        *,
        kinds: Collection[ChangeKind] | None = None,
        subject: str | Collection[str] | None = None,
        limit: int = 1000,
    ) -> list[Change]:
        """What changed from ``start`` to ``end`` (epoch seconds, both included), newest first."""
        wanted = {subject} if isinstance(subject, str) else set(subject or ())
        found = [
            change
            for change in self._changes
            if start <= change.at <= end
            and (not kinds or change.kind in kinds)
            and (not wanted or change.subject.id in wanted or wanted.intersection(change.related))
        ]
        return found[::-1][:limit]

    def look_at(self, moment: float) -> Snapshot | None:
        """The last frame at or before ``moment``; ``None`` when none is that old."""
        number = bisect_right(self._times, moment) - 1
        if number < 0:
            return None
        with self._lock:
            if self._kept[0] != number:
                self._kept = (number, self._snapshot(number, self._fleet(self._frames[number])))
            return self._kept[1]

    def span(self) -> tuple[float, float] | None:
        """When the first and the last frame were."""
        return self._times[0], self._times[-1]

    def moments(self, start: float, end: float, limit: int = 50_000) -> list[float]:
        """When the frames were, oldest first."""
        return [moment for moment in self._times if start <= moment <= end][-limit:]

    def gaps(self, start: float, end: float) -> list[tuple[float, float]]:
        """A capture has none: what lies between two frames was not asked for."""
        return []

    def findings(self, start: float, end: float) -> list[FindingSpan]:
        """Findings that were open at some time between two times, oldest first."""
        return finding_spans(
            [change for change in self._changes if change.kind.startswith("finding_")], start, end
        )

    def statuses(self, slice_id: str, start: float, end: float) -> list[StatusSpan]:
        """What a slice was up to between two times, oldest first."""
        first = self._reports[max(0, bisect_right(self._times, start) - 1)].statuses.get(slice_id)
        found = [
            change
            for change in self._changes
            if change.kind in STATUS_KINDS
            and change.subject.id == slice_id
            and start < change.at <= end
        ]
        return status_spans(found, first, max(start, self._times[0]), end)

    # --- inside

    def _fleet(self, frame: Observation) -> Fleet:
        return build_fleet(frame, startup_grace=self._thresholds.slice_startup_grace)

    def _snapshot(self, number: int, fleet: Fleet) -> Snapshot:
        return Snapshot(
            observation=self._frames[number],
            report=msgspec.structs.replace(self._reports[number], fleet=fleet),
            published_at=self._times[number],
            # A bundle is as old as it is; it does not grow stale.
            stale_after=float("inf"),
        )


def opener(thresholds: Thresholds) -> Callable[[str, bytes], Replay]:
    """What the upload page calls with a file's name and its bytes.

    It raises :class:`history.errors.HistoryError` with one line when they are no bundle.
    """

    def open_bundle(name: str, data: bytes) -> Replay:
        import tempfile
        from pathlib import Path

        from collectors.archive import BundleError
        from collectors.bundle import read_bundle

        suffix = ".zip" if name.lower().endswith(".zip") else ".tar.gz"
        with tempfile.TemporaryDirectory(prefix="slicewatch-") as folder:
            path = Path(folder) / f"bundle{suffix}"
            path.write_bytes(data)
            try:
                frames = read_bundle(path)
            except BundleError as error:
                # The reader names the file that it was given: say the one that people know.
                raise HistoryError(str(error).replace(str(path), name)) from None
        return Replay(frames, thresholds, name)

    return open_bundle


def packed(observation: Observation) -> bytes:
    """One look as a bundle (``.tar.gz``), as ``capture`` writes it: nothing private in it."""
    import tempfile
    from pathlib import Path

    from collectors.bundle_writing import write_bundle

    with tempfile.TemporaryDirectory(prefix="slicewatch-") as folder:
        path = Path(folder) / "bundle.tar.gz"
        write_bundle(path, [observation])
        return path.read_bytes()
