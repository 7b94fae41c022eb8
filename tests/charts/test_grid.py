"""Figures of one slice."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import plotly.graph_objects as go
import pytest

from charts.colouring import COLOUR_BY, ColourBy
from charts.grid import View, host_index_of_point, slice_figure, topology_figure
from charts.text import escape, point_id
from fleet.topology import parse_topology, real_topologies
from tests.charts.builders import fleet_of, made
from tests.factories import HOSTILE


def trace(figure: go.Figure, name: str) -> Any:
    return next(item for item in figure.data if item.name == name)


def names(figure: go.Figure) -> set[str]:
    return {item.name for item in figure.data if item.showlegend is not False and item.name}


@pytest.mark.parametrize("colour_by", COLOUR_BY)
@pytest.mark.parametrize(
    ("generation", "topology", "view"),
    [
        ("v2", "4x4", "grid"),
        ("v3", "8x8", "grid"),
        ("v5e", "1x1", "grid"),
        ("v5e", "2x4", "grid"),
        ("v6e", "16x16", "grid"),
        ("v4", "2x2x1", "layers"),
        ("v5p", "4x4x8", "layers"),
        ("v5p", "4x4x8", "3d"),
        ("v7x", "8x8x16", "layers"),
        ("v7x", "8x8x16", "3d"),
    ],
)
@pytest.mark.parametrize("dark", [False, True])
def test_every_host_can_be_hit(
    generation: str, topology: str, view: View, colour_by: ColourBy, dark: bool
) -> None:
    part = made(generation, topology, groups=1)
    slice_, fleet = part[0], fleet_of(part)
    figure = slice_figure(slice_, "running", fleet=fleet, colour_by=colour_by, view=view, dark=dark)
    json.loads(figure.to_json())
    if view != "3d":
        found = [
            host_index_of_point(slice_, {"customdata": value})
            for value in trace(figure, "hosts").customdata
        ]
        assert found == list(range(len(slice_.hosts)))


def test_a_click_survives_a_new_look_and_nonsense() -> None:
    slice_, _, _ = made("v6e", "4x4")
    fewer = msgspec.structs.replace(slice_, hosts=slice_.hosts[1:])
    ident = point_id(slice_.hosts[2].key)
    assert host_index_of_point(slice_, {"customdata": float(ident)}) == 2
    assert host_index_of_point(fewer, {"customdata": [ident, "x"]}) == 1
    assert host_index_of_point(fewer, {"customdata": point_id(slice_.hosts[0].key)}) is None
    for point in (None, {}, {"customdata": None}, {"customdata": "x"}, {"customdata": []},
                  {"customdata": -1}, {"customdata": True}, {"customdata": {"a": 1}}):  # fmt: skip
        assert host_index_of_point(slice_, point) is None


def test_the_legend_has_a_letter_for_each_colour() -> None:
    part = made("v6e", "4x4", missing=(1,), dead=(2,))
    figure = slice_figure(part[0], "incomplete", fleet=fleet_of(part))
    assert names(figure) == {
        "R · at work: 2", "! · missing: 1", "X · not ready: 1", "ICI link", "broken link",
    }  # fmt: skip
    wrapped = made("v6e", "16x16", groups=3)
    figure = slice_figure(
        wrapped[0], "running", fleet=fleet_of(wrapped), colour_by="placement_group"
    )
    assert names(figure) == {
        "A · train-0: 22", "B · train-1: 21", "C · train-2: 21", "ICI link", "wrap-around link",
    }  # fmt: skip


def test_a_lost_host_is_seen_in_every_colouring() -> None:
    part = made("v6e", "4x4", missing=(1,))
    for colour_by in COLOUR_BY:
        figure = slice_figure(part[0], "incomplete", fleet=fleet_of(part), colour_by=colour_by)
        assert "! · missing: 1" in names(figure)
        assert "broken link" in names(figure)


def test_no_data_is_not_zero() -> None:
    part = made("v6e", "4x4")
    blank = msgspec.structs.replace(fleet_of(part), tpu_use={})
    for colour_by in ("duty_cycle", "pod_age"):
        figure = slice_figure(part[0], "running", fleet=None, colour_by=colour_by)
        assert "? · no data: 4" in names(figure)
    figure = slice_figure(part[0], "running", fleet=blank, colour_by="duty_cycle")
    assert "? · no data: 4" in names(figure)


def test_an_unseen_slice_claims_nothing() -> None:
    part = made("v6e", "4x4", blind=("ray:ml/train",))
    figure = slice_figure(part[0], "unknown", fleet=fleet_of(part))
    title = figure.layout.title.text
    assert "Cannot be seen in full (ray:ml/train)" in title
    assert "hosts ready" not in title
    assert "? · unknown: 4" in names(figure)


def test_the_title_says_how_the_layout_is_known() -> None:
    flat = slice_figure(made("v6e", "4x4")[0], "running").layout.title.text
    assert "Layout assumed" in flat.replace("<br>", " ")
    deep = slice_figure(made("v5p", "4x4x4", dead=(5,))[0], "incomplete", view="layers")
    assert "z links join equal places" in deep.layout.title.text
    assert "of them are broken" in " ".join(deep.layout.title.text.replace("<br>", " ").split())


@pytest.mark.parametrize("view", ["layers", "3d"])
def test_hostile_names_stay_text(view: View) -> None:
    slice_, groups, use = made("v5p", "2x2x2", group_name=HOSTILE)
    host = msgspec.structs.replace(slice_.hosts[0], pod_name=HOSTILE, node_name=HOSTILE)
    slice_ = msgspec.structs.replace(
        slice_, name=HOSTILE, hosts=(host, *slice_.hosts[1:]), blind=(HOSTILE,)
    )
    for colour_by in COLOUR_BY:
        figure = slice_figure(
            slice_, "running", fleet=fleet_of((slice_, groups, use)), view=view, colour_by=colour_by
        )
        text = figure.to_json()
        for part in ("<script", "\\u003cscript", "$x$", "\\u0000", "\\u001b", "\\u202e"):
            assert part not in text


def test_hostile_names_in_a_large_slice() -> None:
    slice_, _, _ = made("v7x", "16x16x16")
    hosts = tuple(
        msgspec.structs.replace(host, pod_name=f"%{{x}}{HOSTILE}{at}")
        for at, host in enumerate(slice_.hosts)
    )
    figure = slice_figure(msgspec.structs.replace(slice_, hosts=hosts), "running")
    target = trace(figure, "hosts")
    assert "<script" not in figure.to_json()
    assert "\\u003cscript" not in figure.to_json()
    assert "%{x}" not in target.hovertemplate


def test_escape() -> None:
    assert escape("<b>&\"'$x$</b>") == "&lt;b&gt;&amp;&quot;&#39;&#36;x&#36;&lt;/b&gt;"
    assert escape("a\nb\tc\x00‮d") == "a b cd"
    assert escape("x" * 100, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("width", [350, 700, 1400])
def test_a_figure_keeps_to_its_width(width: int) -> None:
    for generation, topology in (("v6e", "2x2"), ("v6e", "16x16"), ("v5p", "4x4x8")):
        for view in ("layers", "3d"):
            figure = slice_figure(
                made(generation, topology)[0],
                "running",
                view=view,  # type: ignore[arg-type]
                width=width,
            )
            assert 300 <= figure.layout.width <= width
            assert figure.layout.height < 1200


def test_a_small_slice_is_not_blown_up() -> None:
    assert slice_figure(made("v6e", "4x4")[0], "running").layout.width < 400


def test_nothing_at_all_can_be_drawn() -> None:
    slice_ = msgspec.structs.replace(
        made("v6e", "4x4")[0],
        hosts=(), topology=None, generation=None, topology_name=None, hosts_expected=None,
    )  # fmt: skip
    figure = slice_figure(slice_, "unknown")
    assert "not known" in figure.layout.title.text.replace("<br>", " ")


@pytest.mark.parametrize("view", ["layers", "3d"])
def test_the_biggest_slice_is_cheap(view: View) -> None:
    part = made("v7x", "16x16x36", missing=(7,), dead=(900,), groups=5)
    fleet = fleet_of(part)
    seconds = []
    for colour_by in COLOUR_BY:
        started = time.process_time()
        figure = slice_figure(part[0], "incomplete", fleet=fleet, view=view, colour_by=colour_by)
        seconds.append(time.process_time() - started)
        assert len(figure.to_json()) < 500_000
    assert min(seconds) < 0.5


@pytest.mark.parametrize("generation", ["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x"])
def test_shapes_without_a_cluster(generation: str) -> None:
    max_chips = parse_topology(generation, real_topologies(generation)[-1]).chips
    for name in real_topologies(generation):
        shape = parse_topology(generation, name)
        if shape.chips > 256 and shape.chips != max_chips:
            continue
        for view in ("layers", "3d"):
            figure = topology_figure(shape, view=view)  # type: ignore[arg-type]
            assert len(figure.to_json()) < 500_000
    figure = topology_figure(parse_topology("v6e", "4x4"), part="2x4")
    assert {"A · 2x4 number 0: 2", "B · 2x4 number 1: 2"} <= names(figure)
