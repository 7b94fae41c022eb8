"""What happens to one kind of object, as a generator of changes: a list, then a watch.

:func:`changes` is one round: it lists where there is no version to go on from, follows the watch
to its end, and says how it ended. Whoever calls it for ever (:class:`Watcher`) needs ten lines.
How often a round may begin is for :class:`~collectors.kubernetes_store.Store` to say.

The official client's informer is not used: against an API that answers 500 it asks thousands of
times a second, wants no bookmarks, has no read timeout and cannot say whether its list is whole.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec

from collectors.decoding import Decoded, decode_object, shorten
from collectors.envelopes import reason_for_status
from collectors.fetching import FetchError
from collectors.kubernetes_connection import SharedConnection, Stream
from collectors.kubernetes_lists import Resource, list_pages, refusal
from collectors.sources import Part

log = logging.getLogger("slicewatch.watch")

WATCH_SECONDS = 60
"""How long the server keeps a watch open. It sends a bookmark before it ends one, so an idle watch
is heard of at least once a minute; load balancers cut idle connections after that time, too."""
SILENCE_SECONDS = 70.0
"""A connection without a byte for longer than the server keeps a watch is dead: half-open ones say
nothing for ever."""

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""


# --- changes --------------------------------------------------------------------------------


class Listed(msgspec.Struct, frozen=True):
    """The whole list, as of ``version``: what is not in it is gone."""

    decoded: Decoded
    version: str


class Opened(msgspec.Struct, frozen=True):
    """The server took the watch."""


class Put(msgspec.Struct, frozen=True):
    """An object is new or changed."""

    key: Key
    decoded: Decoded
    version: str


class Removed(msgspec.Struct, frozen=True):
    """An object is gone, or no longer what the selector asks for."""

    key: Key
    version: str


class Marked(msgspec.Struct, frozen=True):
    """A bookmark: nothing happened up to ``version``."""

    version: str


class Ended(msgspec.Struct, frozen=True):
    """The server ended the watch in good order."""


class Expired(msgspec.Struct, frozen=True):
    """The version is too old to go on from: the list has to be made anew."""

    detail: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Something went wrong, in the words of :class:`~collectors.fetching.FetchError`.

    ``relist``: a change may have been lost, so the version must not be gone on from.
    """

    reason: str
    detail: str = ""
    retry_after: float | None = None
    relist: bool = False


Change: TypeAlias = Listed | Opened | Put | Removed | Marked | Ended | Expired | Failed


# --- one round ------------------------------------------------------------------------------


class Asking(Protocol):
    """How one kind of object is asked for."""

    part: str

    def list(self, fresh: bool) -> Part:
        """The whole list; ``fresh``: not from the API server's cache, which may lag behind."""
        ...

    def watch(self, version: str) -> Iterator[bytes]:
        """An empty line once the server took the watch, then the lines of it.

        Raises:
            FetchError: it did not, or the stream broke.
        """
        ...


def changes(asking: Asking, version: str | None, *, fresh: bool = False) -> Iterator[Change]:
    """One round: list where ``version`` is ``None``, then watch until the watch ends.

    Never raises for what the server does; the last change says how the round ended.
    """
    try:
        if version is None:
            part = asking.list(fresh)
            if part.decoded is None or part.decoded.rows is None or part.decoded.truncation:
                yield _not_listed(part)
                return
            version = part.decoded.version or ""
            yield Listed(part.decoded, version)
        for line in asking.watch(version):
            change = read_line(asking.part, line) if line else Opened()
            yield change
            if isinstance(change, Expired | Failed):
                return
    except FetchError as error:
        if error.status == 410:
            yield Expired(error.detail)
        else:
            yield Failed(reason=error.reason, detail=error.detail, retry_after=error.retry_after)
        return
    yield Ended()


def _not_listed(part: Part) -> Failed:
    reason, detail = part.problem or ("malformed", "no list")
    return Failed(reason=reason, detail=detail, retry_after=part.retry_after, relist=True)


class _Meta(msgspec.Struct, frozen=True):
    name: str | None = None
    namespace: str | None = None
    version: str | None = msgspec.field(default=None, name="resourceVersion")


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta | None = None


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


_line = msgspec.json.Decoder(_Line)
_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)

_GOES_ON = frozenset({"rate_limited", "server_error"})
"""Errors within a watch that say nothing about its version."""


def read_line(part: str, line: bytes) -> Change:
    """One line of a watch. A line that cannot be read is a change that was lost."""
    try:
        event = _line.decode(line)
        if event.type == "ERROR":
            return _error(event.object)
        meta = _object.decode(event.object).metadata or _Meta()
        version = meta.version
        if event.type == "BOOKMARK" and version:
            return Marked(version)
        key = (meta.namespace or "", meta.name or "")
        if version and meta.name and event.type == "DELETED":
            return Removed(key, version)
        if version and meta.name and event.type in ("ADDED", "MODIFIED"):
            decoded = decode_object(part, event.object)
            if decoded.rows:
                return Put(key, decoded, version)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Failed(
            reason="malformed", detail=f"{part}: the watch sent what is no event", relist=True
        )
    return Failed(
        reason="malformed",
        detail=f"{part}: an event without name or version ({shorten(event.type, 40)})",
        relist=True,
    )


def _error(status: msgspec.Raw) -> Expired | Failed:
    try:
        found = _status.decode(status)
    except msgspec.MsgspecError:
        found = _Status()
    detail = f"the watch said {found.code}: {shorten(found.message, 160)}"
    if found.code == 410:
        return Expired(detail)
    reason = reason_for_status(found.code)
    return Failed(reason=reason, detail=detail, relist=reason not in _GOES_ON)


# --- asking a real API ----------------------------------------------------------------------


class Asked:
    """:class:`Asking` through the shared connection. :meth:`close` ends what is in flight."""

    def __init__(
        self,
        shared: SharedConnection,
        resource: Resource,
        namespace: str | None,
        query: Mapping[str, str],
        *,
        spread: Callable[[], float],
    ) -> None:
        self.part = resource.part
        self._shared = shared
        self._resource = resource
        self._namespace = namespace
        self._query = query
        self._spread = spread
        self._stream: Stream | None = None
        self._closed = False

    def list(self, fresh: bool) -> Part:
        """See :class:`Asking`. A cached list that is too large for one answer is asked in pages."""
        query = dict(self._query) if fresh else {**self._query, "resourceVersion": "0"}
        try:
            connection = self._shared.get()
        except FetchError as error:
            return Part(reason=error.reason, detail=error.detail)
        args = (connection, self._resource, self._namespace)
        part = list_pages(*args, query, closed=lambda: self._closed)
        if part.reason == "too_large" and not fresh:
            part = list_pages(*args, self._query, closed=lambda: self._closed)
        return part

    def watch(self, version: str) -> Iterator[bytes]:
        """See :class:`Asking`."""
        seconds = round(WATCH_SECONDS * (0.75 + 0.25 * self._spread()))
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        path = self._resource.path(self._namespace, query)
        try:
            stream = self._shared.get().open_stream(
                path, silence=SILENCE_SECONDS, most=SILENCE_SECONDS
            )
        except FetchError as error:
            detail = refusal(error, self._resource, self._namespace, "watch")
            raise FetchError(
                error.reason, detail, status=error.status, retry_after=error.retry_after
            ) from None
        try:
            self._stream = stream
            if self._closed:
                return
            yield b""
            yield from stream.lines()
        finally:
            self._stream = None
            stream.finish()

    def close(self) -> None:
        """End the list or the watch that is under way; from any thread."""
        self._closed = True
        stream = self._stream
        if stream is not None:
            stream.close()


# --- for ever -------------------------------------------------------------------------------


class Keeper(Protocol):
    """Takes changes and says where to go on, and when: a :class:`Store`."""

    version: str | None
    fresh: bool

    def apply(self, change: Change) -> None: ...

    def pause(self, spread: float) -> float: ...


class Watcher:
    """Follows one kind of object in a thread of its own until :meth:`close`."""

    def __init__(self, name: str, asked: Asked, store: Keeper, spread: Callable[[], float]) -> None:
        self._asked = asked
        self._store = store
        self._spread = spread
        self._stopping = False
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping:
            self._awake.clear()
            try:
                for change in changes(self._asked, self._store.version, fresh=self._store.fresh):
                    if self._stopping:
                        return
                    self._store.apply(change)
            except Exception as error:
                log.exception("a watch failed for a reason of our own")
                self._store.apply(Failed(reason="malformed", detail=repr(error), relist=True))
            self._awake.wait(self._store.pause(self._spread()))

    def wake(self) -> None:
        """Do not wait any longer before the next round: whatever failed may work again."""
        self._awake.set()

    def end(self) -> None:
        """Have the thread end soon; returns at once."""
        self._stopping = True
        self._asked.close()
        self._awake.set()

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end; whether it came in time."""
        with suppress(RuntimeError):
            self._thread.join(timeout)
        return not self._thread.is_alive()
