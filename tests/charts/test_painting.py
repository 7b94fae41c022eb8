"""What a real browser makes of the figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from charts.grid import host_index_of_point, slice_figure
from charts.wall import slice_id_of_point, wall_figure
from tests.charts.builders import bare, fleet_of, made, many
from tests.charts.painting import blank, click, paint
from tests.serving import browser as chromium

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    pytest.importorskip("playwright")
    with chromium() as found:
        page = blank(found)
        yield page
        page.close()


@pytest.mark.parametrize(
    ("generation", "topology", "at"),
    [("v6e", "4x4", 2), ("v5e", "2x4", 0), ("v5p", "4x4x8", 17), ("v7x", "16x16x36", 1203)],
)
def test_a_click_on_a_host_names_it(page: Any, generation: str, topology: str, at: int) -> None:
    part = made(generation, topology, missing=(1,) if at else ())
    paint(page, slice_figure(part[0], "incomplete", fleet=fleet_of(part)))
    assert host_index_of_point(part[0], {"customdata": click(page, at)}) == at


def test_the_hover_of_a_large_slice_has_names(page: Any) -> None:
    part = made("v7x", "16x16x36")
    paint(page, slice_figure(part[0], "running", fleet=fleet_of(part)))
    click(page, 1203)
    text = page.text_content(".hoverlayer")
    for word in ("worker 1203", "at work", "v6e-group-0-worker-1203-x7k2p", "gke-prod-tpu"):
        assert word in text


def test_a_click_on_the_wall_names_the_slice(page: Any) -> None:
    fleet, statuses = many(300)
    figure = wall_figure(fleet, statuses)
    paint(page, figure)
    number = 41
    wanted = next(item for item in figure.data if item.name == "slices").customdata[number]
    found = slice_id_of_point(fleet, {"customdata": click(page, number)})
    assert found == slice_id_of_point(fleet, {"customdata": float(wanted)})
    assert found in statuses


def test_the_biggest_pictures_are_painted_within_two_seconds(page: Any) -> None:
    part = made("v7x", "16x16x36", missing=(7,), dead=(900,))
    fleet, statuses = many(2500)
    figures = {
        "layers": slice_figure(part[0], "incomplete", fleet=fleet_of(part), view="layers"),
        "3d": slice_figure(part[0], "incomplete", fleet=fleet_of(part), view="3d"),
        "wall": wall_figure(fleet, statuses),
    }
    # The best of a few, and on a machine that is busy with something else no more than a few times
    # what the barest figure of as many points takes at the same moment.
    barest = min(paint(page, bare(9216)) for _ in range(2))
    best = {name: min(paint(page, figure) for _ in range(2)) for name, figure in figures.items()}
    slow = {name: seconds for name, seconds in best.items() if seconds > max(2.0, 8 * barest)}
    assert slow == {}
