"""The same questions put to Ray's own functions, for every shape that both know."""

from __future__ import annotations

import math

import pytest

from fleet.topology import (
    canonical_generation,
    from_ray_position,
    generation_of,
    is_subslice,
    parse_topology,
    pod_type_of,
    ray_accepts,
    ray_position,
    real_topologies,
    split_pod_type,
    subslice_box,
    subslice_index,
    subslice_shapes,
    subslices,
)
from fleet.topology_tables import RAY_WORKER_GRIDS

tpu = pytest.importorskip("ray._private.accelerators.tpu")
util = pytest.importorskip("ray.util.tpu")

KNOWN = [
    (generation, name)
    for prefix, names in tpu.VALID_TPU_TOPOLOGY.items()
    if (generation := canonical_generation(prefix))
    for name in sorted(names)
]
GRIDS = list(RAY_WORKER_GRIDS)


def test_the_tables_hold_what_rays_hold() -> None:
    assert {
        **tpu._VALID_TOPOLOGY_WORKER_DIMS_2D,
        **tpu._VALID_TOPOLOGY_WORKER_DIMS_3D,
    } == RAY_WORKER_GRIDS
    assert {canonical_generation(name) for name in tpu.VALID_TPU_TYPES} == {
        "v2", "v3", "v4", "v5p", "v5e", "v6e", "v7x",
    }  # fmt: skip


def test_sizes_hosts_and_pod_types() -> None:
    for generation, name in KNOWN:
        shape = parse_topology(generation, name)
        version = shape.pod_type.split("-")[0]
        assert shape.chips == tpu.get_num_chips_from_topology(name)
        assert shape.chips_per_host == tpu.get_chips_per_host(name, version)
        assert shape.pod_type == tpu.infer_tpu_pod_type_from_topology(name, f"TPU-{version}")
        assert pod_type_of(generation, name) == shape.pod_type
        assert split_pod_type(shape.pod_type) == (generation, shape.chips)
        assert tpu.get_total_chips_from_accelerator_type(shape.pod_type) == shape.chips
        assert generation_of(accelerator_type=f"TPU-{version.upper()}") == generation
        assert util.get_tpu_version_from_type(f"TPU-{version.upper()}") == version
        workers, _ = util.get_tpu_worker_resources(name, version)
        assert workers == shape.hosts


def test_which_shapes_ray_accepts() -> None:
    for prefix, names in tpu.VALID_TPU_TOPOLOGY.items():
        generation = canonical_generation(prefix)
        assert generation is not None
        for name in set(names) | set(real_topologies(generation)):
            assert ray_accepts(generation, name) == (name in names)


@pytest.mark.parametrize("name", GRIDS)
def test_every_host_carries_rays_subslice_labels(name: str) -> None:
    shape = parse_topology("v6e" if name.count("x") == 1 else "v5p", name, 4)
    assert math.prod(shape.host_bounds) == math.prod(tpu._get_worker_dims_for_topology(name))
    for position in range(shape.hosts):
        host = from_ray_position(shape, position)
        assert host is not None
        assert ray_position(shape, host) == position
        ours = {
            f"ray.io/tpu-subslice-{part}": str(subslice_index(shape, part, host))
            for part in subslice_shapes(shape)
        }
        assert ours == tpu._build_subslice_labels(position, name)


@pytest.mark.parametrize("name", ["4x4", "8x8", "16x16"])
def test_a_square_has_the_worker_ids_that_ray_computes_from_chip_coordinates(name: str) -> None:
    from fleet.topology import chip_coordinates_of_host, worker_id_at

    shape = parse_topology("v6e", name)
    for position in range(shape.hosts):
        host = from_ray_position(shape, position)
        assert host is not None
        chips = [list(chip[:2]) for chip in chip_coordinates_of_host(shape, host)]
        assert tpu._get_physical_worker_id_from_coords(chips, name) == position
        assert worker_id_at(shape, host) == position


@pytest.mark.parametrize("name", GRIDS)
def test_subslices_are_those_that_ray_would_hand_out(name: str) -> None:
    shape = parse_topology("v6e" if name.count("x") == 1 else "v5p", name, 4)
    groups: dict[tuple[str, int], set[int]] = {}
    for position in range(shape.hosts):
        for label, index in tpu._build_subslice_labels(position, name).items():
            part = label.removeprefix("ray.io/tpu-subslice-")
            groups.setdefault((part, int(index)), set()).add(position)
    usable = {
        key: positions
        for key, positions in groups.items()
        # Ray skips those with the wrong number of workers ("corrupted or partial").
        if len(positions) == math.prod(RAY_WORKER_GRIDS[key[0]])
    }
    ours = {
        (part.name, part.index): {ray_position(shape, host) for host in part.hosts}
        for part in subslices(shape)
    }
    assert ours == usable
    for part in subslices(shape):
        assert is_subslice(shape, part.hosts, measured=True) == part.name
        box = subslice_box(shape, part.name, part.index)
        if box is not None:
            (x, y, z), (sx, sy, sz) = box
            assert part.hosts == {
                (x + i, y + j, z + k) for i in range(sx) for j in range(sy) for k in range(sz)
            }
