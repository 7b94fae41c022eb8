"""What the engine remembers from one look to the next. Frozen, made anew at each look."""

from __future__ import annotations

import msgspec

from diagnosis.finding import Finding
from fleet.model import SliceStatusName

FindingKey = tuple[str, str, str]
"""Code, kind of subject, id of subject."""


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """One finding over time.

    ``streak``: looks in a row that showed it. ``missed``: looks in a row that did not.
    ``last_seen``: the last look (epoch seconds) that showed it.
    """

    finding: Finding
    first_seen: float
    last_seen: float
    streak: int = 1
    missed: int = 0
    open: bool = False


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a condition has held without a break (a gap of one look is forgiven)."""

    since: float
    looks: int = 1
    missed: int = 0


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting group's count of scheduling attempts, and when it was read."""

    at: float
    count: int


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Who sits in one place of a slice, and when others took it over (epoch seconds)."""

    pod: str
    changes: tuple[float, ...] = ()


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that later looks need of earlier ones.

    ``looks``: how many there were. ``eager``: the very first look opens what it sees at once, as
    a service that was restarted must not be silent for a poll; a replay of recorded frames is not
    eager, because the frame after the first one tells a blip from a fault.
    """

    looks: int = 0
    eager: bool = True
    at: float | None = None
    tracks: dict[FindingKey, Track] = {}
    marks: dict[str, Mark] = {}
    attempts: dict[str, Attempts] = {}
    seats: dict[str, Seat] = {}
    statuses: dict[str, tuple[SliceStatusName, float]] = {}
