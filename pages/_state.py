"""What all pages read: where the last look comes from. Set once by ``app.py`` at start-up.

Nothing here imports Streamlit. The source publishes frozen snapshots by swapping one reference, so
any number of open tabs read the same one and ask nothing of any cluster.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from diagnosis.snapshot import Snapshot
from fleet.observation import Observation
from history.change import Change, ChangeKind
from history.errors import HistoryError
from history.spans import FindingSpan, StatusSpan


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


class Past(Protocol):
    """What answers what was: the history of live clusters, or the frames of a bundle.

    Every question raises :class:`history.errors.HistoryError` with one line when there is no
    answer. See :class:`history.service.History`.
    """

    def changes(
        self,
        start: float,
        end: float,
        *,
        kinds: Collection[ChangeKind] | None = None,
        subject: str | Collection[str] | None = None,
        limit: int = 1000,
    ) -> list[Change]: ...

    def look_at(self, moment: float) -> Snapshot | None: ...

    def span(self) -> tuple[float, float] | None: ...

    def moments(self, start: float, end: float, limit: int = 50_000) -> list[float]: ...

    def gaps(self, start: float, end: float) -> list[tuple[float, float]]: ...

    def findings(self, start: float, end: float) -> list[FindingSpan]: ...

    def statuses(self, slice_id: str, start: float, end: float) -> list[StatusSpan]: ...


class Opened(Past, Source, Protocol):
    """A bundle that somebody opened."""

    @property
    def name(self) -> str: ...

    @property
    def frames(self) -> int: ...


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How this process shows things.

    ``refresh_seconds``: how often an open page draws itself anew; ``None`` for a bundle, which
    does not change. ``bundle``: the bundle's name, or ``None`` for live clusters. ``past``: what
    was. ``demo``: the control of the demo's faults, in demo mode only. ``open_bundle`` makes a
    bundle of an uploaded file's name and bytes, ``pack`` a bundle of a look; neither is there in
    tests. ``links``: templates of addresses elsewhere, by their label. ``clock`` gives wall time in
    epoch seconds.
    """

    source: Source
    refresh_seconds: float | None = 3.0
    bundle: str | None = None
    past: Past | None = None
    demo: Demo | None = None
    open_bundle: Callable[[str, bytes], Opened] | None = None
    pack: Callable[[Observation], bytes] | None = None
    links: dict[str, str | None] = {}
    clock: Callable[[], float] = time.time


class _Nothing:
    def snapshot(self) -> Snapshot | None:
        return None


class Place(msgspec.Struct, frozen=True):
    """Which moment of what a page shows: ``bundle`` is the number of an opened one, ``at`` epoch
    seconds. Both ``None`` is the last look of what is served."""

    bundle: str | None = None
    at: float | None = None


class MissingError(Exception):
    """There is no look at a place; the message is a sentence for people."""


MOST_OPENED = 4
"""Opened bundles kept, for all readers together; one of 1,000 hosts takes about 50 MB."""

MOST_LOOKS = 6
"""Looks of the past kept, as several readers at one moment cost one reading."""

_serving = Serving(source=_Nothing())
_opened: OrderedDict[str, Opened] = OrderedDict()
_looks: OrderedDict[tuple[str | None, float], Snapshot] = OrderedDict()
_lock = threading.Lock()


def install(serving: Serving) -> None:
    """Make this what all pages read from now on."""
    global _serving
    _serving = serving
    with _lock:
        _opened.clear()
        _looks.clear()


def serving() -> Serving:
    return _serving


def keep(bundle: Opened) -> str:
    """Keep an opened bundle; gives the number for its address, which nobody can guess."""
    token = secrets.token_urlsafe(9)
    with _lock:
        _opened[token] = bundle
        while len(_opened) > MOST_OPENED:
            gone, _ = _opened.popitem(last=False)
            for key in [key for key in _looks if key[0] == gone]:
                del _looks[key]
    return token


def opened(token: str) -> Opened | None:
    """An opened bundle by its number."""
    with _lock:
        return _opened.get(token)


def past(place: Place) -> Past | None:
    """What answers what was, at a place: a bundle's own frames, else what is served."""
    return _serving.past if place.bundle is None else opened(place.bundle)


def snapshot(place: Place = Place()) -> Snapshot | None:  # noqa: B008  # frozen
    """The look at a place; ``None`` before the first.

    Raises:
        MissingError: there is none at that place, and why.
    """
    if place.at is None:
        if place.bundle is None:
            return _serving.source.snapshot()
        return _bundle(place.bundle).snapshot()
    where: Past | None = _serving.past if place.bundle is None else _bundle(place.bundle)
    if where is None:
        raise MissingError("No history is kept here, so there is no earlier look to show.")
    key = (place.bundle, place.at)
    with _lock:
        if key in _looks:
            _looks.move_to_end(key)
            return _looks[key]
    try:
        look = where.look_at(place.at)
    except HistoryError as error:
        raise MissingError(f"The look of that moment cannot be read: {error}.") from None
    if look is None:
        raise MissingError("No look that old is kept: history goes back to a later moment only.")
    with _lock:
        _looks[key] = look
        while len(_looks) > MOST_LOOKS:
            _looks.popitem(last=False)
    return look


def _bundle(token: str) -> Opened:
    found = opened(token)
    if found is None:
        raise MissingError(
            "This bundle is no longer open: Slicewatch was restarted, or others were opened since. "
            "Open it again."
        )
    return found


def live(current: Snapshot) -> bool:
    """Whether a look is the last one of live clusters, whose age grows."""
    return _serving.bundle is None and current.stale_after < FOREVER


FOREVER = 365 * 86400.0
"""Looks that never grow stale (of a bundle, of history) carry at least this."""


def now(current: Snapshot) -> float:
    """What ages are counted from: wall time, or for an old look the moment it was taken."""
    return _serving.clock() if live(current) else current.report.fleet.now


def stale(current: Snapshot) -> bool:
    """Whether a live look is older than it should be."""
    return live(current) and _serving.clock() - current.published_at > current.stale_after
