"""Where hosts and chips of a slice are, and the ICI links between chips.

``worker id = hx + Bx * (hy + By * hz)``: x fastest, as in GKE's device plugin. That is the assumed
layout; :mod:`fleet.layout` knows when a place is measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.topology_shape import Coord, Topology


def host_coordinates(topology: Topology, worker_id: int) -> Coord | None:
    """Where worker ``worker_id`` is in the assumed layout (x fastest); None outside the slice."""
    if not 0 <= worker_id < topology.hosts:
        return None
    bx, by, _ = topology.host_bounds
    rest, x = divmod(worker_id, bx)
    z, y = divmod(rest, by)
    return (x, y, z)


def worker_id_at(topology: Topology, host: Coord) -> int | None:
    """The worker id that the assumed layout puts at ``host``; None outside the slice."""
    if not inside(topology, host):
        return None
    bx, by, _ = topology.host_bounds
    return host[0] + bx * (host[1] + by * host[2])


def chip_coordinates_of_host(topology: Topology, host: Coord) -> tuple[Coord, ...]:
    """The chips of the host at ``host``, x fastest, in the slice's own chip coordinates."""
    cx, cy, cz = topology.chips_per_host_bounds
    x0, y0, z0 = host[0] * cx, host[1] * cy, host[2] * cz
    return tuple((x0 + x, y0 + y, z0 + z) for z in range(cz) for y in range(cy) for x in range(cx))


def host_of_chip(topology: Topology, chip: Coord) -> Coord:
    """The host that has ``chip``."""
    cx, cy, cz = topology.chips_per_host_bounds
    return (chip[0] // cx, chip[1] // cy, chip[2] // cz)


def ici_links(topology: Topology) -> Iterator[tuple[Coord, Coord, bool]]:
    """Every physical ICI link once, as (chip, chip, is it the one that closes a ring).

    An axis of two has one link, not two, even where it closes. GKE draws no twisted tori.
    """
    nx, ny, nz = topology.dims
    for axis, size in enumerate((nx, ny, nz)):
        closes = topology.wrap[axis] and size > 2
        for z in range(nz):
            for y in range(ny):
                for x in range(nx):
                    chip = (x, y, z)
                    here = chip[axis]
                    if here + 1 == size and not closes:
                        continue
                    other = list(chip)
                    other[axis] = (here + 1) % size
                    yield chip, (other[0], other[1], other[2]), here + 1 == size


def inside(topology: Topology, host: Coord) -> bool:
    """Whether the slice has a host at ``host``."""
    return all(0 <= at < bound for at, bound in zip(host, topology.host_bounds, strict=True))


def link_counts(topology: Topology) -> tuple[int, int]:
    """How many ICI links there are: those between neighbours, and those that wrap."""
    plain = wrapping = 0
    for axis, size in enumerate(topology.dims):
        lines = topology.chips // size
        plain += lines * (size - 1)
        wrapping += lines if topology.wrap[axis] and size > 2 else 0
    return plain, wrapping
