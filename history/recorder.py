"""What one thread does with each look: compare, decide what to keep, write, tidy up.

Nothing here raises: what goes wrong is kept as a sentence, and tried again later and later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from history.changes import compare, stirred
from history.database import Database, set_aside
from history.errors import DamagedError, HistoryError, UnusableError
from history.looks import encode_look
from history.memory import memory_of
from history.packing import Base, pack, pack_delta
from history.picture import picture_of
from history.status import Status
from history.writer import Kept, Outcome, Row, Totals, Writer, read_kept

log = logging.getLogger("slicewatch.history")

KEY_SECONDS = 3 * 3600.0
"""A whole look after so long: what differs from it grows, and going back reads both."""

KEY_SHARE = 0.25
"""A look that differs by more than this share of a whole one is kept whole."""

STATE_SECONDS = 60.0
"""The engine's memory is written at least so often; a crash forgets no more of its timers."""

PRUNE_SECONDS = 600.0
TOTALS_SECONDS = 60.0
MOST_FORGOTTEN_AT_ONCE = 20

SHARE_OF_TIME = 20.0
"""A look that took a second to keep is not followed by another that is kept for as many."""

FIRST_RETRY = 5.0
LAST_RETRY = 300.0

DAY = 86400.0


class Recorder:
    """Used from one thread; the fields without an underscore may be read from any."""

    def __init__(
        self,
        database: Database,
        scope: str,
        holder: str,
        *,
        keep_days: float,
        keep_bytes: int,
        every: float,
        lease_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._scope = scope
        self._writer = Writer(database, scope, holder, lease_seconds)
        self._keep_seconds = keep_days * DAY
        self._keep_bytes = keep_bytes
        self._clock = clock
        self._open = False
        self._mine = False
        self._retry_at = 0.0
        self._retry = FIRST_RETRY
        self._damage: DamagedError | None = None
        self._before: Kept | None = None
        self._base: tuple[int, Base, int] | None = None
        self._kept_at: float | None = None
        self._state_at: float | None = None
        self._next_look_at = 0.0
        self._owed = False
        self._pruned_at: float | None = None
        self._totals_at: float | None = None
        self._claimed_at = 0.0
        self._lease_seconds = lease_seconds
        self.every = every
        self.where = database.where
        self.status: Status = "starting"
        self.problem: str | None = None
        self.note: str | None = None
        self.totals: Totals | None = None
        self.last_written_at: float | None = None
        self.written = 0
        self.failed = 0

    # --- one look

    def take(self, snapshot: Snapshot) -> None:
        """Compare one look with the last that was written, and write what there is to write."""
        if not self._ready():
            self.failed += 1
            return
        try:
            if self._leads():
                self._keep(snapshot)
        except HistoryError as error:
            self.failed += 1
            self._fails(error)

    def _keep(self, snapshot: Snapshot) -> None:
        if self._write_one(snapshot) == "moved":
            # Another replica has written meanwhile: go on from where it left off.
            self._read_before()
            if self._write_one(snapshot) == "moved":
                raise HistoryError(f"two processes write history at once ({self.where})")

    def _write_one(self, snapshot: Snapshot) -> Outcome:
        now = snapshot.observation.now
        before = self._before.picture if self._before is not None else None
        if before is not None and now == before.at:
            return "written"
        after = picture_of(snapshot.report, before)
        found = compare(before, after)
        self._owed = self._owed or bool(found) or stirred(before, after)
        due = self._kept_at is None or not 0 <= now - self._kept_at < self.every
        allowed = not 0 <= self._next_look_at - now < self.every
        row = None
        started = time.monotonic()
        if due or (self._owed and allowed):
            row, base = self._packed(snapshot, now)
        memory = snapshot.memory if snapshot.memory is not None else memory_of(snapshot.report)
        kept = Kept(picture=after, memory=memory)
        stale = self._state_at is None or not 0 <= now - self._state_at < STATE_SECONDS
        if found or row is not None or stale:
            outcome = self._writer.write(found, row, kept, self._state_at)
            if outcome == "held":
                self._stands_by()
            if outcome != "written":
                return outcome
            self._claimed_at = self._clock()
            self._state_at = now
        if row is not None:
            self._base = base
            self._owed = False
            self._kept_at = now
            self.written += 1
            self.last_written_at = now
            pace = len(row.data) / (self._keep_bytes / self._keep_seconds)
            pace = max(pace, SHARE_OF_TIME * (time.monotonic() - started))
            self._next_look_at = now + min(pace, self.every)
        self._before = kept
        self._works()
        return "written"

    def _packed(self, snapshot: Snapshot, now: float) -> tuple[Row, tuple[int, Base, int]]:
        """The look as it is stored, and what later ones are told against."""
        look = encode_look(snapshot)
        moment = round(now * 1000)
        if self._base is not None and 0 <= moment - self._base[0] < KEY_SECONDS * 1000:
            key_moment, base, size = self._base
            data = pack_delta(look, base)
            if len(data) < KEY_SHARE * size:
                return Row(moment=moment, key_moment=key_moment, data=data), self._base
        data = pack(look)
        return Row(moment=moment, key_moment=moment, data=data), (moment, Base(look), len(data))

    # --- housekeeping

    def tidy(self) -> None:
        """Open what is closed, keep the lease, take away what is too old or too much."""
        if not self._ready():
            return
        now = self._clock()
        try:
            if self._database.damage is not None:
                raise self._database.damage  # somebody who reads met it first
            if self._mine and now - self._claimed_at > self._lease_seconds / 3:
                self._mine = False
            if not self._leads():
                return
            if self._pruned_at is None or not 0 <= now - self._pruned_at < PRUNE_SECONDS:
                self._pruned_at = now
                self._prune(now)
            if self._totals_at is None or not 0 <= now - self._totals_at < TOTALS_SECONDS:
                self._totals_at = now
                self.totals = self._writer.totals()
        except HistoryError as error:
            self._fails(error)

    def _prune(self, now: float) -> None:
        self._writer.forget_before(now - self._keep_seconds)
        for _ in range(MOST_FORGOTTEN_AT_ONCE):
            self.totals = self._writer.totals()
            if self.totals.used_bytes <= self._keep_bytes or not self._writer.forget_oldest():
                break
        self._writer.give_back()

    def close(self) -> None:
        """Write what the engine remembers, and let the next one write."""
        if self._open:
            try:
                if self._mine and self._before is not None:
                    self._writer.write((), None, self._before, self._state_at)
                    self._writer.release()
            except HistoryError as error:
                log.warning("history: %s", error)
        self._database.close()

    def last_memory(self) -> Memory | None:
        """What the engine remembered at the last look that anybody wrote.

        Raises:
            HistoryError: the database does not answer.
        """
        kept, _ = read_kept(self._database, self._scope)
        return kept.memory if kept is not None else None

    # --- leading and standing by

    def _leads(self) -> bool:
        if self._mine:
            return True
        self._mine = self._writer.claim()
        self._claimed_at = self._clock()
        if not self._mine:
            self._stands_by()
            return False
        if self._before is None:
            self._read_before()
        if self.status != "failing":  # then only a look that was written proves the contrary
            self._works()
        return True

    def _read_before(self) -> None:
        """Go on from where whoever wrote last left off, this process or another."""
        self._before, self._state_at = read_kept(self._database, self._scope)
        self._base = None

    def _stands_by(self) -> None:
        if self.status != "standby":
            log.info("history: another replica writes; standing by (%s)", self.where)
        self._mine = False
        self._before = None
        self._base = None
        self._kept_at = None
        self.status, self.problem = "standby", None

    # --- failing and working again

    def _ready(self) -> bool:
        """Is the database open? Opens it when it is time to try."""
        if self._open:
            return True
        if self.status == "off" or time.monotonic() < self._retry_at:
            return False
        try:
            self._open_or_begin_anew()
        except UnusableError as error:
            self.status, self.problem = "off", str(error)
            log.error("history is off: %s", error)
            return False
        except HistoryError as error:
            self._fails(error)
            return False
        self._open = True
        return True

    def _open_or_begin_anew(self) -> None:
        damage = self._damage
        if damage is None:
            try:
                self._database.open()
            except DamagedError as error:
                damage = error
        if damage is not None:
            self._database.close()
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
            try:
                goal = set_aside(Path(self.where), stamp)
            except OSError as failure:
                reason = failure.strerror or failure
                raise HistoryError(f"{damage}, and it cannot be set aside: {reason}") from None
            self._damage = None
            self._state_at = None
            self.note = f"{damage}; it was set aside as {goal.name}, and history began anew"
            log.error("history: %s", self.note)
            self._database.open()

    def _fails(self, error: HistoryError) -> None:
        """Say it once, and try again later; a damaged file is opened anew, which sets it aside."""
        if isinstance(error, DamagedError):
            self._damage = error
        if str(error) != self.problem:
            log.error("history cannot be written: %s", error)
        self.status, self.problem = "failing", str(error)
        self._mine = False
        self._retry_at = time.monotonic() + self._retry
        self._retry = min(LAST_RETRY, self._retry * 2)
        self._base = None
        self._open = False
        self._database.close()

    def _works(self) -> None:
        if self.status == "failing":
            log.info("history is written again (%s)", self.where)
        self.status, self.problem = "ok", None
        self._retry = FIRST_RETRY
