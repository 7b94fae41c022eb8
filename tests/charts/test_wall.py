"""All slices at once."""

from __future__ import annotations

import itertools
import time
from typing import Any

import msgspec
import plotly.graph_objects as go
import pytest

from charts.hosts import Holders
from charts.palette import WORST_FIRST
from charts.text import point_id
from charts.wall import select_slices, slice_id_of_point, wall_figure
from charts.wall_layout import grouped, host_cells, lay_wall
from fleet.model import Fleet, SliceStatusName
from tests.charts.builders import fleet_of, made, many
from tests.factories import HOSTILE


def targets(figure: go.Figure) -> Any:
    return next(item for item in figure.data if item.name == "slices")


def test_every_slice_can_be_hit_once() -> None:
    fleet, statuses = many(80)
    figure = wall_figure(fleet, statuses)
    found = [slice_id_of_point(fleet, {"customdata": v}) for v in targets(figure).customdata]
    assert sorted(str(ident) for ident in found) == sorted(item.id for item in fleet.slices)
    for point in (None, {}, {"customdata": "x"}, {"customdata": 1}, {"customdata": [None]}):
        assert slice_id_of_point(fleet, point) is None


def test_worst_first_within_and_between_groups() -> None:
    fleet, statuses = many(200)
    groups = grouped(fleet.slices, statuses)
    worst = []
    for _, members in groups:
        ranks = [WORST_FIRST.index(statuses[item.id]) for item in members]
        assert ranks == sorted(ranks)
        worst.append(ranks[0])
    assert worst == sorted(worst)
    assert len({key for key, _ in groups}) == len(groups)


def test_tiles_do_not_overlap_and_stay_inside() -> None:
    for width in (334, 984):
        fleet, statuses = many(150)
        wall = lay_wall(fleet.slices, statuses, width)
        for tile in wall.tiles:
            assert tile.x + tile.wide <= width
            assert tile.y + wall.tall <= wall.height
        by_row: dict[float, list[tuple[float, float]]] = {}
        for tile in wall.tiles:
            by_row.setdefault(tile.y, []).append((tile.x, tile.x + tile.wide))
        for spans in by_row.values():
            spans.sort()
            assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
        rows = sorted(by_row)
        assert all(b - a >= wall.tall for a, b in itertools.pairwise(rows))


def test_filter_and_search() -> None:
    fleet, statuses = many(100)

    def ids(**how: Any) -> set[str]:
        return {item.id for item in select_slices(fleet, statuses, **how)}

    assert ids() == {item.id for item in fleet.slices}
    broken = {ident for ident, status in statuses.items() if status in ("broken", "incomplete")}
    assert ids(only=("broken", "incomplete")) == broken
    assert ids(generations=("v5p",)) == {i.id for i in fleet.slices if i.generation == "v5p"}
    assert ids(search="V5P-group") == ids(generations=("v5p",))
    one = fleet.slices[7]
    assert ids(search=f"{one.hosts[-1].node_name} {one.generation}") == {one.id}
    assert ids(search="nothing is called so") == set()
    order = [WORST_FIRST.index(statuses[s.id]) for s in select_slices(fleet, statuses)]
    assert order == sorted(order)


def test_a_slice_without_a_status_is_unknown() -> None:
    part = made("v6e", "4x4")
    figure = wall_figure(fleet_of(part), {})
    assert "? · unknown: 1" in {item.name for item in figure.data}


def test_a_coarse_cell_shows_its_worst_host() -> None:
    part = made("v5p", "8x8x8", missing=(77,), dead=(3,))
    for finest in (8, 4, 2, 1):
        cells, wide, high = host_cells(part[0], "incomplete", Holders.of(None), finest)
        assert wide <= finest
        assert high <= finest
        assert set(cells) == {(i, j) for i in range(wide) for j in range(high)}
        assert "broken" in cells.values()
        assert finest == 1 or "incomplete" in cells.values()


def test_slices_without_hosts_or_topology() -> None:
    slice_, _, _ = made("v6e", "4x4")
    bare = msgspec.structs.replace(slice_, id="a", topology=None, hosts=())
    odd = msgspec.structs.replace(slice_, id="b", topology=None, topology_name=None)
    figure = wall_figure(Fleet(now=0.0, slices=(bare, odd, slice_)), {})
    assert len(targets(figure).text) == 3
    assert "No slices" in wall_figure(Fleet(now=0.0), {}).to_json()


def test_hostile_names_stay_text() -> None:
    slice_, groups, _ = made("v6e", "4x4", group_name=HOSTILE)
    bad = msgspec.structs.replace(
        slice_, name=HOSTILE, id=HOSTILE, namespace=HOSTILE, cluster=HOSTILE,
        generation=HOSTILE, topology_name=HOSTILE, node_pools=(HOSTILE,), blind=(HOSTILE,),
    )  # fmt: skip
    for count in (1, 700):
        slices = tuple(msgspec.structs.replace(bad, id=f"{HOSTILE}{n}") for n in range(count))
        fleet = Fleet(now=0.0, slices=slices, placement_groups=groups)
        text = wall_figure(fleet, {}).to_json()
        assert "<script" not in text
        assert "\\u003cscript" not in text
        assert "$x$" not in text


@pytest.mark.parametrize("count", [2500])
def test_thousands_are_cheap(count: int) -> None:
    fleet, statuses = many(count)
    seconds = []
    for _ in range(3):
        started = time.process_time()
        figure = wall_figure(fleet, statuses)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.5
    assert len(figure.to_json()) < 500_000


def test_many_huge_slices_are_drawn_coarser() -> None:
    part = made("v7x", "16x16x36", "pod")
    slices = tuple(msgspec.structs.replace(part[0], id=f"{n}") for n in range(40))
    statuses: dict[str, SliceStatusName] = dict.fromkeys((s.id for s in slices), "running")
    figure = wall_figure(Fleet(now=0.0, slices=slices), statuses)
    cells = sum(len(item.x) for item in figure.data if item.type == "scattergl")
    assert cells <= 24_000 + 40
    assert point_id("0") in {int(value) for value in targets(figure).customdata}
