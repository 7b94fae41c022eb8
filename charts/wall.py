"""All slices at once: a small grid for each, in one figure, worst first.

Slices are grouped by generation and topology; the groups with the worst slices come first, and the
worst first within. Each slice is a tile: a bar with its status's colour and letter, then one cell a
host. A slice of many hosts is drawn coarser, and a cell then shows the worst host of its hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from charts.dress import FONT, legend_rows, swatch
from charts.hosts import Holders
from charts.palette import HOST_SIGNS, SLICE_SIGNS, WORST_FIRST, Inks, Sign, StateKey, inks
from charts.text import escape, point_id
from charts.wall_layout import LETTER, Tile, Wall, host_cells, lay_wall, select_slices
from fleet.model import Fleet, Slice, SliceStatusName

__all__ = ["select_slices", "slice_id_of_point", "wall_figure"]

MOST_CELLS = 24_000
"""Cells in one figure; with more, slices are drawn coarser. 24,000 paint in about a second."""
FINEST = 8
MOST_BARS = 400
"""More slices of one status than this get a marker instead of a bar with a letter (SVG)."""
BRIEF_ABOVE = 600
MARGIN = 8

Trace = dict[str, Any]


def wall_figure(
    fleet: Fleet,
    statuses: Mapping[str, SliceStatusName],
    *,
    slices: Sequence[Slice] | None = None,
    dark: bool = False,
    width: int = 1000,
) -> go.Figure:
    """The wall.

    Args:
        fleet: for the slices and for who holds them.
        statuses: each slice's status by its id; one without is ``unknown``.
        slices: which ones to draw, as :func:`select_slices` gives them; all when left out.
        dark: for a dark ground.
        width: pixels.
    """
    chosen = tuple(fleet.slices if slices is None else slices)
    ink = inks(dark)
    wall = lay_wall(chosen, statuses, width - 2 * MARGIN)
    scale = _Scale(max(float(width), wall.height))
    traces = [
        *_bar_traces(wall, scale),
        *_cell_traces(wall, fleet, scale),
        _headings(wall, ink, scale),
        _targets(wall, fleet, scale),
    ]
    figure = go.Figure({"data": traces, "layout": {}}, skip_invalid=False)
    rows = legend_rows([trace["name"] for trace in traces if trace.get("showlegend")], width)
    top = MARGIN + 22 * rows
    figure.update_layout(
        autosize=False,
        width=width,
        height=int(wall.height) + top + MARGIN,
        margin={"l": MARGIN, "r": MARGIN, "t": top, "b": MARGIN, "autoexpand": False},
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1,
            "xref": "container",
            "yref": "container",
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 12, "color": ink.text},
            "itemclick": False,
            "itemdoubleclick": False,
            "itemsizing": "constant",
        },
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "color": ink.text},
        hovermode="closest",
        hoverdistance=int(wall.tall),
        hoverlabel={
            "align": "left",
            "bgcolor": ink.ground,
            "bordercolor": ink.line,
            "font": {"color": ink.text, "size": 12},
        },
        dragmode=False,
        clickmode="event+select",
        uirevision="wall",
    )
    across, down = scale(float(width - 2 * MARGIN)), scale(wall.height)
    figure.update_xaxes(visible=False, range=[0, across], fixedrange=True)
    figure.update_yaxes(visible=False, range=[down, 0], fixedrange=True)
    return figure


def slice_id_of_point(fleet: Fleet, point: Mapping[str, Any] | None) -> str | None:
    """The id of the slice that a clicked point is; None when there is none (any more)."""
    value = point.get("customdata") if point else None
    while isinstance(value, list | tuple) and value:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return next((item.id for item in fleet.slices if point_id(item.id) == value), None)


class _Scale:
    """Pixels as whole numbers of two bytes: a wall of 24,000 cells travels in half the space."""

    def __init__(self, longest: float) -> None:
        self.factor = max(1.0, min(8.0, math.floor(32_000 / longest)))

    def __call__(self, pixels: float) -> float:
        return pixels * self.factor

    def many(self, pixels: Sequence[float]) -> np.ndarray[Any, Any]:
        values = np.round(np.asarray(pixels, dtype=np.float64) * self.factor)
        small = values.size == 0 or float(np.max(np.abs(values))) < 32_767
        return values.astype(np.int16 if small else np.float32)


def _bar_traces(wall: Wall, scale: _Scale) -> list[Trace]:
    """The bar with the letter at the left of each tile; one trace a status, for the legend."""
    traces: list[Trace] = []
    wide, tall = wall.tall * LETTER, wall.tall
    nan = float("nan")
    for status in WORST_FIRST:
        own = [tile for tile in wall.tiles if tile.status == status]
        if not own:
            continue
        sign = SLICE_SIGNS[status]
        legend = {"name": sign.legend(len(own)), "showlegend": True}
        middle_x = scale.many([tile.x + wide / 2 for tile in own])
        middle_y = scale.many([tile.y + tall / 2 for tile in own])
        if len(own) > MOST_BARS:
            traces.append(_markers(middle_x, middle_y, sign, wide * 0.95) | legend)
            continue
        xs: list[float] = []
        ys: list[float] = []
        for tile in own:
            xs += (tile.x, tile.x + wide, tile.x + wide, tile.x, tile.x, nan)
            ys += (tile.y, tile.y, tile.y + tall, tile.y + tall, tile.y, nan)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": np.asarray(xs, dtype=np.float32) * np.float32(scale.factor),
                "y": np.asarray(ys, dtype=np.float32) * np.float32(scale.factor),
                "fill": "toself",
                "fillcolor": sign.color,
                "line": {"width": 0, "color": sign.color},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
        traces.append(swatch(sign, len(own), sign.color))
        traces.append(
            {
                "type": "scatter",
                "mode": "text",
                "x": middle_x,
                "y": middle_y,
                "text": [sign.letter] * len(own),
                "textposition": "middle center",
                "textfont": {
                    "size": max(8.0, min(16.0, wide * 0.8)),
                    "color": sign.ink,
                    "family": FONT,
                },
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    return traces


def _markers(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], sign: Sign, size: float) -> Trace:
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": x,
        "y": y,
        "marker": {
            "size": size,
            "symbol": sign.symbol,
            "color": sign.color,
            "opacity": 1.0,
            "line": {"width": 1 if "open" in sign.symbol else 0, "color": sign.color},
        },
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _cell_traces(wall: Wall, fleet: Fleet, scale: _Scale) -> list[Trace]:
    holders = Holders.of(fleet)
    wanted = sum(max(1, len(tile.slice_.hosts)) for tile in wall.tiles)
    finest = FINEST
    if wanted > MOST_CELLS:
        finest = max(1, min(FINEST, int(math.sqrt(MOST_CELLS / len(wall.tiles)))))
    found: dict[tuple[StateKey, float], tuple[list[float], list[float]]] = {}
    for tile in wall.tiles:
        cells, across, down = host_cells(tile.slice_, tile.status, holders, finest)
        bar = wall.tall * LETTER + 2
        size = min((tile.wide - bar) / across, wall.tall / down)
        for (column, row), state in cells.items():
            xs, ys = found.setdefault((state, round(size * 0.78, 1)), ([], []))
            xs.append(tile.x + bar + size * (column + 0.5))
            ys.append(tile.y + size * (row + 0.5))
    traces = []
    for (state, size), (xs, ys) in sorted(found.items()):
        sign = HOST_SIGNS[state]
        # A square fills its cell best; what is hollow stays hollow.
        symbol = "square" if size >= 7 and "open" not in sign.symbol else sign.symbol
        traces.append(_markers(scale.many(xs), scale.many(ys), sign._replace(symbol=symbol), size))
    return traces


def _headings(wall: Wall, ink: Inks, scale: _Scale) -> Trace:
    texts = [text for text, _ in wall.headings] or ["No slices to show."]
    heights = [y for _, y in wall.headings] or [20.0]
    return {
        "type": "scatter",
        "mode": "text",
        "x": [0.0] * len(texts),
        "y": [scale(y) for y in heights],
        "text": texts,
        "textposition": "middle right",
        "textfont": {"size": 13, "color": ink.text, "family": FONT},
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
    }


def _targets(wall: Wall, fleet: Fleet, scale: _Scale) -> Trace:
    """The invisible squares that can be hit: one a slice, with its number and its words."""
    brief = len(wall.tiles) > BRIEF_ABOVE
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": scale.many([tile.x + tile.wide / 2 for tile in wall.tiles]),
        "y": scale.many([tile.y + wall.tall / 2 for tile in wall.tiles]),
        "marker": {"size": wall.tall, "symbol": "square", "opacity": 0},
        "selected": {"marker": {"opacity": 0.25, "color": "#000000"}},
        "unselected": {"marker": {"opacity": 0}},
        "customdata": np.asarray(
            [point_id(tile.slice_.id) for tile in wall.tiles], dtype=np.float64
        ),
        "text": [_words(tile, fleet, brief) for tile in wall.tiles],
        "hovertemplate": "%{text}<extra></extra>",
        "name": "slices",
        "showlegend": False,
    }


def _words(tile: Tile, fleet: Fleet, brief: bool) -> str:
    item = tile.slice_
    expected = "?" if item.hosts_expected is None else item.hosts_expected
    hosts = f"{item.hosts_alive}/{expected} hosts"
    where = f"{escape(item.namespace, 24)}/{escape(item.cluster, 24)}"
    if brief:
        return f"{escape(item.name, 40)} {tile.status} {hosts}<br>{where}"
    first = f"<b>{escape(item.name, 48)}</b> {tile.status}, {hosts}"
    lines = [first, f"{escape(item.generation or '?', 12)} {escape(item.topology_name or '?', 16)}"]
    lines.append(f"Ray cluster {where}")
    if item.node_pools:
        lines.append(f"node pool {escape(', '.join(item.node_pools))}")
    holders = [group.label for key in item.held_by[:3] if (group := fleet.group(key)) is not None]
    if holders:
        lines.append(f"held by {escape(', '.join(holders))}")
    problems = sorted({host.problem for host in item.hosts if host.problem})
    if problems:
        lines.append(", ".join(problems))
    if item.blind:
        lines.append(f"cannot see {escape(', '.join(item.blind))}")
    return "<br>".join(lines)
