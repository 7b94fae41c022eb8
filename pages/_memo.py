"""Work done once a look, however many tabs are open and however often they draw themselves.

Nothing here imports Streamlit. A look is frozen, so what is computed from it holds as long as it
does; the last few looks are kept, and with an old one goes all that was computed from it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from diagnosis.finding import Finding
from diagnosis.snapshot import Snapshot
from exporter.words import findings_by_group
from fleet.fitting import Fits
from fleet.model import PlacementGroup

T = TypeVar("T")

MOST = 3
"""Looks of which anything is kept: the last one, the one before it, one of the past."""
MOST_EACH = 24
"""Results kept of one look: a figure for each width and ground, a choice or two."""


class _Kept:
    def __init__(self, look: Snapshot) -> None:
        self.look = look  # held, so that its id cannot become another's
        self.lock = threading.RLock()
        self.results: OrderedDict[Hashable, Any] = OrderedDict()


_kept: OrderedDict[int, _Kept] = OrderedDict()
_lock = threading.Lock()


def once(current: Snapshot, key: Hashable, make: Callable[[], T]) -> T:
    """``make()``, the first time that it is asked for with this key and this look.

    Two tabs that ask at one moment wait for one result instead of making two.
    """
    with _lock:
        kept = _kept.get(id(current))
        if kept is None:
            kept = _kept[id(current)] = _Kept(current)
            while len(_kept) > MOST:
                _kept.popitem(last=False)
        else:
            _kept.move_to_end(id(current))
    with kept.lock:
        if key in kept.results:
            kept.results.move_to_end(key)
        else:
            kept.results[key] = make()
            while len(kept.results) > MOST_EACH:
                kept.results.popitem(last=False)
        found: T = kept.results[key]
        return found


def findings_of(current: Snapshot, group: PlacementGroup) -> list[Finding]:
    """The findings about a group, its own first, without a walk over all findings for each."""
    found = once(current, "findings-by-group", lambda: findings_by_group(current.report))
    return found.get(group.key, [])


def slice_names(current: Snapshot) -> dict[str, str]:
    """Names of all slices by id."""
    slices = current.report.fleet.slices
    return once(current, "slice-names", lambda: {item.id: item.name for item in slices})


def fits(current: Snapshot) -> Fits:
    """The look's fleet, indexed for what fits where."""
    report = current.report
    return once(current, "fits", lambda: Fits(report.fleet, report.statuses))
