"""Measured and assumed places."""

from __future__ import annotations

import random

import pytest

from fleet.layout import (
    block_of,
    contradicted,
    measured_coordinates,
    physical_blocks,
    place_hosts,
)
from fleet.topology import (
    Coord,
    Topology,
    host_coordinates,
    parse_topology,
    subslice_index,
    subslice_shapes,
)

SUBSLICE = "ray.io/tpu-subslice-"


def labels_at(shape: Topology, host: Coord, *names: str) -> dict[str, str | None]:
    return {
        SUBSLICE + name: str(subslice_index(shape, name, host))
        for name in names or subslice_shapes(shape)
    }


@pytest.mark.parametrize(
    ("generation", "name"), [("v6e", "4x4"), ("v6e", "4x8"), ("v5p", "4x4x8"), ("v6e", "8x16")]
)
def test_labels_give_places_whatever_the_worker_ids(generation: str, name: str) -> None:
    shape = parse_topology(generation, name)
    places = [host for w in range(shape.hosts) if (host := host_coordinates(shape, w))]
    random.Random(7).shuffle(places)
    labels = {f"pod-{i}": labels_at(shape, place) for i, place in enumerate(places)}
    assert measured_coordinates(shape, labels) == {f"pod-{i}": p for i, p in enumerate(places)}


def test_coarse_labels_may_leave_several_places() -> None:
    shape = parse_topology("v6e", "4x8")
    one = {"a": labels_at(shape, (1, 3, 0), "4x4"), "b": labels_at(shape, (0, 0, 0))}
    assert measured_coordinates(shape, one) == {"b": (0, 0, 0)}


def test_no_labels_no_places() -> None:
    shape = parse_topology("v6e", "4x4")
    assert measured_coordinates(shape, {"a": {}, "b": {"app": "x", SUBSLICE + "9x9": "0"}}) == {}


@pytest.mark.parametrize("value", ["4", "-1", "x", "", "1" * 50, "٣"])
def test_labels_that_cannot_be_true_are_not_believed(value: str) -> None:
    shape = parse_topology("v6e", "4x4")
    labels = {"a": {SUBSLICE + "2x2": value}, "b": labels_at(shape, (1, 1, 0))}
    assert measured_coordinates(shape, labels) == {}


def test_two_hosts_in_one_place_make_all_unmeasured() -> None:
    shape = parse_topology("v5p", "4x4x4")
    same = labels_at(shape, (0, 0, 0))
    labels = {"a": same, "b": dict(same), "c": labels_at(shape, (1, 1, 3))}
    assert measured_coordinates(shape, labels) == {}


def test_labels_that_contradict_each_other() -> None:
    shape = parse_topology("v6e", "8x8")
    labels = {"a": {SUBSLICE + "2x2": "0", SUBSLICE + "4x4": "3"}}
    assert measured_coordinates(shape, labels) == {}


def test_rays_own_3d_discovery_is_recognised_as_wrong() -> None:
    """With libtpu's coordinates and hosts of 2x2x1, Ray 2.60 gives two hosts of a 4x4x4 the same
    position; what it writes then must not be shown as measured."""
    tpu = pytest.importorskip("ray._private.accelerators.tpu")
    from fleet.topology import chip_coordinates_of_host

    shape = parse_topology("v5p", "4x4x4")
    labels = {}
    for worker in range(shape.hosts):
        host = host_coordinates(shape, worker)
        assert host is not None
        chips = [list(chip) for chip in chip_coordinates_of_host(shape, host)]
        position = tpu._get_physical_worker_id_from_coords(chips, "4x4x4")
        labels[f"w{worker}"] = tpu._build_subslice_labels(position, "4x4x4")
    assert measured_coordinates(shape, labels) == {}


def test_blocks_group_but_do_not_place() -> None:
    gke = "cloud.google.com/gke-tpu-"
    labels = {
        "a": {f"{gke}slice-2x4-id": "h1", f"{gke}slice-4x4-id": "h0"},
        "b": {f"{gke}slice-2x4-id": "h1", f"{gke}slice-4x4-id": "h0"},
        "c": {f"{gke}slice-2x4-id": "h2", f"{gke}slice-4x4-id": "h0"},
        "d": {f"{gke}partition-4x4x4-id": "p", f"{gke}slice-99999x4-id": "x", f"{gke}slice": "s"},
    }
    blocks = physical_blocks(labels)
    assert blocks == {
        "2x4": {"h1": frozenset("ab"), "h2": frozenset("c")},
        "4x4": {"h0": frozenset("abc")},
        "4x4x4": {"p": frozenset("d")},
    }
    assert block_of(blocks, {"a", "b"}) == "2x4"
    assert block_of(blocks, {"b", "c"}) is None
    assert measured_coordinates(parse_topology("v6e", "4x4"), labels) == {}


def test_blocks_can_contradict_the_assumed_layout() -> None:
    shape = parse_topology("v6e", "8x8")
    key = "cloud.google.com/gke-tpu-slice-4x4-id"
    near = {"a": (0, 0, 0), "b": (1, 1, 0)}
    far = {"a": (0, 0, 0), "b": (3, 3, 0)}
    blocks = physical_blocks({"a": {key: "h"}, "b": {key: "h"}})
    assert contradicted(shape, near, blocks) is None
    assert contradicted(shape, far, blocks) == "4x4"


def test_everyone_gets_a_place_of_their_own() -> None:
    shape = parse_topology("v6e", "4x4")
    ids = {"a": 0, "b": 0, "c": 3, "d": None, "e": 2}
    placed = place_hosts(shape, ids)
    assert len({place for place, _ in placed.values()}) == len(placed) == 4
    assert placed["c"] == ((1, 1, 0), False)
    assert placed["e"] == ((0, 1, 0), False)
    measured = place_hosts(
        shape, {"a": 0, "b": 1, "c": 2, "d": 3}, {"d": labels_at(shape, (0, 0, 0))}
    )
    assert measured["d"] == ((0, 0, 0), True)
    assert measured["b"] == ((1, 0, 0), False)
    assert measured["a"] == ((1, 1, 0), False)
