"""The loop around one source: look, hand over, wait. Ten lines around tested functions."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from collectors.fetching import next_delay
from diagnosis.snapshot import POLL_BUCKETS_SECONDS, PollStats
from fleet.observation import SourceStatus

log = logging.getLogger("slicewatch.poller")


class Sourced(Protocol):
    """An observation of one source."""

    @property
    def source(self) -> SourceStatus: ...


T = TypeVar("T", bound=Sourced)

SOON = 2.0
"""Seconds until a look that somebody waits for: what one poll showed needs a second to confirm."""


class Poller(Generic[T]):
    """Polls one source at its own pace. ``latest`` is its last observation.

    ``looks`` counts answers, so that readers can tell a new one from an old one.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], Awaitable[T]],
        *,
        interval: float,
        on_look: Callable[[], None],
        spread: Callable[[], float],
        retry_after: Callable[[], float | None] = lambda: None,
    ) -> None:
        """A poller; :meth:`run` starts it.

        Args:
            name: of the source, for logs and statistics.
            look: one look, which should not raise.
            interval: seconds between looks when all is well.
            on_look: called after each look.
            spread: random numbers from 0 to 1.
            retry_after: what the server asked for in the last look, in seconds.
        """
        self.name = name
        self.latest: T | None = None
        self.looks = 0
        self.failures = 0
        self._look = look
        self._interval = interval
        self._on_look = on_look
        self._spread = spread
        self._retry_after = retry_after
        self._soon = asyncio.Event()
        self._counts = [0] * (len(POLL_BUCKETS_SECONDS) + 1)
        self._sum = 0.0
        self._errors: Counter[str] = Counter()
        self._broken: str | None = None

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.once()
            delay = next_delay(
                self._interval, self.failures, self._spread(), retry_after=self._retry_after()
            )
            await self._wait(delay)

    async def _wait(self, delay: float) -> None:
        """Until ``delay`` has passed, or ``SOON`` when somebody asked for it meanwhile."""
        self._soon.clear()
        started = time.monotonic()
        try:
            async with asyncio.timeout(delay):
                await self._soon.wait()
        except TimeoutError:
            return
        left = min(delay, SOON) - (time.monotonic() - started)
        if left > 0:
            await asyncio.sleep(left)

    def soon(self) -> None:
        """Look again soon. A source that fails keeps its own, slower pace."""
        if not self.failures:
            self._soon.set()

    async def once(self) -> None:
        """One look. An error of ours is logged once and counted; the loop goes on."""
        started = time.perf_counter()
        try:
            latest = await self._look()
        except Exception as error:
            self.failures += 1
            self._errors["internal"] += 1
            if self._broken != repr(error):
                self._broken = repr(error)
                log.exception("%s: a look failed for a reason of our own", self.name)
            return
        finally:
            self._count(time.perf_counter() - started)
        status = latest.source
        if status.reason:
            self._errors[status.reason] += 1
        self._say_change(status)
        self.failures = self.failures + 1 if status.status == "down" else 0
        self.latest = latest
        self.looks += 1
        self._on_look()

    def _say_change(self, status: SourceStatus) -> None:
        before = self.latest.source if self.latest is not None else None
        if before is not None and (before.status, before.reason) == (status.status, status.reason):
            return
        level = logging.INFO if status.status in ("ok", "suspended") else logging.WARNING
        log.log(level, "%s: %s %s", self.name, status.status, status.detail)

    def _count(self, seconds: float) -> None:
        self._counts[bisect_left(POLL_BUCKETS_SECONDS, seconds)] += 1
        self._sum += seconds

    def stats(self) -> PollStats:
        """What :class:`~diagnosis.snapshot.PollStats` asks for, since the start."""
        running, cumulative = 0, []
        for count in self._counts:
            running += count
            cumulative.append(running)
        return PollStats(
            source=self.name,
            bucket_counts=tuple(cumulative),
            sum_seconds=self._sum,
            polls=running,
            errors=dict(self._errors),
        )
