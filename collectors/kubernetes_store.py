"""What is known of one kind of object, kept up by the changes of a watch.

Only decoded fields are kept. The rows come out as one tuple that stays the same object until
something changed, so that whoever reads it can tell by identity that nothing did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from collectors.decoding import Decoded
from collectors.kubernetes_watch import (
    Change,
    Ended,
    Expired,
    Failed,
    Key,
    Listed,
    Marked,
    Opened,
    Put,
    Removed,
)
from collectors.sources import Part

LONGEST_PAUSE = 30.0
"""Seconds between two rounds that fail: what the official clients wait, too."""

SHORT = 1.0
"""A watch that ends within this many seconds and said nothing has failed, whatever its status."""

MOST_NOTES = 10


class Store:
    """Rows of one kind from one watch. One thread applies changes, others read :meth:`part`.

    ``version`` is where the next round goes on (``None``: with a list), ``fresh`` whether that list
    has to be newer than the API server's cache.
    """

    def __init__(
        self,
        part: str,
        *,
        grace: float,
        keep: Callable[[Any], bool] = lambda row: True,
        most: int | None = None,
        newest_first: Callable[[Any], float] | None = None,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A store that knows nothing yet.

        Args:
            part: of the observation.
            grace: seconds for which rows stand after the watch was last heard: a poll's time, as
                what a poll shows is as old when the next one comes.
            keep: which rows are wanted at all.
            most: rows to keep; beyond, the oldest go.
            newest_first: a row's time, to tell which are oldest.
            on_change: called when the first list is there, or failed.
            clock: monotonic seconds.
        """
        self.part_name = part
        self.version: str | None = None
        self.fresh = False
        self.synced = False
        self.failures = 0
        self._grace = grace
        self._keep = keep
        self._most = most
        self._newest_first = newest_first
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[Key, Any] = {}
        self._notes: dict[Key, tuple[str, ...]] = {}
        self._list_notes: tuple[str, ...] = ()
        self._whole: Part | None = None
        self._problem: Failed | None = None
        self._heard = clock()
        self._opened: float | None = None

    # --- what is known

    def part(self) -> Part:
        """The rows, or why there are none to be trusted."""
        with self._lock:
            if not self.synced:
                return self._failed() or Part(
                    reason="missing", detail=f"{self.part_name}: the first list is under way"
                )
            if self._problem is not None and self._clock() - self._heard > self._grace:
                return self._failed() or Part(reason="missing")
            if self._whole is None:
                self._whole = self._made()
            return self._whole

    @property
    def answered(self) -> bool:
        """Has the first list come, or failed?"""
        with self._lock:
            return self.synced or self._problem is not None

    @property
    def problem(self) -> Failed | None:
        """What went wrong last, while it does."""
        return self._problem

    def _failed(self) -> Part | None:
        if self._problem is None:
            return None
        return Part(
            reason=self._problem.reason,
            detail=self._problem.detail,
            retry_after=self._problem.retry_after,
        )

    def _made(self) -> Part:
        rows = tuple(self._rows[key] for key in sorted(self._rows))
        notes = [*self._list_notes, *(note for some in self._notes.values() for note in some)]
        malformed = tuple(notes[:MOST_NOTES])
        return Part(
            decoded=Decoded(
                rows=rows,
                reason="malformed" if malformed else None,
                detail=malformed[0] if malformed else "",
                malformed=malformed,
            )
        )

    # --- what happens

    def apply(self, change: Change) -> None:
        """Take one change of the watch."""
        with self._lock:
            before = self.synced or self._problem is not None
            self._apply(change)
            told = not before and (self.synced or self._problem is not None)
        if told:
            self._on_change()

    def _apply(self, change: Change) -> None:
        now = self._clock()
        if isinstance(change, Put):
            self._put(change.key, change.decoded)
            self._went_on(change.version, now)
        elif isinstance(change, Removed):
            if self._rows.pop(change.key, None) is not None:
                self._whole = None
            self._notes.pop(change.key, None)
            self._went_on(change.version, now)
        elif isinstance(change, Marked):
            self._went_on(change.version, now)
        elif isinstance(change, Opened):
            self._opened, self._heard, self._problem = now, now, None
        elif isinstance(change, Listed):
            self._replace(change.decoded)
            self.version, self.fresh, self.synced = change.version, False, True
            self._heard, self._problem = now, None
        elif isinstance(change, Ended):
            self._ended(now)
        elif isinstance(change, Expired):
            self.version, self.fresh = None, True
            self._fail(Failed(reason="server_error", detail=change.detail), now)
        else:
            if change.relist:
                self.version, self.fresh = None, True
            self._fail(change, now)

    def _went_on(self, version: str, now: float) -> None:
        self.version = version
        self._heard, self._problem, self.failures = now, None, 0

    def _ended(self, now: float) -> None:
        if self._opened is not None and now - self._opened >= SHORT:
            self._heard, self.failures = now, 0
        elif self.failures or self._opened is not None and self._heard <= self._opened:
            # Taken, ended, and nothing said: a server that does so at once must not be asked anew
            # at once.
            self._fail(Failed(reason="unreachable", detail="the watch ends as it begins"), now)
        self._opened = None

    def _fail(self, failure: Failed, now: float) -> None:
        if self._opened is not None and now - self._opened >= SHORT:
            self.failures = 0
        self.failures += 1
        self._problem = failure
        self._opened = None

    def pause(self, spread: float) -> float:
        """Seconds until the next round may begin.

        Args:
            spread: a number from 0 to 1. Watches that were cut together must not come back in step.
        """
        if not self.failures:
            return 0.2 * spread
        slower = min(LONGEST_PAUSE, 2.0 ** min(self.failures - 1, 10))
        asked = self._problem.retry_after if self._problem is not None else None
        return max(slower * (0.5 + spread), (asked or 0.0) * (1.0 + 0.2 * spread))

    # --- rows

    def _put(self, key: Key, decoded: Decoded) -> None:
        row = decoded.rows[0] if decoded.rows else None
        if row is None or not self._keep(row):
            if self._rows.pop(key, None) is not None:
                self._whole = None
            return
        if self._rows.get(key) != row:
            self._rows[key] = row
            self._whole = None
        if decoded.malformed or key in self._notes:
            self._whole = None
            self._notes.pop(key, None)
            if decoded.malformed:
                self._notes[key] = decoded.malformed
        self._trim()

    def _replace(self, decoded: Decoded) -> None:
        """The rows of a list in the place of all rows; those that are equal stay what they are."""
        found: dict[Key, Any] = {}
        for index, row in enumerate(decoded.rows or ()):
            if self._keep(row):
                key = _key_of(row) or ("", f"?{index}")
                before = self._rows.get(key)
                found[key] = before if before == row else row
        same = found.keys() == self._rows.keys() and all(
            found[key] is row for key, row in self._rows.items()
        )
        if not same or decoded.malformed != self._list_notes or self._notes:
            self._whole = None
        self._rows, self._list_notes = found, decoded.malformed
        self._notes.clear()
        self._trim()

    def _trim(self) -> None:
        """Keep no more than the newest ``most``, and no trimming at each single row."""
        if self._most is None or len(self._rows) <= self._most + self._most // 10:
            return
        age = self._newest_first or (lambda row: 0.0)
        newest = sorted(self._rows, key=lambda key: age(self._rows[key]))[-self._most :]
        self._rows = {key: self._rows[key] for key in newest}
        self._whole = None


def _key_of(row: Any) -> Key | None:
    meta = row.metadata
    if meta is None or not meta.name:
        return None
    return (meta.namespace or "", meta.name)
