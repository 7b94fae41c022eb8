"""The shape of a slice: reading its name, judging it, and what follows from it."""

from __future__ import annotations

import difflib
import math
import re
from functools import lru_cache

import msgspec

from fleet.topology_tables import (
    GENERATIONS,
    accelerator_label_of,
    canonical_generation,
    real_topologies,
)

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
