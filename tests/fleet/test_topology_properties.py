"""What holds for every shape, listed or not."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.topology import (
    Topology,
    TopologyError,
    chip_coordinates_of_host,
    host_coordinates,
    host_of_chip,
    ici_links,
    is_subslice,
    nearest_topologies,
    parse_topology,
    real_topologies,
    subslices,
    worker_id_at,
)

GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x")


@st.composite
def shapes(draw: st.DrawFn, *, most_chips: int = 512) -> Topology:
    """Any shape that parses: half of them listed ones."""
    generation = draw(st.sampled_from(GENERATIONS))
    if draw(st.booleans()):
        names = [
            n
            for n in real_topologies(generation)
            if parse_topology(generation, n).chips <= most_chips
        ]
        return parse_topology(generation, draw(st.sampled_from(names)))
    count = 3 if generation in ("v4", "v5p", "v7x") else 2
    sides = draw(st.lists(st.integers(1, 8).map(lambda n: 2 * n), min_size=count, max_size=count))
    per_host = draw(st.sampled_from([None, 1, 2, 4, 8]))
    try:
        shape = parse_topology(generation, "x".join(map(str, sides)), per_host)
    except TopologyError:
        return parse_topology(generation, real_topologies(generation)[0])
    return (
        shape
        if shape.chips <= most_chips
        else parse_topology(generation, real_topologies(generation)[1])
    )


@given(shapes())
def test_every_chip_belongs_to_exactly_one_host(shape: Topology) -> None:
    seen: Counter[tuple[int, int, int]] = Counter()
    for worker in range(shape.hosts):
        host = host_coordinates(shape, worker)
        assert host is not None
        assert worker_id_at(shape, host) == worker
        chips = chip_coordinates_of_host(shape, host)
        assert len(chips) == shape.chips_per_host
        assert all(host_of_chip(shape, chip) == host for chip in chips)
        seen.update(chips)
    nx, ny, nz = shape.dims
    assert seen == Counter((x, y, z) for x in range(nx) for y in range(ny) for z in range(nz))
    assert host_coordinates(shape, shape.hosts) is None
    assert host_coordinates(shape, -1) is None


@given(shapes())
def test_links_join_neighbours_once_and_wrap_only_where_axes_close(shape: Topology) -> None:
    pairs: Counter[frozenset[tuple[int, int, int]]] = Counter()
    ends: Counter[tuple[int, int, int]] = Counter()
    for a, b, wrap in ici_links(shape):
        pairs[frozenset((a, b))] += 1
        ends[a] += 1
        ends[b] += 1
        axes = [axis for axis in range(3) if a[axis] != b[axis]]
        assert len(axes) == 1
        apart = abs(a[axes[0]] - b[axes[0]])
        if wrap:
            assert shape.wrap[axes[0]]
            assert apart == shape.dims[axes[0]] - 1 > 1
        else:
            assert apart == 1
    assert not pairs or max(pairs.values()) == 1
    # Each axis gives every chip two neighbours in a ring, one at an end, none on a side of one.
    nx, ny, nz = shape.dims
    for chip in ((x, y, z) for x in range(nx) for y in range(ny) for z in range(nz)):
        expected = 0
        for axis in range(3):
            size = shape.dims[axis]
            ring = shape.wrap[axis] and size > 2
            at_end = (chip[axis] == 0) + (chip[axis] == size - 1)
            expected += 2 if ring else 2 - at_end
        assert ends[chip] == expected


@given(shapes())
def test_subslices_of_one_shape_do_not_overlap(shape: Topology) -> None:
    by_name: dict[str, list[frozenset[tuple[int, int, int]]]] = {}
    for part in subslices(shape):
        assert 0 < len(part.hosts) < shape.hosts
        assert is_subslice(shape, part.hosts) is not None
        assert is_subslice(shape, part.hosts, measured=True) == part.name
        by_name.setdefault(part.name, []).append(part.hosts)
    for parts in by_name.values():
        assert sum(map(len, parts)) == len(frozenset().union(*parts))


def test_what_is_no_subslice() -> None:
    shape = parse_topology("v6e", "4x4")
    assert is_subslice(shape, {(0, 0, 0), (1, 1, 0)}) is None
    assert is_subslice(shape, {(0, 0, 0), (1, 0, 0), (0, 1, 0)}) is None
    assert is_subslice(shape, set()) is None
    assert is_subslice(shape, {(9, 9, 9)}) is None
    whole = {(x, y, 0) for x in range(2) for y in range(2)}
    assert is_subslice(shape, whole) is None
    assert is_subslice(shape, {(0, 0, 0), (1, 0, 0)}) == "2x4"
    big = parse_topology("v6e", "8x8")
    assert is_subslice(big, {(x, y, 0) for x in (1, 2) for y in (0, 1)}) is None  # not aligned


def test_rays_numbering_counts_while_places_are_assumed() -> None:
    shape = parse_topology("v6e", "4x8")
    workers = frozenset(host for w in (0, 1, 4, 5) if (host := host_coordinates(shape, w)))
    assert is_subslice(shape, workers) == "4x4"
    assert is_subslice(shape, workers, measured=True) is None
    box = frozenset(host for w in (0, 1, 2, 3) if (host := host_coordinates(shape, w)))
    assert is_subslice(shape, box) == "4x4"


@given(st.sampled_from(GENERATIONS), st.text(max_size=80))
def test_no_text_breaks_the_parser(generation: str, text: str) -> None:
    try:
        shape = parse_topology(generation, text)
    except TopologyError as error:
        assert error.nearest == nearest_topologies(generation, text)  # noqa: PT017
    else:
        assert shape.hosts * shape.chips_per_host == shape.chips


@given(
    st.sampled_from(GENERATIONS),
    st.lists(st.integers(0, 10**12), min_size=1, max_size=9),
    st.none() | st.integers(-(10**9), 10**9),
)
def test_no_numbers_break_the_parser(
    generation: str, sides: list[int], per_host: int | None
) -> None:
    try:
        shape = parse_topology(generation, "x".join(map(str, sides)), per_host)
    except TopologyError as error:
        assert error.nearest  # noqa: PT017
    else:
        assert parse_topology(shape.generation, shape.name, shape.chips_per_host) == shape


@settings(max_examples=50)
@given(shapes(most_chips=10_000))
def test_canonical_names_round_trip(shape: Topology) -> None:
    assert parse_topology(shape.generation, shape.name, shape.chips_per_host) == shape
    assert (
        parse_topology(shape.pod_type.split("-")[0], shape.name.upper(), shape.chips_per_host)
        == shape
    )


def test_the_biggest_slice_costs_microseconds() -> None:
    started = time.perf_counter()
    for _ in range(100):
        parse_topology.__wrapped__("v7x", "16x16x36")
    assert (time.perf_counter() - started) / 100 < 0.002
