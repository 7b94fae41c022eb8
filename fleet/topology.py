"""The geometry of a TPU slice: chips, hosts, ICI links, wrap-around and sub-slices.

Everything is computed from the shape's name, nothing is stored per chip, so a slice of 9,216
chips costs as little as one of four until somebody walks over its chips.

Axes. The first number of a topology is x, then y, then z, as in GKE's device plugin: ``4x4x8``
has host bounds 2, 2, 8. Worker ids count hosts with x fastest: ``id = hx + Bx * (hy + By * hz)``.
That is the *assumed* layout: Kubernetes hands out worker ids before it binds pods, so an id is no
proof of a place (see :mod:`fleet.layout` for what is).

Ray 2.60 names the axes the other way round (``4x8`` is y by x) and counts its physical worker
positions with the *last* number fastest. On a square the two agree once both read libtpu's x as x.
Elsewhere a shape means the same box of hosts in both, only numbered in another order; see
:func:`ray_position` and :func:`from_ray_position`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Set
from functools import lru_cache

import msgspec

from fleet.topology_tables import (
    GENERATIONS,
    RAY_WORKER_GRIDS,
    accelerator_label_of,
    canonical_generation,
    generation_of,
    ray_accepts,
    real_topologies,
    split_pod_type,
    topology_from_pod_type,
)

__all__ = [
    "Coord",
    "SubSlice",
    "Topology",
    "TopologyError",
    "accelerator_label_of",
    "canonical_generation",
    "chip_coordinates_of_host",
    "chips_of",
    "from_ray_position",
    "generation_of",
    "host_coordinates",
    "host_of_chip",
    "ici_links",
    "is_subslice",
    "nearest_topologies",
    "parse_topology",
    "pod_type_of",
    "ray_accepts",
    "ray_position",
    "real_topologies",
    "split_pod_type",
    "subslice_shapes",
    "subslices",
    "topology_from_pod_type",
    "worker_id_at",
]

Coord = tuple[int, int, int]

_NAME = re.compile(r"[0-9]{1,5}(?:x[0-9]{1,5}){0,7}")
_HOST_BOUNDS: dict[int, Coord] = {1: (1, 1, 1), 2: (1, 2, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
"""Chips of one host as a block, by how many it has (device plugin)."""


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Geometry of a slice of one shape.

    ``dims``: chips along x, y, z (z is 1 for 2D generations). ``host_bounds``: hosts along x, y,
    z. ``chips_per_host_bounds``: one host's block of chips. ``wrap``: which axes close into a
    ring. ``pod_type`` as Ray writes it (``v5litepod-16``; cores, not chips, where a chip has two).
    ``accelerator``: GKE's label, empty where GKE has none. ``verified``: a source lists this
    shape on such hosts; else it is merely well-formed.
    """

    generation: str
    name: str
    dims: Coord
    chips: int
    hosts: int
    chips_per_host: int
    chips_per_host_bounds: Coord
    host_bounds: Coord
    wrap: tuple[bool, bool, bool]
    pod_type: str
    accelerator: str
    verified: bool

    @property
    def dimensions(self) -> int:
        """2 or 3: how many numbers the generation's shapes have."""
        return GENERATIONS[self.generation].dimensions

    @property
    def ambiguous(self) -> bool:
        """Whether this shape is sold on hosts of different size (v5e and v6e 2x4: 8 or 2 x 4)."""
        return self.generation in ("v5e", "v6e") and self.name == "2x4"

    @property
    def machine_type(self) -> str | None:
        """GKE's machine type for one host; None where none is known."""
        if self.generation == "v3" and self.hosts == 1:
            return "ct3-hightpu-4t"
        return GENERATIONS[self.generation].machines.get(self.chips_per_host)


class SubSlice(msgspec.Struct, frozen=True, kw_only=True):
    """One aligned part of a slice that can work alone. ``index`` is Ray's number for it."""

    name: str
    index: int
    hosts: frozenset[Coord]


class TopologyError(ValueError):
    """No such topology. ``nearest`` holds names that were perhaps meant, best first."""

    def __init__(self, message: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nearest = nearest


def _sides(name: str) -> tuple[int, ...] | None:
    text = name.strip().lower()
    if len(text) > 64 or not _NAME.fullmatch(text):
        return None
    return tuple(int(side) for side in text.split("x"))


def chips_of(name: str) -> int | None:
    """Chips of a topology such as ``4x4x8``; None when the text is none."""
    sides = _sides(name)
    return math.prod(sides) if sides and all(sides) else None


def nearest_topologies(generation: str, name: str, count: int = 3) -> tuple[str, ...]:
    """The real shapes of a generation most like ``name``, which need not be well-formed."""
    real = real_topologies(generation)
    sides = tuple(int(side[:6]) for side in re.findall(r"[0-9]+", name[:64]))
    wanted = sorted(side for side in sides if side)
    # A forgotten or additional 1 is no difference; a side that is missing counts as one.
    while len(wanted) > GENERATIONS[generation].dimensions and wanted[0] == 1:
        wanted.pop(0)

    def distance(candidate: str) -> tuple[float, float, float]:
        have = sorted(int(side) for side in candidate.split("x"))
        width = max(len(have), len(wanted))
        left = [1] * (width - len(have)) + have
        right = [1] * (width - len(wanted)) + wanted
        shape = sum(abs(math.log2(a / b)) for a, b in zip(left, right, strict=True))
        chips = abs(math.log2(math.prod(left) / math.prod(right)))
        spelling = 1 - difflib.SequenceMatcher(None, candidate, name[:64].lower()).ratio()
        return (shape + chips if wanted else 0.0), spelling, float(len(candidate))

    return tuple(sorted(real, key=distance)[:count])


@lru_cache(maxsize=4096)
def parse_topology(generation: str, name: str, chips_per_host: int | None = None) -> Topology:
    """The geometry of ``name`` in ``generation``.

    ``chips_per_host`` is what a pod asks for (or a node has); it decides where a shape is sold on
    hosts of different size. Without it v5e and v6e shapes of up to 8 chips are one host, as Ray
    assumes. Raises :class:`TopologyError` when the shape cannot be; a well-formed shape that no
    source lists works and is not ``verified``. Never allocates by size.
    """
    known = canonical_generation(generation)
    if known is None:
        close = difflib.get_close_matches(generation[:32].lower(), GENERATIONS, n=3, cutoff=0.3)
        raise TopologyError(
            f"{_short(generation)} is no TPU generation; known: {', '.join(GENERATIONS)}",
            tuple(close) or tuple(GENERATIONS),
        )
    info = GENERATIONS[known]
    sides = _sides(name)

    def fail(why: str) -> TopologyError:
        return TopologyError(f"{_short(name)}: {why}", nearest_topologies(known, name))

    if sides is None:
        raise fail(f"not a topology; write {info.dimensions} numbers with x between them")
    if not all(sides):
        raise fail("every side must be at least 1")
    if len(sides) != info.dimensions:
        raise fail(f"{len(sides)} numbers, but {known} slices have {info.dimensions}")
    chips = math.prod(sides)
    if chips > info.max_chips:
        raise fail(f"{chips:,} chips; the largest {known} slice has {info.max_chips:,}")
    dims: Coord = (sides[0], sides[1], sides[2] if len(sides) == 3 else 1)
    per_host = chips_per_host if chips_per_host is not None else _usual_chips_per_host(known, chips)
    bounds = dims if per_host == chips else _HOST_BOUNDS.get(per_host)
    if per_host not in _HOST_BOUNDS or bounds is None:
        raise fail(f"no TPU host has {per_host} chips; 1, 2, 4 or 8 it can be")
    if per_host > chips:
        raise fail(f"{chips} chips in all, fewer than one host of {per_host} has")
    if any(side % bound for side, bound in zip(dims, bounds, strict=True)):
        block = "x".join(str(bound) for bound in bounds[: info.dimensions])
        raise fail(f"cannot be cut into hosts of {per_host} chips ({block})")
    canonical = "x".join(str(side) for side in sides)
    label = "tpu-v3-device" if (known, per_host) == ("v3", chips) else accelerator_label_of(known)
    return Topology(
        generation=known,
        name=canonical,
        dims=dims,
        chips=chips,
        hosts=chips // per_host,
        chips_per_host=per_host,
        chips_per_host_bounds=bounds,
        host_bounds=(dims[0] // bounds[0], dims[1] // bounds[1], dims[2] // bounds[2]),
        wrap=_wrap(known, dims),
        pod_type=f"{info.prefix}-{chips * info.cores}",
        accelerator=label or "",
        verified=_verified(known, canonical, sides, chips, per_host),
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _usual_chips_per_host(generation: str, chips: int) -> int:
    """4, save for small shapes: v5e and v6e pack up to 8 on one VM, and fewer than 4 are one VM."""
    limit = 8 if generation in ("v5e", "v6e") else 3
    return chips if chips <= limit and chips in _HOST_BOUNDS else 4


def _wrap(generation: str, dims: Coord) -> tuple[bool, bool, bool]:
    """``TPU_TOPOLOGY_WRAP`` of the device plugin: v5e and v6e close an axis of 16 chips; the others
    close all axes when each has at least 4. v2, which GKE never had, is taken to be like v3."""
    if generation in ("v5e", "v6e"):
        return (dims[0] == 16, dims[1] == 16, False)
    axes = dims[: GENERATIONS[generation].dimensions]
    closed = all(side >= 4 for side in axes)
    return (closed, closed, closed and len(axes) == 3)


def _verified(
    generation: str, name: str, sides: tuple[int, ...], chips: int, per_host: int
) -> bool:
    usual = _usual_chips_per_host(generation, chips)
    two_by_four = generation in ("v5e", "v6e") and name == "2x4" and per_host == 4
    if per_host != usual and not two_by_four:
        return False
    if generation == "v4" and chips > 64:  # any order of the sides, says xpk
        name = "x".join(str(side) for side in sorted(sides))
    return name in real_topologies(generation)


def pod_type_of(generation: str, name: str) -> str | None:
    """Ray's pod type: ``v6e-16``, ``v5litepod-16``, ``v7x-16`` (cores, where a chip has two).

    None when the generation is unknown or the text is no topology; the shape is not judged.
    """
    known = canonical_generation(generation)
    chips = chips_of(name)
    if known is None or chips is None:
        return None
    return f"{GENERATIONS[known].prefix}-{chips * GENERATIONS[known].cores}"


# --- places ---------------------------------------------------------------------------------


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
    if not _inside(topology, host):
        return None
    bx, by, _ = topology.host_bounds
    return host[0] + bx * (host[1] + by * host[2])


def _inside(topology: Topology, host: Coord) -> bool:
    return all(0 <= at < bound for at, bound in zip(host, topology.host_bounds, strict=True))


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


# --- sub-slices -----------------------------------------------------------------------------


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


@lru_cache(maxsize=64)
def subslices(topology: Topology) -> tuple[SubSlice, ...]:
    """Every sub-slice that Ray could hand out, smallest shapes first, by index within a shape.

    Where a shape does not divide the slice, Ray's numbers collide and it skips those whose number
    of hosts is wrong; so does this.
    """
    bx, by, bz = topology.host_bounds
    found: list[SubSlice] = []
    for name, size in subslice_shapes(topology).items():
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
            if len(hosts) == math.prod(size)
        ]
    return tuple(found)


def is_subslice(topology: Topology, hosts: Set[Coord], *, measured: bool = False) -> str | None:
    """The name of the sub-slice that exactly these hosts form, or None.

    With ``measured`` false the coordinates come from worker ids alone. Then Ray's own numbering
    counts too: Ray may have handed out workers 0, 1, 4 and 5 of a 4x8 as a 4x4, which in GKE's
    order are no box. What either would call a sub-slice is no mistake of the user's.
    """
    if not hosts or not all(_inside(topology, host) for host in hosts):
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
