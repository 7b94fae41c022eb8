"""The one background loop: sources polled, looks judged, a frozen snapshot swapped in.

A thread of its own runs an asyncio loop. Each source has its own poller and its own pace, so one
that hangs holds up nobody. Whatever shows something reads :meth:`Runtime.snapshot`: one reference
to an immutable value, no lock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from collectors.judging import Judging
from collectors.looks import rounded
from collectors.source_set import SourceSet
from collectors.watching import Watching
from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from fleet.observation import Observation
from settings import Settings

log = logging.getLogger("slicewatch.runtime")

SETTLE = 0.15
"""Seconds to wait for other sources that answer at the same moment, to judge them together."""

MOST_CONFIRMATIONS = 3
"""Quick looks in a row. What is still unconfirmed then comes and goes, and the normal pace does."""

Listener = Callable[[Snapshot], None]


class SnapshotSource(Protocol):
    """What the dashboard and the exporter read: a live runtime, or a bundle in its place."""

    problem: str | None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def snapshot(self) -> Snapshot | None: ...

    def wait_for_snapshot(
        self, timeout: float, newer_than: Snapshot | None = None
    ) -> Snapshot | None: ...


class Board:
    """Where the last snapshot hangs."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners = tuple(listeners)
        self._there = threading.Condition()
        self._snapshot: Snapshot | None = None

    def publish(self, snapshot: Snapshot) -> None:
        """Swap the snapshot in, wake who waits, tell the listeners. Their errors are theirs."""
        with self._there:
            self._snapshot = snapshot
            self._there.notify_all()
        for listener in self._listeners:
            try:
                listener(snapshot)
            except Exception:
                log.exception("a listener of snapshots failed")

    def snapshot(self) -> Snapshot | None:
        """The last one, or ``None`` before the first look."""
        return self._snapshot

    def wait(self, timeout: float, newer_than: Snapshot | None = None) -> Snapshot | None:
        """The first snapshot that is another than ``newer_than``; ``None`` after the timeout."""
        with self._there:
            self._there.wait_for(lambda: self._snapshot is not newer_than, timeout)
            return self._snapshot if self._snapshot is not newer_than else None


def live_sources(settings: Settings) -> SourceSet:
    """The sources of a service: Kubernetes is watched, not listed at each look."""
    return SourceSet(settings, watch=True)


class Runtime:
    """Collectors in the background. Start it once in a process and stop it at the end."""

    def __init__(
        self,
        settings: Settings,
        *,
        listeners: Iterable[Listener] = (),
        memory: Callable[[], Memory | None] | None = None,
        make_sources: Callable[[Settings], SourceSet] = live_sources,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        """A runtime that has not started.

        Args:
            settings: what to poll, and how fast.
            listeners: called with each snapshot from the background; they must not block.
            memory: what an earlier process remembered; asked once, before the first look.
            make_sources: called in the background loop.
            clock: epoch seconds.
            spread: random numbers from 0 to 1, for jitter.
        """
        self._settings = settings
        self._board = Board(listeners)
        self._memory = memory
        self._make_sources = make_sources
        self._clock = clock
        self._spread = spread
        self._judging = Judging(settings.thresholds)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ready = threading.Event()
        self.problem: str | None = None
        """Why there are no new snapshots, when the reason is ours; ``None`` when all is well."""

    # --- from outside

    def start(self) -> None:
        """Start the background thread.

        Raises:
            NothingToLookAt: the settings name nothing, and nothing was found.
            RuntimeError: it runs already.
        """
        if self._thread is not None:
            raise RuntimeError("the runtime runs already")
        failed: list[BaseException] = []
        self._ready.clear()
        self._thread = threading.Thread(
            target=self._run, args=(failed,), name="slicewatch-runtime", daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if failed:
            self._thread.join()
            self._thread = None
            raise failed[0]

    def stop(self, timeout: float = 30.0) -> None:
        """End the thread; requests in flight are given up or run into their timeouts."""
        thread, loop, stopping = self._thread, self._loop, self._stopping
        if thread is None:
            return
        if loop is not None and stopping is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(stopping.set)
            except RuntimeError:
                log.debug("the loop ended by itself")
        thread.join(timeout)
        if thread.is_alive():
            log.warning("the background thread did not end within %g s", timeout)
        self._thread = None

    def snapshot(self) -> Snapshot | None:
        """The last snapshot, or ``None`` before the first look."""
        return self._board.snapshot()

    def wait_for_snapshot(
        self, timeout: float, newer_than: Snapshot | None = None
    ) -> Snapshot | None:
        """The next snapshot after ``newer_than`` (``None``: any), or ``None`` after the timeout."""
        return self._board.wait(timeout, newer_than)

    # --- in the background

    def _run(self, failed: list[BaseException]) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:
            if self._ready.is_set():
                self.problem = f"the background loop ended: {error!r}"
                log.exception("the background loop ended")
            else:
                failed.append(error)
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        sources = self._make_sources(self._settings)
        changed = asyncio.Event()
        watching = Watching(self._settings, sources, changed.set, self._spread)
        self._ready.set()
        try:
            await self._remember()
            watching.start()
            publishing = asyncio.create_task(self._publish_for_ever(watching, changed))
            await self._stopping.wait()
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
        finally:
            await watching.aclose()
            sources.close()

    async def _remember(self) -> None:
        """Go on where an earlier process stopped. Without its memory all begins anew, as before."""
        if self._memory is None:
            return
        try:
            memory = await asyncio.to_thread(self._memory)
        except Exception:
            log.exception("what was remembered could not be read")
            return
        self._judging = Judging(self._settings.thresholds, memory)

    async def _publish_for_ever(self, watching: Watching, changed: asyncio.Event) -> None:
        confirmations = 0
        while True:
            await self._wait_for_change(changed)
            if not watching.answered:
                continue
            snapshot = await self._publish(watching)
            if snapshot is None:
                continue
            if snapshot.report.unconfirmed and confirmations < MOST_CONFIRMATIONS:
                confirmations += 1
                watching.soon()
            elif not snapshot.report.unconfirmed:
                confirmations = 0

    async def _wait_for_change(self, changed: asyncio.Event) -> None:
        """Until a source answered, or for one interval: ages grow without anybody's answer."""
        try:
            async with asyncio.timeout(self._settings.poll_interval):
                await changed.wait()
                await asyncio.sleep(SETTLE)
        except TimeoutError:
            pass
        changed.clear()

    async def _publish(self, watching: Watching) -> Snapshot | None:
        """Map and judge beside the loop, so that a large fleet holds up no poll."""
        observation = Observation(
            now=rounded(self._clock()), kubernetes=watching.kubernetes, ray=watching.ray
        )
        try:
            report = await asyncio.to_thread(self._judging.judge, observation, watching.versions())
            snapshot = Snapshot(
                observation=observation,
                report=report,
                published_at=self._clock(),
                stale_after=stale_after(self._settings),
                stats=watching.stats(),
                memory=self._judging.memory,
            )
        except Exception as error:
            problem = f"a look could not be judged: {error!r}"
            if problem != self.problem:
                log.exception("a look could not be judged; what is shown grows old")
            self.problem = problem
            return None
        self.problem = None
        self._board.publish(snapshot)
        return snapshot


def stale_after(settings: Settings) -> float:
    """Seconds without a new snapshot after which what is shown counts as stale."""
    return max(30.0, settings.stale_polls * settings.poll_interval + settings.request_timeout)
