"""What Google sells and what Ray calls it: the tables behind :mod:`fleet.topology`.

Sources: GKE's TPU device plugin (host bounds, wrap-around, accelerator labels), the validation
tables of kubectl-ray and xpk (which shapes exist), and ``ray._private.accelerators.tpu`` of
Ray 2.60 (pod types, its own narrower or wider lists). Where they differ, a comment says so.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple


class Generation(NamedTuple):
    """One TPU generation.

    ``prefix`` starts Ray's pod types (``v5litepod-16``); ``labels`` are values of the node label
    ``cloud.google.com/gke-tpu-accelerator``, the usual one first; ``cores`` per chip; ``largest``
    is the biggest slice on offer, sides ascending; ``machines`` maps chips per VM to machine type.
    """

    name: str
    prefix: str
    labels: tuple[str, ...]
    dimensions: int
    cores: int
    largest: tuple[int, ...]
    machines: dict[int, str]

    @property
    def max_chips(self) -> int:
        """Chips of the biggest slice on offer."""
        product = 1
        for side in self.largest:
            product *= side
        return product


GENERATIONS: Final[dict[str, Generation]] = {
    item.name: item
    for item in (
        # v2 never came to GKE: no accelerator label, no GKE machine type.
        Generation("v2", "v2", (), 2, 2, (16, 16), {}),
        Generation(
            "v3", "v3", ("tpu-v3-slice", "tpu-v3-device"), 2, 2, (32, 32), {4: "ct3p-hightpu-4t"}
        ),
        Generation("v4", "v4", ("tpu-v4-podslice",), 3, 2, (12, 16, 16), {4: "ct4p-hightpu-4t"}),
        Generation(
            "v5e",
            "v5litepod",
            ("tpu-v5-lite-podslice", "tpu-v5-lite-device"),
            2,
            1,
            (16, 16),
            {1: "ct5lp-hightpu-1t", 4: "ct5lp-hightpu-4t", 8: "ct5lp-hightpu-8t"},
        ),
        Generation("v5p", "v5p", ("tpu-v5p-slice",), 3, 2, (16, 16, 24), {4: "ct5p-hightpu-4t"}),
        Generation(
            "v6e",
            "v6e",
            ("tpu-v6e-slice",),
            2,
            1,
            (16, 16),
            {1: "ct6e-standard-1t", 4: "ct6e-standard-4t", 8: "ct6e-standard-8t"},
        ),
        Generation(
            "v7x",
            "v7x",
            ("tpu7x",),
            3,
            2,
            (16, 16, 36),
            {1: "tpu7x-standard-1t", 4: "tpu7x-standard-4t"},
        ),
    )
}

_FLAT: Final[dict[str, tuple[str, ...]]] = {
    "v2": ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16"),
    "v3": ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32"),
    "v5e": ("1x1", "2x2", "2x4", "2x8", "4x4", "4x8", "8x8", "8x16", "16x16"),
    "v6e": ("1x1", "2x2", "2x4", "2x8", "4x4", "4x8", "8x8", "8x16", "16x16"),
}
RAY_ONLY: Final = frozenset({"2x8"})
"""Ray accepts these; GKE does not sell them."""

_SMALL_3D: Final = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4")

RAY_V7X: Final = frozenset(
    ["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16"]
)
"""All that Ray 2.60 accepts for v7x; GKE sells more (4x4x12, 4x4x16, …)."""

RAY_WORKER_GRIDS: Final[dict[str, tuple[int, ...]]] = {
    "2x2": (1, 1),
    "2x4": (1, 2),
    "4x4": (2, 2),
    "4x8": (2, 4),
    "8x8": (4, 4),
    "8x16": (4, 8),
    "16x16": (8, 8),
    "2x2x1": (1, 1, 1),
    "2x2x2": (1, 1, 2),
    "2x2x4": (1, 1, 4),
    "2x4x4": (1, 2, 4),
    "4x4x4": (2, 2, 4),
    "4x4x8": (2, 2, 8),
    "4x8x8": (2, 4, 8),
    "8x8x8": (4, 4, 8),
    "8x8x16": (4, 4, 16),
    "8x16x16": (4, 8, 16),
    "16x16x16": (8, 8, 16),
    "16x16x24": (8, 8, 24),
}
"""Ray's worker grids, one number for each number of the name and in that order (Ray reads them as
y, x and z, y, x). These shapes alone can be sub-slices or be cut into sub-slices by Ray; smallest
first, as in Ray."""

_POD_TYPE = re.compile(r"(v[0-9]{1,2}[a-z]{0,8}|tpu-?v?[0-9]{1,2}[a-z]{0,8})-([0-9]{1,7})")


def _spelled(text: str) -> str:
    """A generation's spelling without its dress: ``TPU-V7X``, ``tpu7x`` and ``v7x`` are ``v7x``."""
    return re.sub(r"^tpu[-_]?v?", "v", text.strip().lower())


@lru_cache(maxsize=512)
def canonical_generation(text: str) -> str | None:
    """``v2`` … ``v7x`` for any spelling (``v5litepod``, ``TPU-V6E``, ``tpu7x``), else None."""
    spelled = _spelled(text[:64])
    if spelled in ("v5litepod", "v5lite", "v5-lite"):
        return "v5e"
    return spelled if spelled in GENERATIONS else None


def accelerator_label_of(generation: str) -> str | None:
    """The value of ``cloud.google.com/gke-tpu-accelerator``; None where GKE has none (v2)."""
    known = GENERATIONS.get(canonical_generation(generation) or "")
    return known.labels[0] if known and known.labels else None


@lru_cache(maxsize=1024)
def _generation_of_label(label: str) -> str | None:
    label = label[:64].strip().lower()
    for item in GENERATIONS.values():
        if label in item.labels:
            return item.name
    return None


def generation_of(
    accelerator_label: str | None = None,
    pod_type: str | None = None,
    accelerator_type: str | None = None,
) -> str | None:
    """The generation that a node or pod is of, from whichever of three marks it carries.

    ``accelerator_label``: GKE's node label (``tpu-v6e-slice``). ``pod_type``: Ray's
    ``ray.io/tpu-pod-type`` or ``TPU_ACCELERATOR_TYPE`` (``v6e-16``, ``tpu7x-16``).
    ``accelerator_type``: Ray's ``ray.io/accelerator-type`` (``TPU-V6E``). The first that makes
    sense wins, in this order; None when none does.
    """
    if accelerator_label and (found := _generation_of_label(accelerator_label)):
        return found
    if pod_type and (parsed := split_pod_type(pod_type)):
        return parsed[0]
    return canonical_generation(accelerator_type) if accelerator_type else None


@lru_cache(maxsize=1024)
def split_pod_type(pod_type: str) -> tuple[str, int] | None:
    """Generation and chips of a pod type: ``v5p-16`` (16 cores) is 8 chips; None when malformed."""
    match = _POD_TYPE.fullmatch(pod_type[:64].strip().lower())
    generation = canonical_generation(match[1]) if match else None
    if match is None or generation is None:
        return None
    chips, rest = divmod(int(match[2]), GENERATIONS[generation].cores)
    return (generation, chips) if chips and not rest else None


@lru_cache(maxsize=16)
def real_topologies(generation: str) -> tuple[str, ...]:
    """Every shape that a source lists for a generation, smallest first, most cube-like first.

    3D: up to 64 chips the five listed ones; above, sides of multiples of 4 in ascending order
    that fit the biggest slice. v7x also has 1x1x1 (the one-chip VM).
    """
    info = GENERATIONS[generation]
    if info.dimensions == 2:
        names = list(_FLAT[generation])
    else:
        a, b, c = info.largest
        names = [
            f"{x}x{y}x{z}"
            for x in range(4, a + 1, 4)
            for y in range(x, b + 1, 4)
            for z in range(y, c + 1, 4)
            if x * y * z > 64
        ]
        names += _SMALL_3D
        if generation == "v7x":
            names.append("1x1x1")
    return tuple(sorted(names, key=_size_and_spread))


def _size_and_spread(name: str) -> tuple[int, int]:
    sides = [int(side) for side in name.split("x")]
    chips = 1
    for side in sides:
        chips *= side
    return chips, sum(sides)


@lru_cache(maxsize=512)
def topologies_of_pod_type(pod_type: str) -> tuple[str, ...]:
    """The shapes that a pod type can be, most cube-like first: ``v6e-16`` is 4x4.

    A shape that only Ray lists (2x8) counts where nothing else has that many chips. Empty when
    the pod type is malformed or no listed shape fits.
    """
    parsed = split_pod_type(pod_type)
    if parsed is None:
        return ()
    generation, chips = parsed
    names = tuple(
        name for name in real_topologies(generation) if _size_and_spread(name)[0] == chips
    )
    return tuple(name for name in names if name not in RAY_ONLY) or names


def ray_accepts(generation: str, name: str) -> bool:
    """Whether Ray 2.60 takes this shape in ``slice_placement_group`` (``VALID_TPU_TOPOLOGY``)."""
    if generation == "v7x":
        return name in RAY_V7X
    info = GENERATIONS[generation]
    if info.dimensions == 2:
        return name in _FLAT[generation] and not (generation in ("v2", "v3") and name == "2x2")
    if name in _SMALL_3D:
        return True
    # v4 and v5p: any order of multiples of 4 up to fixed sides; v4's are below what GKE sells.
    limits = (12, 12, 16) if generation == "v4" else (16, 16, 24)
    sides = [int(side) for side in name.split("x")]
    return len(sides) == 3 and all(
        side % 4 == 0 and 0 < side <= limit for side, limit in zip(sides, limits, strict=True)
    )
