"""The newest time in a bundle without a manifest: as good a "now" as there is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import msgspec

from collectors.sources import Part
from fleet.observation import Number
from fleet.times import epoch_from_ms, epoch_from_ns, parse_time

EARLIEST = 1_262_304_000.0
LATEST = 4_102_444_800.0
"""2010 and 2100. A clock reads nothing else; what lies beyond is a broken value."""

_HEARTBEAT = re.compile(rb'"last(?:Heartbeat|Probe)Time"\s*:\s*"([^"]{10,40})"')
"""The kubelet's sign of life is the newest time of all, and in no struct."""

_PAST_TIMES = frozenset(
    {
        "creation_timestamp",
        "last_transition_time",
        "start_time",
        "started_at",
        "finished_at",
        "first_timestamp",
        "last_timestamp",
        "event_time",
        "last_observed_time",
        "time_added",
    }
)
"""Fields that say when something happened. ``deletion_timestamp`` lies in the future on purpose."""

_MILLISECONDS = frozenset(
    {"start_time_ms", "end_time_ms", "created_ms", "creation_time_ms", "start_time", "end_time"}
)
_NANOSECONDS = frozenset({"creation_request_received_ns"})


def newest_time(
    look: Mapping[PurePosixPath, bytes | None],
    kubernetes: Mapping[str, Part],
    ray: Mapping[str, Mapping[str, Part]],
) -> float | None:
    """The newest plausible time of one look in epoch seconds; ``None`` when there is none."""
    found: list[float | None] = []
    for part in kubernetes.values():
        found.extend(parse_time(text) for text in _texts(part))
    for parts in ray.values():
        for part in parts.values():
            found.extend(_ray_times(part))
    for name, data in look.items():
        if name.parts[0] == "kubernetes" and data:
            heartbeats = (match[1] for match in _HEARTBEAT.finditer(data))
            found.extend(parse_time(text.decode("ascii", "replace")) for text in heartbeats)
    return max(
        (time for time in found if time is not None and EARLIEST < time < LATEST), default=None
    )


def _texts(part: Part) -> Iterator[str]:
    for name, value in _fields(part):
        if name in _PAST_TIMES and isinstance(value, str):
            yield value


def _ray_times(part: Part) -> Iterator[float | None]:
    for name, value in _fields(part):
        if name in _MILLISECONDS:
            yield epoch_from_ms(_number(value))
        elif name in _NANOSECONDS:
            yield epoch_from_ns(_number(value))


def _number(value: object) -> Number:
    return value if isinstance(value, int | float | str) else None


def _fields(part: Part) -> Iterator[tuple[str, object]]:
    """Every field of every struct of a part, with its name."""
    pending: list[object] = list((part.decoded.rows if part.decoded else None) or ())
    while pending:
        value = pending.pop()
        if isinstance(value, tuple | list):
            pending.extend(value)
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                inner = getattr(value, name)
                if isinstance(inner, msgspec.Struct | tuple | list):
                    pending.append(inner)
                elif inner is not None:
                    yield name, inner
