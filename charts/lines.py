"""ICI links as few long strokes: a row of sixteen chips is one, cut only where links break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from charts.hosts import Plan
from fleet.topology import Coord

LinkKind = Literal["link", "broken", "wrap", "wrap broken"]


class Stroke(NamedTuple):
    """A straight run of links of one kind along ``axis`` from chip ``start`` to chip ``end``.

    A wrap stroke stands for one link that closes the ring: from the last chip of a row back to
    its first. Figures draw it as two short ends that leave the grid.
    """

    axis: int
    start: Coord
    end: Coord
    kind: LinkKind


def strokes(plan: Plan) -> Iterator[Stroke]:
    """All ICI links of a slice. A link is broken when a host at one of its ends cannot work.

    Nothing where the topology is unknown. Each link of :func:`fleet.topology.ici_links` lies in
    exactly one stroke.
    """
    topology = plan.topology
    if topology is None:
        return
    bx, by, bz = plan.bounds
    cx, cy, cz = plan.block
    # Tiles come in the order of worker places (x fastest), one for each place.
    dead = [view.host is None or view.host.state != "ready" for view in plan.tiles]
    any_dead = any(dead)

    def is_dead(chip: Coord) -> bool:
        return any_dead and dead[chip[0] // cx + bx * (chip[1] // cy + by * (chip[2] // cz))]

    sizes = (bx * cx, by * cy, bz * cz)
    for axis in range(3):
        if sizes[axis] > 1:
            closes = topology.wrap[axis] and sizes[axis] > 2
            yield from _rows(axis, sizes, closes, is_dead if any_dead else None)


def _rows(
    axis: int, sizes: Coord, closes: bool, is_dead: Callable[[Coord], bool] | None
) -> Iterator[Stroke]:
    size = sizes[axis]
    first, second = (other for other in range(3) if other != axis)
    for a in range(sizes[first]):
        for b in range(sizes[second]):

            def chip(at: int, a: int = a, b: int = b) -> Coord:
                place = [0, 0, 0]
                place[axis], place[first], place[second] = at, a, b
                return (place[0], place[1], place[2])

            if is_dead is None:
                yield Stroke(axis, chip(0), chip(size - 1), "link")
                if closes:
                    yield Stroke(axis, chip(0), chip(size - 1), "wrap")
                continue
            down = [is_dead(chip(at)) for at in range(size)]
            start = 0
            for at in range(1, size):
                kind: LinkKind = "broken" if down[at - 1] or down[at] else "link"
                following = at + 1 < size and (down[at] or down[at + 1])
                if at + 1 == size or following != (kind == "broken"):
                    yield Stroke(axis, chip(start), chip(at), kind)
                    start = at
            if closes:
                broken = down[0] or down[-1]
                yield Stroke(axis, chip(0), chip(size - 1), "wrap broken" if broken else "wrap")
