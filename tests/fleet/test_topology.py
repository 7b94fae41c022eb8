"""Shapes: names, sizes, hosts, wraps, pod types, and what is refused."""

from __future__ import annotations

import re

import pytest

from fleet.topology import (
    TopologyError,
    accelerator_label_of,
    canonical_generation,
    chips_of,
    generation_of,
    parse_topology,
    pod_type_of,
    real_topologies,
    split_pod_type,
    topologies_of_pod_type,
)


@pytest.mark.parametrize(
    ("generation", "name", "per_host", "hosts", "bounds", "wrap", "pod_type", "label"),
    [
        ("v6e", "1x1", 1, 1, (1, 1, 1), (False, False, False), "v6e-1", "tpu-v6e-slice"),
        ("v6e", "2x2", 4, 1, (1, 1, 1), (False, False, False), "v6e-4", "tpu-v6e-slice"),
        ("v6e", "2x4", 8, 1, (1, 1, 1), (False, False, False), "v6e-8", "tpu-v6e-slice"),
        ("v6e", "4x4", 4, 4, (2, 2, 1), (False, False, False), "v6e-16", "tpu-v6e-slice"),
        ("v6e", "4x8", 4, 8, (2, 4, 1), (False, False, False), "v6e-32", "tpu-v6e-slice"),
        ("v6e", "8x16", 4, 32, (4, 8, 1), (False, True, False), "v6e-128", "tpu-v6e-slice"),
        (
            "v5e",
            "16x16",
            4,
            64,
            (8, 8, 1),
            (True, True, False),
            "v5litepod-256",
            "tpu-v5-lite-podslice",
        ),
        ("v2", "4x4", 4, 4, (2, 2, 1), (True, True, False), "v2-32", ""),
        ("v3", "2x2", 4, 1, (1, 1, 1), (False, False, False), "v3-8", "tpu-v3-device"),
        ("v3", "32x32", 4, 256, (16, 16, 1), (True, True, False), "v3-2048", "tpu-v3-slice"),
        ("v4", "2x2x1", 4, 1, (1, 1, 1), (False, False, False), "v4-8", "tpu-v4-podslice"),
        ("v4", "2x2x4", 4, 4, (1, 1, 4), (False, False, False), "v4-32", "tpu-v4-podslice"),
        ("v5p", "2x2x2", 4, 2, (1, 1, 2), (False, False, False), "v5p-16", "tpu-v5p-slice"),
        ("v5p", "4x4x8", 4, 32, (2, 2, 8), (True, True, True), "v5p-256", "tpu-v5p-slice"),
        ("v5p", "2x4x4", 4, 8, (1, 2, 4), (False, False, False), "v5p-64", "tpu-v5p-slice"),
        ("v7x", "1x1x1", 1, 1, (1, 1, 1), (False, False, False), "v7x-2", "tpu7x"),
        ("v7x", "16x16x36", 4, 2304, (8, 8, 36), (True, True, True), "v7x-18432", "tpu7x"),
    ],
)
def test_known_shapes(
    generation: str,
    name: str,
    per_host: int,
    hosts: int,
    bounds: tuple[int, int, int],
    wrap: tuple[bool, bool, bool],
    pod_type: str,
    label: str,
) -> None:
    shape = parse_topology(generation, name)
    assert shape.verified
    assert (shape.chips_per_host, shape.hosts, shape.host_bounds) == (per_host, hosts, bounds)
    assert (shape.wrap, shape.pod_type, shape.accelerator) == (wrap, pod_type, label)
    assert shape.chips == hosts * per_host == chips_of(name)


@pytest.mark.parametrize("generation", ["v5e", "v6e"])
def test_2x4_is_one_host_of_eight_or_two_of_four(generation: str) -> None:
    one, two = parse_topology(generation, "2x4", 8), parse_topology(generation, "2x4", 4)
    assert parse_topology(generation, "2x4") == one
    assert one.ambiguous
    assert two.ambiguous
    assert one.verified
    assert two.verified
    assert (one.hosts, one.host_bounds, one.chips_per_host_bounds) == (1, (1, 1, 1), (2, 4, 1))
    assert (two.hosts, two.host_bounds, two.chips_per_host_bounds) == (2, (1, 2, 1), (2, 2, 1))
    assert (one.machine_type or "")[-2:] == "8t"
    assert (two.machine_type or "")[-2:] == "4t"


@pytest.mark.parametrize(
    ("generation", "name", "hosts"),
    [("v6e", "6x6", 9), ("v6e", "8x4", 8), ("v5p", "8x4x4", 32), ("v7x", "2x2x8", 8)],
)
def test_unlisted_but_well_formed_works_unverified(generation: str, name: str, hosts: int) -> None:
    shape = parse_topology(generation, name)
    assert not shape.verified
    assert shape.hosts == hosts


def test_unlisted_host_size_is_unverified() -> None:
    shape = parse_topology("v6e", "4x4", 8)
    assert not shape.verified
    assert (shape.hosts, shape.host_bounds) == (2, (2, 1, 1))


def test_v4_takes_sides_in_any_order() -> None:
    assert parse_topology("v4", "8x4x4").verified
    assert not parse_topology("v5p", "8x4x4").verified


@pytest.mark.parametrize(
    ("generation", "name", "per_host", "says", "nearest"),
    [
        ("v6e", "4x4x4", None, "3 numbers, but v6e slices have 2", "4x4"),
        ("v5p", "4x8", None, "2 numbers, but v5p slices have 3", "2x4x4"),
        ("v6e", "4y4", None, "not a topology", "4x4"),
        ("v6e", "", None, "not a topology", "1x1"),
        ("v6e", "4x", None, "not a topology", "2x2"),
        ("v6e", "-4x4", None, "not a topology", "4x4"),
        ("v6e", "٤x٤", None, "not a topology", "1x1"),
        ("v6e", "<script>", None, "not a topology", "1x1"),
        ("v6e", "0x4", None, "at least 1", "2x2"),
        ("v6e", "3x5", None, "cannot be cut into hosts of 4 chips (2x2)", "4x4"),
        ("v6e", "32x32", None, "1,024 chips; the largest v6e slice has 256", "16x16"),
        ("v5p", "9999999999x4x4", None, "not a topology", None),
        ("v7x", "99999x99999x99999", None, "the largest v7x slice has 9,216", "16x16x36"),
        ("v7x", "16x16x40", None, "the largest v7x slice has 9,216", "16x16x36"),
        ("v6e", "4x4x4x4x4x4x4x4x4", None, "not a topology", None),
        ("v6e", "4x4", 3, "no TPU host has 3 chips", "4x4"),
        ("v6e", "4x4", 0, "no TPU host has 0 chips", "4x4"),
        ("v6e", "4x4", -1, "no TPU host has -1 chips", "4x4"),
        ("v6e", "2x2", 8, "fewer than one host of 8", "2x2"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_near(
    generation: str, name: str, per_host: int | None, says: str, nearest: str | None
) -> None:
    with pytest.raises(TopologyError, match=re.escape(says)) as caught:
        parse_topology(generation, name, per_host)
    assert len(str(caught.value)) < 200
    assert caught.value.nearest
    if nearest is not None:
        assert nearest in caught.value.nearest
    for near in caught.value.nearest:
        assert parse_topology(generation, near).verified


def test_unknown_generation_names_the_known_ones() -> None:
    with pytest.raises(TopologyError, match="known: v2, v3") as caught:
        parse_topology("v66", "4x4")
    assert "v6e" in caught.value.nearest


def test_every_real_shape_parses_verified() -> None:
    for generation in ("v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x"):
        names = real_topologies(generation)
        assert len(set(names)) == len(names)
        for name in names:
            shape = parse_topology(generation, name)
            assert shape.verified
            assert shape.name == name


@pytest.mark.parametrize(
    ("marks", "generation"),
    [
        ({"accelerator_label": "tpu-v6e-slice"}, "v6e"),
        ({"accelerator_label": "tpu-v5-lite-podslice"}, "v5e"),
        ({"accelerator_label": "tpu-v5-lite-device"}, "v5e"),
        ({"accelerator_label": "tpu-v4-podslice"}, "v4"),
        ({"accelerator_label": "tpu-v5p-slice"}, "v5p"),
        ({"accelerator_label": "tpu7x"}, "v7x"),
        ({"pod_type": "v6e-16"}, "v6e"),
        ({"pod_type": "v5litepod-16"}, "v5e"),
        ({"pod_type": "tpu7x-16"}, "v7x"),
        ({"pod_type": "v7x-16"}, "v7x"),
        ({"accelerator_type": "TPU-V6E"}, "v6e"),
        ({"accelerator_type": "TPU-V5LITEPOD"}, "v5e"),
        ({"accelerator_type": "TPU-V7X"}, "v7x"),
        ({"accelerator_label": "nvidia-l4", "pod_type": "?", "accelerator_type": "A100"}, None),
        ({"accelerator_label": "nvidia-l4", "accelerator_type": "TPU-V4"}, "v4"),
        ({}, None),
    ],
)
def test_generation_of(marks: dict[str, str], generation: str | None) -> None:
    assert generation_of(**marks) == generation


def test_labels_and_generations_round_trip() -> None:
    for generation in ("v3", "v4", "v5e", "v5p", "v6e", "v7x"):
        label = accelerator_label_of(generation)
        assert generation_of(accelerator_label=label) == generation
    assert accelerator_label_of("v2") is None
    assert accelerator_label_of("a100") is None


@pytest.mark.parametrize(
    ("pod_type", "parsed", "names"),
    [
        ("v6e-16", ("v6e", 16), ("4x4",)),
        ("v5litepod-16", ("v5e", 16), ("4x4",)),
        ("v7x-16", ("v7x", 8), ("2x2x2",)),
        ("tpu7x-16", ("v7x", 8), ("2x2x2",)),
        ("v5p-512", ("v5p", 256), ("4x8x8", "4x4x16")),
        ("v5p-7", None, ()),
        ("v6e-7", ("v6e", 7), ()),
        ("v6e-0", None, ()),
        ("v6e-99999999999", None, ()),
        ("v6e", None, ()),
        ("gpu-8", None, ()),
    ],
)
def test_pod_types(pod_type: str, parsed: tuple[str, int] | None, names: tuple[str, ...]) -> None:
    assert split_pod_type(pod_type) == parsed
    assert topologies_of_pod_type(pod_type) == names


def test_pod_type_of_a_shape() -> None:
    assert pod_type_of("v5e", "4x4") == "v5litepod-16"
    assert pod_type_of("TPU-V7X", "2x2x2") == "v7x-16"
    assert pod_type_of("v9", "4x4") is None
    assert pod_type_of("v6e", "4*4") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [("TPU-V6E", "v6e"), (" v5litepod ", "v5e"), ("tpu7x", "v7x"), ("v7", None), ("", None)],
)
def test_spellings(text: str, name: str | None) -> None:
    assert canonical_generation(text) == name
