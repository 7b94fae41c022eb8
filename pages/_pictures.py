"""Figures of ``charts`` on a page: the wall of slices and one slice's ICI grid."""

from __future__ import annotations

from diagnosis.snapshot import Snapshot
from fleet.model import Slice


def wall(current: Snapshot) -> None:
    """All slices as tiles; a click on one opens it."""


def grid(current: Snapshot, item: Slice) -> None:
    """The slice's hosts and chips where the topology puts them."""
