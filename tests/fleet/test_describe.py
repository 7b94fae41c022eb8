"""What the terminal and scripts are told about a shape."""

from __future__ import annotations

import json

import pytest

from fleet.describe import describe, describe_text, ray_call, subslice_lines, warnings_of
from fleet.drawing import draw
from fleet.topology import ici_links, link_counts, parse_topology, real_topologies, subslices


def test_json_has_the_promised_keys_and_types() -> None:
    assert json.loads(json.dumps(describe(parse_topology("v5p", "4x4x8")))) == {
        "generation": "v5p",
        "topology": "4x4x8",
        "chips": 128,
        "hosts": 32,
        "chips_per_host": 4,
        "host_bounds": [2, 2, 8],
        "wrap": [True, True, True],
        "pod_type": "v5p-256",
        "accelerator": "tpu-v5p-slice",
        "verified": True,
    }


def test_text_says_all_one_needs() -> None:
    text = describe_text(parse_topology("v6e", "4x4"))
    for part in (
        "16 chips on 4 hosts of 4",
        "2 x 2 x 1 hosts",
        "v6e-16",
        "4 x ct6e-standard-4t",
        "4 of 2x2, 2 of 2x4",
        "numOfHosts: 4",
        "cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology: 4x4",
        'google.com/tpu: "4"',
        'slice_placement_group(topology="4x4", accelerator_version="v6e")',
        "assumed",
    ):
        assert part in text
    assert "Note" not in text


@pytest.mark.parametrize(
    ("generation", "name", "per_host", "call"),
    [
        ("v6e", "2x4", 4, 'topology="2x4", accelerator_version="v6e", chips_per_vm=4'),
        ("v6e", "2x4", 8, 'topology="2x4", accelerator_version="v6e"'),
        ("v5e", "4x4", None, 'topology="4x4", accelerator_version="v5litepod"'),
        ("v7x", "2x2x2", None, 'topology="2x2x2", accelerator_version="v7x"'),
    ],
)
def test_ray_call(generation: str, name: str, per_host: int | None, call: str) -> None:
    assert ray_call(parse_topology(generation, name, per_host)) == f"slice_placement_group({call})"


def test_warnings() -> None:
    def said(generation: str, name: str, per_host: int | None = None) -> str:
        return " ".join(warnings_of(parse_topology(generation, name, per_host)))

    assert "Ray 2.60 refuses" in said("v7x", "4x4x12")
    assert "Ray 2.60 refuses" not in said("v5p", "4x4x12")
    assert "chips_per_vm=4" in said("v6e", "2x4")
    assert "chips_per_vm=4" in said("v5e", "2x4", 4)
    assert "Nearest real ones" in said("v6e", "6x6")
    assert "GKE's tables do not list" in said("v6e", "2x8")
    assert said("v6e", "8x8") == ""


@pytest.mark.parametrize("generation", ["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x"])
def test_every_real_shape_can_be_described(generation: str) -> None:
    for name in real_topologies(generation):
        shape = parse_topology(generation, name)
        text = describe_text(shape, width=80)
        drawn = draw(shape, width=80)
        assert drawn in text
        assert max(map(len, drawn.splitlines())) <= 80
        assert drawn.isascii() is False
        assert draw(shape, width=80, ascii_only=True).isascii()
        if shape.chips <= 512:
            plain, wrapping = link_counts(shape)
            links = list(ici_links(shape))
            assert (plain + wrapping, wrapping) == (len(links), sum(wrap for *_, wrap in links))


def test_counts_of_subslices_are_those_that_exist() -> None:
    for generation, name in (("v6e", "8x8"), ("v5p", "4x4x8"), ("v5p", "16x16x24")):
        shape = parse_topology(generation, name)
        counted: dict[str, int] = {}
        for part in subslices(shape):
            counted[part.name] = counted.get(part.name, 0) + 1
        assert {part: count for part, count, _ in subslice_lines(shape)} == counted


def test_drawings() -> None:
    assert draw(parse_topology("v6e", "2x4", 4)).splitlines() == [
        "┌───────┐",
        "│ 0 ▪ ▪ │",
        "│   ▪ ▪ │",
        "├───────┤",
        "│ 1 ▪ ▪ │",
        "│   ▪ ▪ │",
        "└───────┘",
    ]
    assert draw(parse_topology("v5p", "2x2x2"), ascii_only=True).splitlines() == [
        "z=0    z=1",
        "+---+  +---+",
        "| 0 |  | 1 |",
        "+---+  +---+",
    ]
    huge = draw(parse_topology("v7x", "16x16x36"), height=30)
    assert "34 more layers" in huge or "more layers like these" in huge
    assert len(huge.splitlines()) < 45
