"""History as the rest of the house sees it: it records looks, and is asked for them.

Recording happens in a thread of its own behind a short queue, so neither a slow disk nor a broken
one is felt by the live view. What could not be written is not lost by the hour: the next look that
can be written is compared with the last one that was.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path

from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from history.changes import Change, ChangeKind
from history.database import Database, parse_url
from history.errors import HistoryError
from history.memory import after_gap
from history.reader import Reader
from history.recorder import Recorder
from history.spans import FindingSpan, StatusSpan, finding_spans, status_spans
from history.status import HistoryState
from history.writer import Totals

log = logging.getLogger("slicewatch.history")

QUEUE = 3
"""Looks that may wait. Each holds all that was seen; comparing skips what is dropped."""

LEASE_SECONDS = 30.0
TICK = 10.0
"""Seconds between two rounds of housekeeping: a third of the lease."""

OPENING_SECONDS = 5.0
"""How long a question waits for a database that is still being opened."""

FINDING_KINDS: tuple[ChangeKind, ...] = ("finding_opened", "finding_changed", "finding_closed")
STATUS_KINDS: tuple[ChangeKind, ...] = ("slice_status", "slice_appeared", "slice_gone")


class History:
    """Keeps what was. One for a process; :meth:`close` it at the end.

    ``record`` is made to be a listener of the runtime. All questions raise :class:`HistoryError`
    with one line for people when the database does not answer; nothing else here raises.
    """

    def __init__(
        self,
        url: str | Path,
        *,
        scope: str = "",
        keep_days: float = 14.0,
        keep_bytes: int = 2**30,
        every: float = 300.0,
        startup_grace: float = 600.0,
        clock: Callable[[], float] = time.time,
        lease_seconds: float = LEASE_SECONDS,
        tick: float = TICK,
    ) -> None:
        """A history that has not touched its database yet; the first call does.

        Args:
            url: a path of an SQLite file, ``sqlite:///…``, or ``postgresql://…``.
            scope: keeps fleets apart in one database (:func:`history.location.scope_of`).
            keep_days: how old looks and changes become.
            keep_bytes: how much they may take; the oldest looks go first.
            every: seconds after which a look is kept though nothing changed.
            startup_grace: ``Thresholds.slice_startup_grace``, to rebuild fleets with.
            clock: epoch seconds.
            lease_seconds: how long a replica that went silent keeps others from writing.
            tick: seconds between two rounds of housekeeping.
        """
        self._clock = clock
        self._tick = tick
        self._every = every
        self._queue: deque[Snapshot] = deque()
        self._wake = threading.Condition()
        self._opened = threading.Event()
        self._closing = False
        self._dropped = 0
        self._busy = False
        self._thread: threading.Thread | None = None
        self._wrong: str | None = None
        self._database: Database | None = None
        self._reader: Reader | None = None
        self._recorder: Recorder | None = None
        try:
            self._database = database = Database(parse_url(url))
        except HistoryError as error:
            self._wrong = str(error)
            return
        self._reader = Reader(database, scope, startup_grace)
        self._recorder = Recorder(
            database,
            scope,
            f"{socket.gethostname()[:24]}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            keep_days=keep_days,
            keep_bytes=keep_bytes,
            every=every,
            lease_seconds=lease_seconds,
            clock=clock,
        )

    # --- recording

    def record(self, snapshot: Snapshot) -> None:
        """Take note of a look. Returns at once and never raises."""
        if self._recorder is None:
            return
        with self._wake:
            if self._closing:
                return
            self._queue.append(snapshot)
            if len(self._queue) > QUEUE:
                self._queue.popleft()
                self._dropped += 1
            self._wake.notify_all()
        self.start()

    def start(self) -> None:
        """Start the thread that opens the database and writes; does nothing when it runs."""
        with self._wake:
            if self._thread is not None or self._closing or self._recorder is None:
                return
            self._thread = threading.Thread(
                target=self._run, name="slicewatch-history", daemon=True
            )
            self._thread.start()

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits, let go of the database. Gives up after ``timeout`` seconds."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():
                log.warning("history could not be written to the end within %g s", timeout)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was recorded is dealt with; ``False`` after the timeout."""
        self.start()
        with self._wake:
            return self._wake.wait_for(
                lambda: not self._queue and not self._busy or not self._alive(), timeout
            )

    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        assert self._recorder is not None
        try:
            self._recorder.tidy()
            self._opened.set()
            while True:
                with self._wake:
                    if not self._queue and not self._closing:
                        self._wake.wait(self._tick)
                    snapshot = self._queue.popleft() if self._queue else None
                    if snapshot is None and self._closing:
                        break
                    self._busy = snapshot is not None
                if snapshot is not None:
                    self._recorder.take(snapshot)
                self._recorder.tidy()
                with self._wake:
                    self._busy = False
                    self._wake.notify_all()
        except Exception as error:
            # A bug of ours: the live view goes on, and the Sources page says what happened.
            log.exception("the history's thread ended")
            self._wrong = f"history ended by a fault of its own: {error!r}"
        finally:
            self._opened.set()
            self._recorder.close()
            with self._wake:
                self._busy = False
                self._wake.notify_all()

    # --- how it is

    def state(self) -> HistoryState:
        """How history fares, for the Sources page and the metrics. Asks nothing of the disk."""
        if self._recorder is None or self._wrong is not None:
            return HistoryState(status="off", where="", problem=self._wrong or "")
        recorder = self._recorder
        totals = recorder.totals or Totals()
        return HistoryState(
            status=recorder.status,
            where=recorder.where,
            problem=recorder.problem or "",
            note=recorder.note or "",
            looks=totals.looks,
            changes=totals.changes,
            used_bytes=totals.used_bytes,
            last_written_at=recorder.last_written_at,
            written=recorder.written,
            failed=recorder.failed,
            dropped=self._dropped,
        )

    # --- questions

    def changes(
        self,
        start: float,
        end: float,
        *,
        kinds: Collection[ChangeKind] | None = None,
        subject: str | Collection[str] | None = None,
        limit: int = 1000,
    ) -> list[Change]:
        """What changed from ``start`` to ``end`` (epoch seconds, both included), newest first.

        Args:
            start: the earliest.
            end: the latest.
            kinds: only these kinds.
            subject: only what is about this id, or one of these, or touches it (a group's slices).
            limit: at most so many; the newest.
        """
        return self._ask().changes(start, end, kinds=kinds, subject=subject, limit=limit)

    def look_at(self, moment: float) -> Snapshot | None:
        """The last kept look at or before ``moment``; ``None`` when none is that old.

        Its ``observation.now`` says when it was. While somebody looks, a look is kept with each
        change and each five minutes; :meth:`gaps` tells when nobody did. It never counts as stale.
        """
        return self._ask().look_at(moment)

    def span(self) -> tuple[float, float] | None:
        """When the oldest and the newest kept look were; ``None`` when there is none."""
        return self._ask().span()

    def moments(self, start: float, end: float, limit: int = 50_000) -> list[float]:
        """When looks were kept between two times, oldest first: the stops of a slider."""
        return self._ask().moments(start, end, limit)

    def gaps(self, start: float, end: float) -> list[tuple[float, float]]:
        """Times between two looks in which nobody looked: what was then is not known."""
        moments = self._ask().moments(start, end)
        longest = 2 * self._every + 60.0
        return [(one, two) for one, two in pairwise(moments) if two - one > longest]

    def findings(self, start: float, end: float) -> list[FindingSpan]:
        """Findings that were open at some time between two times, oldest first."""
        reader = self._ask()
        found = reader.changes(0.0, end, kinds=FINDING_KINDS, limit=100_000)
        spans = finding_spans(found, start, end)
        known = {(span.code, span.subject.kind, span.subject.id) for span in spans}
        look = reader.look_at(start)
        if look is None:
            return spans
        # Open since before anything that is still kept.
        old = [
            FindingSpan(
                code=item.code,
                subject=item.subject,
                severity=item.severity,
                cause=item.cause,
                text=item.summary,
                opened=item.since if item.since is not None else look.observation.now,
                since=item.since,
            )
            for item in look.report.findings
            if item.key not in known
        ]
        return sorted([*old, *spans], key=lambda span: span.opened)

    def statuses(self, slice_id: str, start: float, end: float) -> list[StatusSpan]:
        """What a slice was up to between two times, oldest first.

        What could not be seen did not change: draw the ``sight_lost`` and ``sight_back`` of its
        cluster over it.
        """
        reader = self._ask()
        found = reader.changes(start, end, kinds=STATUS_KINDS, subject=slice_id, limit=10_000)
        before = reader.last_before(start, kinds=STATUS_KINDS, subject=slice_id)
        if before is not None:
            first = "gone" if before.kind == "slice_gone" else before.after
        else:
            look = reader.look_at(start)
            if look is not None:
                first = look.report.statuses.get(slice_id)
            else:
                # Nobody looked yet: from the first look on.
                span = reader.span()
                start = max(start, span[0]) if span is not None else start
                look = reader.look_at(start)
                first = look.report.statuses.get(slice_id) if look is not None else None
        return status_spans(found, first, start, end)

    def last_memory(self, now: float | None = None) -> Memory | None:
        """What the engine remembered at the last look, for a runtime that starts.

        Waits a few seconds for the database at most. ``None`` when there is none or it does not
        answer: then the first look opens what it sees, as after any first start.
        """
        if self._recorder is None:
            return None
        try:
            self._ask()
            memory = self._recorder.last_memory()
        except HistoryError as error:
            log.warning("no memory of earlier looks: %s", error)
            return None
        return after_gap(memory, self._clock() if now is None else now) if memory else None

    def _ask(self) -> Reader:
        if self._reader is None or self._wrong is not None:
            raise HistoryError(self._wrong or "history is off")
        self.start()
        if not self._opened.wait(OPENING_SECONDS):
            raise HistoryError("history is still being opened; try again in a moment")
        recorder, database = self._recorder, self._database
        assert recorder is not None
        assert database is not None
        if recorder.status == "off" or not database.readable:
            problem = recorder.problem
            raise HistoryError(problem or f"history is not open ({database.where})")
        return self._reader
