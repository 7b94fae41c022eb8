"""What the colours of a slice's picture stand for: one sign for each tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from charts.hosts import HostView, percent
from charts.palette import (
    HOST_SIGNS,
    NO_DATA,
    NOBODY,
    SCALE,
    SLICE_SIGNS,
    Sign,
    StateKey,
    sequence_sign,
)
from charts.text import escape
from fleet.model import Fleet
from fleet.times import format_duration

ColourBy = Literal["state", "placement_group", "job", "duty_cycle", "pod_age"]
COLOUR_BY: tuple[ColourBy, ...] = ("state", "placement_group", "job", "duty_cycle", "pod_age")

_DUTY = ((0.01, "under 1 %"), (0.25, "1 to 25 %"), (0.5, "25 to 50 %"), (0.75, "50 to 75 %"))
_AGES = (
    (3600.0, "under 1 h"),
    (6 * 3600.0, "1 to 6 h"),
    (86400.0, "6 to 24 h"),
    (7 * 86400.0, "1 to 7 days"),
)
_ABSENT: tuple[StateKey, ...] = ("incomplete", "forming", "unknown")


def signs(tiles: Sequence[HostView], colour_by: ColourBy, fleet: Fleet | None) -> list[Sign]:
    """The sign of each tile, in the order of ``tiles``.

    Whatever the colours stand for, a host that is missing, broken or cannot be seen keeps the sign
    of its state: a picture coloured by job must not hide that a host is gone.
    """
    if colour_by == "state":
        return [HOST_SIGNS[view.state] for view in tiles]
    if colour_by == "placement_group":
        return _by_names(tiles, [_group_of(view) for view in tiles], "several groups")
    if colour_by == "job":
        return _by_names(tiles, [_job_of(view, fleet) for view in tiles], "several jobs")
    if colour_by == "duty_cycle":
        return [_by_duty(view) for view in tiles]
    return [_by_age(view, fleet) for view in tiles]


def short_value(view: HostView, colour_by: ColourBy, fleet: Fleet | None) -> str:
    """The exact value behind a tile's colour, where there is one worth printing on it."""
    if view.state in _ABSENT:
        return ""
    if colour_by == "duty_cycle" and view.use is not None and view.use.duty_cycle is not None:
        return percent(view.use.duty_cycle).replace(" ", "")
    if colour_by == "pod_age" and fleet is not None and view.host is not None:
        since = view.host.age_since
        return "" if since is None else format_duration(fleet.now - since)
    return ""


def _out_of_order(view: HostView) -> Sign | None:
    if view.host is None or view.state in _ABSENT or view.state == "broken":
        return HOST_SIGNS[view.state]
    return None


def _group_of(view: HostView) -> tuple[str, ...]:
    return tuple(f"{group.key}\0{group.label}" for group in view.groups)


def _job_of(view: HostView, fleet: Fleet | None) -> tuple[str, ...]:
    ids = {worker.job_id for worker in view.workers if worker.job_id and worker.alive}
    ids = ids or {group.job_id for group in view.groups if group.job_id}
    return tuple(
        f"{job}\0job {job}" + (f" ({status})" if (status := _job_status(job, fleet)) else "")
        for job in sorted(ids)
    )


def _job_status(job: str, fleet: Fleet | None) -> str:
    return fleet.job_status.get(job, "").lower() if fleet is not None else ""


def _by_names(
    tiles: Sequence[HostView], names: Sequence[tuple[str, ...]], several: str
) -> list[Sign]:
    known = sorted({name for own in names for name in own})
    found = {
        name: sequence_sign(index, escape(name.split("\0", 1)[1], 40))
        for index, name in enumerate(known)
    }
    shared = SLICE_SIGNS["shared"]
    mixed = Sign(several, "+", shared.color, shared.ink, "asterisk-open")
    result = []
    for view, own in zip(tiles, names, strict=True):
        sign = _out_of_order(view)
        if sign is None or (own and view.state == "broken"):
            sign = NOBODY if not own else found[own[0]] if len(own) == 1 else mixed
        result.append(sign)
    return result


def _step(index: int, word: str) -> Sign:
    color, ink = SCALE[index]
    symbols = ("circle", "triangle-up", "diamond", "hexagon", "square")
    return Sign(word, str(index), color, ink, symbols[index])


def _by_duty(view: HostView) -> Sign:
    duty = view.use.duty_cycle if view.use is not None else None
    if duty is None or view.state in _ABSENT:
        return _out_of_order(view) or NO_DATA
    for index, (limit, word) in enumerate(_DUTY):
        if duty < limit:
            return _step(index, word)
    return _step(len(_DUTY), "75 % and more")


def _by_age(view: HostView, fleet: Fleet | None) -> Sign:
    since = view.host.age_since if view.host is not None else None
    if fleet is None or since is None or view.state in _ABSENT:
        return _out_of_order(view) or NO_DATA
    for index, (limit, word) in enumerate(_AGES):
        if fleet.now - since < limit:
            return _step(index, word)
    return _step(len(_AGES), "over 7 days")
