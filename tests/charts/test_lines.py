"""Few strokes, but every link."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from charts.hosts import plan
from charts.lines import strokes
from fleet.topology import host_of_chip, ici_links, worker_id_at
from tests.charts.builders import made

SHAPES = [
    ("v6e", "4x4"),
    ("v6e", "2x4"),
    ("v5e", "8x16"),
    ("v5p", "4x4x4"),
    ("v5p", "2x2x4"),
    ("v3", "4x8"),
]


@given(st.sampled_from(SHAPES), st.sets(st.integers(0, 31), max_size=6), st.booleans())
def test_strokes_are_the_links(shape: tuple[str, str], gone: set[int], die: bool) -> None:
    hosts = tuple(gone)
    slice_, _, _ = made(*shape, **{"dead" if die else "missing": hosts})  # type: ignore[arg-type]
    topology = slice_.topology
    assert topology is not None
    drawn: Counter[tuple[frozenset[tuple[int, int, int]], str]] = Counter()
    for axis, start, end, kind in strokes(plan(slice_, "running")):
        if kind.startswith("wrap"):
            drawn[frozenset((start, end)), kind] += 1
            continue
        for at in range(start[axis], end[axis]):
            a, b = list(start), list(start)
            a[axis], b[axis] = at, at + 1
            drawn[frozenset((tuple(a), tuple(b))), kind] += 1  # type: ignore[arg-type]
    expected: Counter[tuple[frozenset[tuple[int, int, int]], str]] = Counter()
    for a, b, wrap in ici_links(topology):
        ends = {worker_id_at(topology, host_of_chip(topology, chip)) for chip in (a, b)}
        broken = bool(ends & gone)
        kind = ("wrap broken" if broken else "wrap") if wrap else "broken" if broken else "link"
        expected[frozenset((a, b)), kind] += 1
    assert drawn == expected


def test_a_whole_slice_has_one_stroke_a_row() -> None:
    slice_, _, _ = made("v7x", "16x16x36")
    assert sum(1 for _ in strokes(plan(slice_, "running"))) == 2 * (16 * 36 * 2 + 16 * 16)
