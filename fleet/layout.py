"""Where hosts really are: measured places where a source gives them, assumed ones elsewhere.

A worker id is handed out before Kubernetes binds the pod, so it is no coordinate (Ray pull request
66029 says so itself). Two marks say more:

* ``ray.io/tpu-subslice-<topology>`` on a Ray node: the number of the sub-slice that the host is
  in, computed by Ray from libtpu's chip coordinates. The label of a one-host shape, or several
  labels together, give the host's place.
* ``cloud.google.com/gke-tpu-slice-<topology>-id`` and ``…/gke-tpu-partition-<topology>-id`` on a
  Kubernetes node: a hash, equal for hosts of one physical block. It says who sits together, not
  where, so it never gives coordinates; it can only confirm or contradict an assumed layout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set

from fleet.places import host_coordinates
from fleet.subslices import subslice_box, subslice_shapes
from fleet.topology_shape import Coord, Topology

Labels = Mapping[str, str | None]
"""A host's labels: those of its Ray node and of its Kubernetes node in one mapping."""

RAY_SUBSLICE_PREFIX = "ray.io/tpu-subslice-"
_GKE_BLOCK = re.compile(
    r"cloud\.google\.com/gke-tpu-(?:slice|partition)-([0-9]{1,3}(?:x[0-9]{1,3}){1,2})-id"
)
_INDEX = re.compile(r"[0-9]{1,6}")


def measured_coordinates(topology: Topology, labels: Mapping[str, Labels]) -> dict[str, Coord]:
    """The places that Ray's sub-slice labels prove, by host key.

    ``labels`` holds each host's labels by host key. Hosts whose labels leave more than one place
    are left out. Labels that cannot be true (a number out of range, two that contradict each
    other, two hosts in one place: Ray 2.60 writes such ones for 3D slices, whose hosts it takes
    to lie along other axes than libtpu does) make the whole slice unmeasured, because then none
    of them can be trusted.
    """
    places: dict[str, Coord] = {}
    shapes = subslice_shapes(topology)
    for key, own in labels.items():
        low, high = [0, 0, 0], list(topology.host_bounds)
        marked = False
        for label, value in own.items():
            name = label.removeprefix(RAY_SUBSLICE_PREFIX)
            if name == label or name not in shapes or value is None:
                continue
            if not _INDEX.fullmatch(value):
                return {}
            box = subslice_box(topology, name, int(value))
            if box is None:
                return {}
            marked = True
            start, size = box
            for axis in range(3):
                low[axis] = max(low[axis], start[axis])
                high[axis] = min(high[axis], start[axis] + size[axis])
        if not marked:
            continue
        extent = [b - a for a, b in zip(low, high, strict=True)]
        if min(extent) < 1:
            return {}
        if extent == [1, 1, 1]:
            places[key] = (low[0], low[1], low[2])
    return places if len(set(places.values())) == len(places) else {}


def physical_blocks(labels: Mapping[str, Labels]) -> dict[str, dict[str, frozenset[str]]]:
    """Which hosts share a physical block, by GKE's hashes: shape, then hash, then host keys."""
    blocks: dict[str, dict[str, set[str]]] = {}
    for key, own in labels.items():
        for label, value in own.items():
            if value and (match := _GKE_BLOCK.fullmatch(label)):
                blocks.setdefault(match[1], {}).setdefault(value, set()).add(key)
    return {
        shape: {value: frozenset(keys) for value, keys in groups.items()}
        for shape, groups in blocks.items()
    }


def block_of(blocks: Mapping[str, Mapping[str, frozenset[str]]], hosts: Set[str]) -> str | None:
    """The shape of the physical block that exactly these hosts form, or None."""
    for shape, groups in blocks.items():
        if any(keys == hosts for keys in groups.values()):
            return shape
    return None


def contradicted(
    topology: Topology,
    places: Mapping[str, Coord],
    blocks: Mapping[str, Mapping[str, frozenset[str]]],
) -> str | None:
    """The shape whose hashes show that ``places`` are wrong; None when none does.

    Hosts of one hash must lie in one box of that shape, whichever way round it lies.
    """
    for shape, groups in blocks.items():
        chips = sorted(int(side) for side in shape.split("x"))
        if len(chips) != topology.dimensions:
            continue
        chips = [1] * (3 - len(chips)) + chips
        for keys in groups.values():
            inside = [places[key] for key in keys if key in places]
            if len(inside) < 2:
                continue
            span = sorted(
                (max(p[axis] for p in inside) - min(p[axis] for p in inside) + 1) * block
                for axis, block in enumerate(topology.chips_per_host_bounds)
            )
            if any(have > allowed for have, allowed in zip(span, chips, strict=True)):
                return shape
    return None


def place_hosts(
    topology: Topology,
    worker_ids: Mapping[str, int | None],
    labels: Mapping[str, Labels] | None = None,
) -> dict[str, tuple[Coord, bool]]:
    """A place for every host, as ``(x, y, z)`` and whether it is measured.

    ``worker_ids`` by host key, in the order in which hosts may take what is left over. Measured
    places come first; then each worker id's assumed place, if nobody has it; then any free place.
    Two hosts never share one; hosts beyond the topology get none and are left out.
    """
    measured = measured_coordinates(topology, labels) if labels else {}
    placed: dict[str, tuple[Coord, bool]] = {
        key: (place, True) for key, place in measured.items() if key in worker_ids
    }
    taken = {place for place, _ in placed.values()}
    claims = Counter(worker_ids.values())
    waiting: list[str] = []
    # Whoever claims an id alone has a better right to its place than one of two who claim it.
    for key in sorted(
        (key for key in worker_ids if key not in placed), key=lambda k: claims[worker_ids[k]] > 1
    ):
        worker_id = worker_ids[key]
        place = None if worker_id is None else host_coordinates(topology, worker_id)
        if place is None or place in taken:
            waiting.append(key)
            continue
        placed[key] = (place, False)
        taken.add(place)
    free = (
        place
        for position in range(topology.hosts)
        if (place := host_coordinates(topology, position)) is not None and place not in taken
    )
    for key, place in zip(waiting, free, strict=False):
        placed[key] = (place, False)
    return placed
