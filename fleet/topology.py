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

from fleet.places import (
    chip_coordinates_of_host,
    host_coordinates,
    host_of_chip,
    ici_links,
    link_counts,
    worker_id_at,
)
from fleet.subslices import (
    SubSlice,
    from_ray_position,
    is_subslice,
    ray_position,
    subslice_box,
    subslice_index,
    subslice_shapes,
    subslices,
)
from fleet.topology_shape import (
    Coord,
    Topology,
    TopologyError,
    chips_of,
    nearest_topologies,
    parse_topology,
    pod_type_of,
)
from fleet.topology_tables import (
    accelerator_label_of,
    canonical_generation,
    generation_of,
    ray_accepts,
    real_topologies,
    split_pod_type,
    topologies_of_pod_type,
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
    "link_counts",
    "nearest_topologies",
    "parse_topology",
    "pod_type_of",
    "ray_accepts",
    "ray_position",
    "real_topologies",
    "split_pod_type",
    "subslice_box",
    "subslice_index",
    "subslice_shapes",
    "subslices",
    "topologies_of_pod_type",
    "worker_id_at",
]
