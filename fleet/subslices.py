"""Which parts of a slice can work alone, as Ray 2.60 cuts them (``_build_subslice_labels``).

Ray names the axes the other way round from GKE (``4x8`` is y by x) and counts its physical worker
positions with the *last* number fastest. On a square the two agree, as both read libtpu's x as x.
Elsewhere a shape means the same box of hosts in both, only numbered in another order.
"""

from __future__ import annotations

import math
from collections.abc import Set
from functools import lru_cache

import msgspec

from fleet.places import inside, worker_id_at
from fleet.topology_shape import Coord, Topology
from fleet.topology_tables import RAY_WORKER_GRIDS


class SubSlice(msgspec.Struct, frozen=True, kw_only=True):
    """One aligned part of a slice that can work alone. ``index`` is Ray's number for it."""

    name: str
    index: int
    hosts: frozenset[Coord]


def _swaps_axes(topology: Topology) -> bool:
    """Whether Ray's axes have to be turned round: not on a square, where Ray's x is libtpu's x."""
    bx, by, _ = topology.host_bounds
    return topology.dimensions == 3 or bx != by


def ray_position(topology: Topology, host: Coord) -> int:
    """Ray's linear number of the place ``host`` (its ``physical_worker_id``).

    Ray counts with the last number of the topology fastest; on a square that is x on both sides.
    """
    x, y, z = host
    bx, by, bz = topology.host_bounds
    if topology.dimensions == 3:
        return (x * by + y) * bz + z
    return x * by + y if _swaps_axes(topology) else y * bx + x


def from_ray_position(topology: Topology, position: int) -> Coord | None:
    """The place that Ray calls ``position``; None outside the slice."""
    if not 0 <= position < topology.hosts:
        return None
    bx, by, bz = topology.host_bounds
    if topology.dimensions == 3:
        rest, z = divmod(position, bz)
        x, y = divmod(rest, by)
        return (x, y, z)
    if _swaps_axes(topology):
        x, y = divmod(position, by)
    else:
        y, x = divmod(position, bx)
    return (x, y, 0)


@lru_cache(maxsize=512)
def subslice_shapes(topology: Topology) -> dict[str, Coord]:
    """The shapes this slice can be cut into, smallest first, with their size in hosts (x, y, z).

    Those of Ray's table that are smaller and fit, in hosts of four chips; none for a slice on
    hosts of another size, for a single host, or for what is as big as the slice itself.
    """
    if topology.hosts == 1 or topology.chips_per_host != 4:
        return {}
    shapes: dict[str, Coord] = {}
    for name, grid in RAY_WORKER_GRIDS.items():
        if len(grid) != topology.dimensions or math.prod(grid) >= topology.hosts:
            continue
        if len(grid) == 3:
            size = (grid[0], grid[1], grid[2])
        else:
            size = (grid[0], grid[1], 1) if _swaps_axes(topology) else (grid[1], grid[0], 1)
        if all(part <= whole for part, whole in zip(size, topology.host_bounds, strict=True)):
            shapes[name] = size
    return shapes


def subslice_index(topology: Topology, name: str, host: Coord) -> int | None:
    """Ray's number of the ``name`` sub-slice that ``host`` is in (its ``ray.io/tpu-subslice-…``
    label); None where Ray has no such label."""
    size = subslice_shapes(topology).get(name)
    if size is None:
        return None
    place = [at // part for at, part in zip(host, size, strict=True)]
    count = [whole // part for whole, part in zip(topology.host_bounds, size, strict=True)]
    if topology.dimensions == 3:
        return (place[0] * count[1] + place[1]) * count[2] + place[2]
    if _swaps_axes(topology):
        return place[0] * count[1] + place[1]
    return place[1] * count[0] + place[0]


def subslice_box(topology: Topology, name: str, index: int) -> tuple[Coord, Coord] | None:
    """First host and size in hosts of the ``index``-th sub-slice; the inverse of
    :func:`subslice_index`. None where there is none, and where ``name`` does not divide the slice,
    because there Ray gives several places the same number."""
    size = subslice_shapes(topology).get(name)
    if size is None or any(w % s for w, s in zip(topology.host_bounds, size, strict=True)):
        return None
    nx, ny, nz = (w // s for w, s in zip(topology.host_bounds, size, strict=True))
    if not 0 <= index < nx * ny * nz:
        return None
    if topology.dimensions == 3:
        rest, z = divmod(index, nz)
        x, y = divmod(rest, ny)
    elif _swaps_axes(topology):
        (x, y), z = divmod(index, ny), 0
    else:
        (y, x), z = divmod(index, nx), 0
    return (x * size[0], y * size[1], z * size[2]), size


@lru_cache(maxsize=64)
def subslices(topology: Topology) -> tuple[SubSlice, ...]:
    """Every sub-slice that Ray could hand out, smallest shapes first, by index within a shape.

    Where a shape does not divide the slice, Ray's numbers collide; a collision is no sub-slice (Ray
    skips those whose number of hosts is wrong).
    """
    bx, by, bz = topology.host_bounds
    found: list[SubSlice] = []
    for name in subslice_shapes(topology):
        groups: dict[int, list[Coord]] = {}
        for z in range(bz):
            for y in range(by):
                for x in range(bx):
                    index = subslice_index(topology, name, (x, y, z))
                    if index is not None:
                        groups.setdefault(index, []).append((x, y, z))
        found += [
            SubSlice(name=name, index=index, hosts=frozenset(hosts))
            for index, hosts in sorted(groups.items())
            if _aligned_box(topology, set(hosts)) == name
        ]
    return tuple(found)


def is_subslice(topology: Topology, hosts: Set[Coord], *, measured: bool = False) -> str | None:
    """The name of the sub-slice that exactly these hosts form, or None.

    With ``measured`` false the coordinates come from worker ids alone. Then Ray's own numbering
    counts too: Ray may have handed out workers 0, 1, 4 and 5 of a 4x8 as a 4x4, which in GKE's
    order are no box. What either would call a sub-slice is no mistake of the user's.
    """
    if not hosts or not all(inside(topology, host) for host in hosts):
        return None
    found = _aligned_box(topology, hosts)
    if found is None and not measured:
        ids = [worker_id_at(topology, host) for host in hosts]
        places = [from_ray_position(topology, item) for item in ids if item is not None]
        found = _aligned_box(topology, {place for place in places if place is not None})
    return found


def _aligned_box(topology: Topology, hosts: Set[Coord]) -> str | None:
    low = [min(host[axis] for host in hosts) for axis in range(3)]
    high = [max(host[axis] for host in hosts) for axis in range(3)]
    size = tuple(b - a + 1 for a, b in zip(low, high, strict=True))
    if math.prod(size) != len(hosts) or any(a % part for a, part in zip(low, size, strict=True)):
        return None
    return next((name for name, shape in subslice_shapes(topology).items() if shape == size), None)
