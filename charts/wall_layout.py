"""Which slices the wall shows, in which order, and where each tile goes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from charts.hosts import Holders, state_of
from charts.palette import SLICE_SIGNS, WORST_FIRST, StateKey
from charts.text import escape
from fleet.model import Fleet, Slice, SliceStatusName
from fleet.topology import Topology, host_coordinates

HEADING = 26.0
LETTER = 0.42
"""Width of the letter's bar, as a part of the tile's height."""
SIZES = (54.0, 44.0, 36.0, 30.0, 26.0, 22.0, 18.0, 15.0)
"""Heights of a tile in pixels, tried from the largest."""
ONE_SCREEN = 900.0

_SEVERITY: dict[StateKey, int] = {state: rank for rank, state in enumerate(WORST_FIRST)}

Groups = list[tuple[tuple[str, str], list[Slice]]]


class Tile(NamedTuple):
    """One slice on the wall; upper left corner and width in pixels."""

    slice_: Slice
    status: SliceStatusName
    x: float
    y: float
    wide: float


class Wall(NamedTuple):
    """All tiles, ``tall`` pixels high each; ``headings`` are (HTML, y); ``height`` of it all."""

    tiles: list[Tile]
    headings: list[tuple[str, float]]
    tall: float
    height: float


def select_slices(
    fleet: Fleet,
    statuses: Mapping[str, SliceStatusName],
    *,
    search: str = "",
    only: Iterable[SliceStatusName] = (),
    generations: Iterable[str] = (),
) -> tuple[Slice, ...]:
    """The slices that match, worst first.

    Args:
        fleet: where they are.
        statuses: each slice's status by id; one without is ``unknown``.
        search: words that must all occur in what a slice is called: its id, generation, topology,
            pod type, node pools, worker group, or one of its pods and nodes. Case does not count.
        only: statuses to keep; all when empty.
        generations: generations to keep; all when empty.
    """
    words = search.lower().split()
    kept, wanted = frozenset(only), frozenset(generations)
    found = [
        item
        for item in fleet.slices
        if (not kept or statuses.get(item.id, "unknown") in kept)
        and (not wanted or item.generation in wanted)
        and (not words or _matches(item, words))
    ]
    return tuple(sorted(found, key=lambda item: _rank(item, statuses)))


def _matches(item: Slice, words: list[str]) -> bool:
    names = [item.id, item.generation, item.topology_name, item.pod_type, item.group]
    names += item.node_pools
    text = "\n".join(name for name in names if name).lower()
    rest = [word for word in words if word not in text]
    if not rest:
        return True
    hosts = "\n".join(f"{host.pod_name}\n{host.node_name}" for host in item.hosts).lower()
    return all(word in hosts for word in rest)


def _rank(item: Slice, statuses: Mapping[str, SliceStatusName]) -> tuple[int, str]:
    return WORST_FIRST.index(statuses.get(item.id, "unknown")), item.id


def grouped(slices: Sequence[Slice], statuses: Mapping[str, SliceStatusName]) -> Groups:
    """Slices by (generation, topology), the group with the worst slice first."""
    groups: dict[tuple[str, str], list[Slice]] = {}
    for item in sorted(slices, key=lambda item: _rank(item, statuses)):
        key = (item.generation or "unknown generation", item.topology_name or "unknown topology")
        groups.setdefault(key, []).append(item)
    return sorted(
        groups.items(), key=lambda pair: (_rank(pair[1][0], statuses)[0], _natural(pair[0]))
    )


def _natural(key: tuple[str, str]) -> tuple[str, tuple[int, ...], str]:
    sides = key[1].split("x")
    return key[0], tuple(int(side) for side in sides if side.isdigit()), key[1]


def _extent(topology: Topology | None, hosts: int) -> tuple[int, int]:
    """Cells across and down for one slice before they are made coarser; layers side by side."""
    if topology is None:
        across = max(1, math.ceil(math.sqrt(max(1, hosts))))
        return across, max(1, math.ceil(hosts / across))
    bx, by, bz = topology.host_bounds
    wanted = math.sqrt(bz * by / bx)
    columns = min((n for n in range(1, bz + 1) if bz % n == 0), key=lambda n: abs(n - wanted))
    return bx * columns, by * (bz // columns)


def _tile_width(key_slices: Sequence[Slice], tall: float) -> float:
    first = key_slices[0]
    across, down = _extent(first.topology, len(first.hosts))
    ratio = min(2.0, max(0.6, across / down))
    return tall * (ratio + LETTER) + 2


def _tile_height(groups: Groups, width: int) -> float:
    """The largest tile with which the whole wall stays within about two screens."""
    for tall in SIZES:
        height = 0.0
        for _, members in groups:
            gap = _gap(tall)
            columns = max(1, int((width + gap) // (_tile_width(members, tall) + gap)))
            height += math.ceil(len(members) / columns) * (tall + gap) + HEADING
        if height <= ONE_SCREEN:
            return tall
    return SIZES[-1]


def lay_wall(slices: Sequence[Slice], statuses: Mapping[str, SliceStatusName], width: int) -> Wall:
    """Put the slices in groups and rows, ``width`` pixels wide, with tiles as large as fit."""
    groups = grouped(slices, statuses)
    tall = _tile_height(groups, width)
    gap = _gap(tall)
    tiles: list[Tile] = []
    headings: list[tuple[str, float]] = []
    y = 0.0
    for (generation, topology), members in groups:
        counts: dict[SliceStatusName, int] = {}
        for item in members:
            status = statuses.get(item.id, "unknown")
            counts[status] = counts.get(status, 0) + 1
        present = [name for name in WORST_FIRST if name in counts]
        parts = ", ".join(f"{counts[name]:,} {name}" for name in present)
        if len(parts) > (width - 130) / 6.8:
            parts = "  ".join(f"{counts[name]:,} {SLICE_SIGNS[name].letter}" for name in present)
        title = f"<b>{escape(generation, 24)} {escape(topology, 24)}</b>"
        headings.append((f"{title} · {parts}", y + HEADING / 2))
        y += HEADING
        wide = _tile_width(members, tall)
        columns = max(1, int((width + gap) // (wide + gap)))
        for at, item in enumerate(members):
            row, column = divmod(at, columns)
            tiles.append(
                Tile(
                    item,
                    statuses.get(item.id, "unknown"),
                    column * (wide + gap),
                    y + row * (tall + gap),
                    wide,
                )
            )
        y += math.ceil(len(members) / columns) * (tall + gap) + 4
    return Wall(tiles, headings, tall, max(y, 40.0))


def _gap(tall: float) -> float:
    return 8.0 if tall >= 30 else 5.0


def host_cells(
    slice_: Slice, status: SliceStatusName, holders: Holders, finest: int
) -> tuple[dict[tuple[int, int], StateKey], int, int]:
    """The states of a slice's hosts as at most ``finest`` by ``finest`` cells, worst host wins.

    Returns the cells by (column, row), and how many columns and rows there are.
    """
    busy = {worker.host_key for worker in slice_.workers if worker.alive}
    topology = slice_.topology
    across, down = _extent(topology, len(slice_.hosts))
    wide, high = min(across, finest), min(down, finest)
    cells: dict[tuple[int, int], StateKey] = {}

    def put(column: int, row: int, state: StateKey) -> None:
        cell = (column * wide // across, row * high // down)
        if cell not in cells or _SEVERITY[state] < _SEVERITY[cells[cell]]:
            cells[cell] = state

    bx, by, _ = topology.host_bounds if topology is not None else (across, down, 1)
    columns = max(1, across // bx)
    for at, host in enumerate(slice_.hosts):
        held = len({group.key for group, _ in holders.groups.get((slice_.id, host.key), ())})
        state = state_of(host, slice_, status, host.key in busy, held)
        place = host.coordinates
        if topology is None or place is None:
            place = (
                host_coordinates(topology, at)
                if topology is not None
                else (at % across, at // across, 0)
            )
        if place is None:
            continue
        x, y, z = place
        column, row = (z % columns) * bx + x, (z // columns) * by + y
        if 0 <= column < across and 0 <= row < down:
            put(column, row, state)
    if not cells:
        nothing: StateKey = "unknown" if status == "unknown" else "incomplete"
        cells = {(i, j): nothing for i in range(wide) for j in range(high)}
    return cells, wide, high
