"""Watches: changes of one kind as lines of JSON, with bookmarks, selectors and 410."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from simulator import kube_tables
from simulator.kube_paths import status
from simulator.kube_selectors import Matcher
from simulator.kube_store import Change, Entry, Gone, Kind, Object, Store


@dataclass(frozen=True)
class WatchRequest:
    """What a client asked for.

    ``version`` is the resource version to start after (``0``: all objects first). ``include``: how
    much of an object a table's rows carry, empty for no tables. ``bookmark_seconds``: ``None`` for
    no bookmarks.
    """

    kind: Kind
    matches: Matcher
    include: str
    version: str
    seconds: float
    bookmark_seconds: float | None


class Watch:
    """One open watch. It registers in ``open_watches`` for as long as it lives."""

    def __init__(self, store: Store, asked: WatchRequest, open_watches: set[Watch]) -> None:
        self._store = store
        self._asked = asked
        self._open = open_watches
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._ended = False

    def end(self) -> None:
        """Close the watch from any thread."""
        self._ended = True
        self._wake(self._asked.kind.plural)

    def _wake(self, plural: str) -> None:
        if plural == self._asked.kind.plural:
            with contextlib.suppress(RuntimeError):  # the loop has just closed
                self._loop.call_soon_threadsafe(self._changed.set)

    async def lines(self) -> AsyncIterator[bytes]:
        """The events, a line each, until the time is over, the client leaves or the server ends."""
        unlisten = self._store.listen(self._wake)
        self._open.add(self)
        try:
            async for line in self._follow():
                yield line
        except Gone:
            body = status(410, "Expired", f"too old resource version: {self._asked.version}")
            yield msgspec.json.encode({"type": "ERROR", "object": body}) + b"\n"
        finally:
            unlisten()
            self._open.discard(self)

    async def _follow(self) -> AsyncIterator[bytes]:
        asked, plural = self._asked, self._asked.kind.plural
        version = int(asked.version) if asked.version.isdigit() else -1
        if version == 0:
            version, entries = self._store.snapshot(plural)
            for entry in entries:
                if asked.matches(entry.obj):
                    yield self._line("ADDED", entry)
        end = time.monotonic() + asked.seconds
        every = asked.bookmark_seconds
        next_bookmark = time.monotonic() + (every or asked.seconds)
        while not self._ended:
            if not 0 <= version <= self._store.version:
                raise Gone
            self._changed.clear()
            version, changes = self._store.since(plural, version)
            for change in changes:
                if kind := event_type(change, asked.matches):
                    yield self._line(kind, change.entry)
            now = time.monotonic()
            if every is not None and now >= min(end, next_bookmark):
                next_bookmark = now + every
                yield self._bookmark(version)
            if now >= end:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(end, next_bookmark) - now)

    def _line(self, kind: str, entry: Entry) -> bytes:
        if self._asked.include:
            plural = self._asked.kind.plural
            table = kube_tables.table(plural, [entry.obj], entry.version, self._asked.include)
            return msgspec.json.encode({"type": kind, "object": table}) + b"\n"
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), entry.raw)

    def _bookmark(self, version: int) -> bytes:
        kind = self._asked.kind
        obj: Object = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(version)},
        }
        if self._asked.include:
            obj = kube_tables.table(kind.plural, [], version, self._asked.include)
        return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def event_type(change: Change, matches: Matcher) -> str | None:
    """What a watch with a selector sees of a change: an object that stops matching is deleted."""
    was = change.before is not None and matches(change.before.obj)
    if change.type == "DELETED":
        return "DELETED" if was else None
    if matches(change.entry.obj):
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None
