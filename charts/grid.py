"""One slice's ICI grid as a figure: chips by host, links between them, everything it knows.

Streamlit reports clicks on ``scatter`` and ``scattergl`` markers. Chips are drawn first and cannot
be hit; on top lies one invisible square a host, which carries the hover text and,
as ``customdata``, a number for the host that survives a new look (see :func:`host_index_of_point`).
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from charts.colouring import ColourBy, short_value, signs
from charts.grid3d import figure_3d
from charts.hosts import HostView, Plan, hover, plan
from charts.lines import strokes
from charts.palette import HOST_SIGNS, Inks, Sign, inks
from charts.sheet import PITCH, STUB, Sheet, corners, lay_out
from charts.text import escape, point_id
from fleet.model import Fleet, Slice, SliceStatusName

View = Literal["grid", "layers", "3d"]

FONT = "Source Sans Pro, Source Sans 3, Helvetica, Arial, sans-serif"
CHIP = 0.66
"""Width of a chip's marker as a part of the distance between chips."""
LETTER_PIXELS = 12.0
"""A chip smaller than this shows its state by shape instead of by letter."""
MOST_SVG_CHIPS = 1200
"""Up to this many chips are drawn as SVG, crisp and with a letter on each; more of them as WebGL,
whose text browsers blur. Both can be clicked."""
BRIEF_ABOVE_HOSTS = 600
"""More hosts than this have a shorter hover text."""
NAN = float("nan")

FRAMES: dict[str, tuple[str, float, str]] = {
    "unknown": (HOST_SIGNS["unknown"].color, 1.0, "dot"),
    "forming": (HOST_SIGNS["forming"].color, 1.5, "dot"),
    "incomplete": (HOST_SIGNS["incomplete"].color, 2.0, "dash"),
    "broken": (HOST_SIGNS["broken"].color, 2.5, "solid"),
}
"""Colour, width and dash of the border of a host that is not as it should be."""

Trace = dict[str, Any]


def slice_figure(
    slice_: Slice,
    status: SliceStatusName,
    *,
    fleet: Fleet | None = None,
    colour_by: ColourBy = "state",
    view: View | None = None,
    dark: bool = False,
    width: int = 1000,
    height: int = 760,
) -> go.Figure:
    """The picture of one slice.

    Args:
        slice_: what to draw; it may have no topology, hosts without a place, or none at all.
        status: its status, for the title and for what cannot be seen.
        fleet: the rest, for placement groups, duty cycles and ages; without it these are not known.
        colour_by: what colours stand for. Missing and broken hosts look so in each.
        view: ``grid`` (flat; for 3D slices the same as ``layers``), ``layers`` or ``3d``.
        dark: for a dark ground.
        width: pixels at most. A small slice takes less: its own size, never blown up.
        height: pixels at most, without title and legend.
    """
    layout = plan(slice_, status, fleet=fleet)
    ink = inks(dark)
    if view == "3d" and layout.bounds[2] > 1:
        grid_size = (float(width - 24), min(height, max(320.0, 0.55 * width)))
        figure = figure_3d(
            layout, fleet=fleet, colour_by=colour_by, ink=ink, shape=grid_size[0] / grid_size[1]
        )
    else:
        figure, grid_size = _flat(layout, fleet, colour_by, ink, width, height)
    _dress(figure, slice_, status, layout, ink, grid_size, width)
    figure.update_layout(uirevision=f"{slice_.id} {view}", clickmode="event+select")
    return figure


def host_index_of_point(slice_: Slice, point: Mapping[str, Any] | None) -> int | None:
    """Which of ``slice_.hosts`` a clicked point is; None when it is none (any more).

    ``point`` is one of Streamlit's ``event.selection.points``, or anything with ``customdata``.
    """
    value = point.get("customdata") if point else None
    while isinstance(value, list | tuple) and value:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return next(
        (index for index, host in enumerate(slice_.hosts) if point_id(host.key) == value), None
    )


# --- the flat figure ------------------------------------------------------------------------


def _flat(
    layout: Plan, fleet: Fleet | None, colour_by: ColourBy, ink: Inks, width: int, height: int
) -> tuple[go.Figure, tuple[float, float]]:
    sheet = lay_out(layout, width - 24.0, float(height))
    placed = corners(sheet, layout)
    marks = signs([view for view, _, _ in placed], colour_by, fleet)
    chips = len(placed) * layout.block[0] * layout.block[1] * layout.block[2]
    kind = "scatter" if chips <= MOST_SVG_CHIPS else "scattergl"
    traces = [
        *_frames(sheet, placed, ink, kind),
        *_links(sheet, layout, ink, kind),
        *_chips(sheet, placed, marks, ink, kind),
        *(_labels(sheet, placed, colour_by, fleet, ink) if kind == "scatter" else ()),
        _targets(sheet, layout, placed, fleet, kind),
    ]
    figure = go.Figure({"data": traces, "layout": {}}, skip_invalid=False)
    across, down = sheet.size
    figure.update_layout(
        xaxis={"range": [0, across], "constrain": "domain", "constraintoward": "left"},
        yaxis={
            "range": [down, 0],
            "scaleanchor": "x",
            "constrain": "domain",
            "constraintoward": "top",
        },
        annotations=_layer_titles(sheet, layout, ink),
        hoverdistance=max(12, int(sheet.scale * max(sheet.tile) / 2)),
    )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure, (across * sheet.scale, down * sheet.scale)


def _line(kind: str, x: list[float], y: list[float], **more: Any) -> Trace:
    return {
        "type": kind,
        "mode": "lines",
        "x": np.asarray(x, dtype=np.float32),
        "y": np.asarray(y, dtype=np.float32),
        "hoverinfo": "skip",
        **more,
    }


def _links(sheet: Sheet, layout: Plan, ink: Inks, kind: str) -> list[Trace]:
    runs: dict[str, tuple[list[float], list[float]]] = {
        kind: ([], []) for kind in ("link", "wrap", "broken")
    }
    for axis, start, end, sort in strokes(layout):
        if axis == 2 and layout.block[2] == 1:
            continue  # from layer to layer: said in words, not drawn across the sheet
        (x0, y0), (x1, y1) = sheet.chip(start), sheet.chip(end)
        if not sort.startswith("wrap"):
            xs, ys = runs[sort]
            xs += (x0, x1, NAN)
            ys += (y0, y1, NAN)
            continue
        xs, ys = runs["wrap" if sort == "wrap" else "broken"]
        reach = PITCH / 2 + STUB
        if axis == 0:
            xs += (x0, x0 - reach, NAN, x1, x1 + reach, NAN)
            ys += (y0, y0, NAN, y1, y1, NAN)
        else:
            xs += (x0, x0, NAN, x1, x1, NAN)
            ys += (y0, y0 - reach - sheet.header, NAN, y1, y1 + reach, NAN)
    heavy = 2.0 if sheet.scale > 1.5 else 1.0
    looks = {
        "link": ("ICI link", ink.link, heavy, "solid"),
        "wrap": ("wrap-around link", ink.wrap, heavy, "dot"),
        "broken": ("broken link", ink.broken, heavy, "dash"),
    }
    return [
        _line(
            kind,
            xs,
            ys,
            name=name,
            line={"color": color, "width": size, "dash": dash},
            legendrank=2000,
        )
        for sort, (xs, ys) in runs.items()
        if xs
        for name, color, size, dash in (looks[sort],)
    ]


def _frames(
    sheet: Sheet, placed: list[tuple[HostView, float, float]], ink: Inks, kind: str
) -> list[Trace]:
    """Host borders; where tiles are tiny, only of hosts that are not as they should be."""
    width, height = sheet.tile
    roomy = sheet.scale * width >= 16
    groups: dict[str, tuple[list[float], list[float]]] = {}
    for view, x, y in placed:
        sort = view.state if view.state in FRAMES else "fine"
        if sort == "fine" and not roomy:
            continue
        xs, ys = groups.setdefault(sort, ([], []))
        xs += (x, x + width, x + width, x, x, NAN)
        ys += (y, y, y + height, y + height, y, NAN)
    traces = []
    for sort in ("fine", *FRAMES):
        if sort not in groups:
            continue
        color, size, dash = FRAMES.get(sort, (ink.line, 1.0, "solid"))
        trace = _line(
            kind,
            *groups[sort],
            line={"color": color, "width": size if roomy else 1.0, "dash": dash},
            showlegend=False,
        )
        if kind == "scatter":
            trace |= {"fill": "toself", "fillcolor": ink.tile}
            if sort == "unknown":
                trace["fillpattern"] = {"shape": "/", "size": 7, "solidity": 0.15, "fgcolor": color}
        traces.append(trace)
    return traces


def _chips(
    sheet: Sheet,
    placed: list[tuple[HostView, float, float]],
    marks: list[Sign],
    ink: Inks,
    kind: str,
) -> list[Trace]:
    """One trace a sign, so that each has its line in the legend."""
    origins: dict[Sign, list[tuple[float, float]]] = {}
    hollow = {sign for sign in marks if sign.letter in ("!", "F", "·")}
    for (_, x, y), sign in zip(placed, marks, strict=True):
        origins.setdefault(sign, []).append((x, y))
    offsets = np.asarray(sheet.chip_offsets())
    size = max(2.0, CHIP * PITCH * sheet.scale)
    lettered = size >= LETTER_PIXELS and kind == "scatter"
    order = {sign: place for place, sign in enumerate(dict.fromkeys(marks))}
    traces = []
    for sign, corner in sorted(origins.items(), key=lambda item: (item[0].letter, order[item[0]])):
        centres = (np.asarray(corner)[:, None, :] + offsets[None, :, :]).reshape(-1, 2)
        open_ = sign in hollow
        shape = "square" if lettered else sign.symbol
        border = 2 if open_ and lettered else 1 if "open" in shape else 0
        traces.append(
            {
                "type": kind,
                "mode": "markers",
                "x": _compact(centres[:, 0]),
                "y": _compact(centres[:, 1]),
                "name": f"{sign.letter} · {sign.word}: {len(corner):,}",
                "hoverinfo": "skip",
                "marker": {
                    "size": size,
                    "symbol": shape,
                    "color": ink.ground if open_ and lettered else sign.color,
                    "opacity": 1.0,
                    "line": {"width": border, "color": sign.color},
                },
            }
        )
        if lettered:
            color = ink.text if open_ else sign.ink
            traces.append(
                _text(centres, [sign.letter] * len(centres), min(15.0, size * 0.58), color)
            )
    return traces


def _text(
    centres: np.ndarray[Any, Any], words: list[str], size: float, color: str, at: str = "center"
) -> Trace:
    return {
        "type": "scatter",
        "mode": "text",
        "x": centres[:, 0],
        "y": centres[:, 1],
        "text": words,
        "textposition": f"middle {at}",
        "textfont": {"size": round(size, 1), "color": color, "family": FONT},
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
    }


def _compact(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Two bytes a coordinate instead of eight where halves are precise enough."""
    rounded = np.round(values)
    return (
        rounded.astype(np.int16) if np.array_equal(rounded, values) else values.astype(np.float32)
    )


def _labels(
    sheet: Sheet,
    placed: list[tuple[HostView, float, float]],
    colour_by: ColourBy,
    fleet: Fleet | None,
    ink: Inks,
) -> list[Trace]:
    """Worker id and, where the tile is wide enough, rank or value, at the head of each tile.

    Links run through the heads above each column of chips: the id stands left of the first, the
    rest between the first and the second.
    """
    if not sheet.header:
        return []
    width = sheet.scale * sheet.tile[0]
    roomy = width >= 60
    left = np.asarray([(x + 2 / sheet.scale, y + sheet.header / 2 + 0.5) for _, x, y in placed])
    middle = left + np.asarray([sheet.tile[0] / 2 - 2 / sheet.scale, 0.0])
    names = ["?" if view.worker_id is None else f"{view.worker_id}" for view, _, _ in placed]
    if not roomy:
        return [_text(middle, names, max(8.0, width * 0.22), ink.text)]
    extras = []
    for view, _, _ in placed:
        rank = "" if view.rank is None else f"rank {view.rank}" if width >= 100 else f"r{view.rank}"
        extras.append(short_value(view, colour_by, fleet) or rank)
    traces = [_text(left, [f"<b>{name}</b>" for name in names], 12.0, ink.text, "right")]
    if any(extras):
        traces.append(_text(middle, extras, 11.0 if width >= 76 else 10.0, ink.muted))
    return traces


def _targets(
    sheet: Sheet,
    layout: Plan,
    placed: list[tuple[HostView, float, float]],
    fleet: Fleet | None,
    kind: str,
) -> Trace:
    """The invisible squares that can be hit: one a host, with its number and its words."""
    width, height = sheet.tile
    ids = [-1 if view.host is None else point_id(view.host.key) for view, _, _ in placed]
    words: Trace
    if len(placed) > BRIEF_ABOVE_HOSTS:
        words = brief_words([view for view, _, _ in placed], ids)
    else:
        words = {
            "customdata": np.asarray(ids, dtype=np.float64),
            "text": [hover(view, layout, fleet) for view, _, _ in placed],
            "hovertemplate": "%{text}<extra></extra>",
        }
    return {
        "type": kind,
        "mode": "markers",
        "x": np.asarray([x + width / 2 for _, x, _ in placed], dtype=np.float32),
        "y": np.asarray([y + height / 2 for _, _, y in placed], dtype=np.float32),
        "marker": {"size": sheet.scale * min(width, height), "symbol": "square", "opacity": 0},
        "selected": {"marker": {"opacity": 0.25, "color": "#000000"}},
        "unselected": {"marker": {"opacity": 0}},
        "showlegend": False,
        "name": "hosts",
        **words,
    }


def brief_words(views: list[HostView], ids: list[int]) -> Trace:
    """Hover texts of thousands of hosts: what all pod names begin with is said once.

    2,304 full texts alone would be 700 kB; these are a quarter of that.
    """
    pods = [view.host.pod_name or "" if view.host is not None else "" for view in views]
    nodes = [view.host.node_name or "" if view.host is not None else "" for view in views]
    before_pod, before_node = _common_start(pods), _common_start(nodes)
    rows = []
    for view, ident, pod, node in zip(views, ids, pods, nodes, strict=True):
        name = "?" if view.worker_id is None else view.worker_id
        problem = f", {view.host.problem}" if view.host is not None and view.host.problem else ""
        at = ",".join(str(part) for part in view.place)
        rows.append(
            [
                ident,
                f"{name}: {HOST_SIGNS[view.state].word}{problem}, at {at}",
                escape(pod[len(before_pod) :], 30) if pod else "(none)",
                escape(node[len(before_node) :], 30) if node else "(none)",
            ]
        )
    return {
        "customdata": rows,
        "hovertemplate": (
            "worker %{customdata[1]}"
            f"<br>pod {_literal(before_pod)}%{{customdata[2]}}"
            f"<br>node {_literal(before_node)}%{{customdata[3]}}<extra></extra>"
        ),
    }


def _common_start(names: list[str]) -> str:
    present = [name for name in names if name]
    if len(present) < 2:
        return ""
    first, last = min(present), max(present)
    alike = (a == b for a, b in zip(first, last, strict=False))
    return first[: sum(itertools.takewhile(bool, alike))]


def _literal(text: str) -> str:
    """A name inside a hover template, where ``%{`` would be read as a variable."""
    return escape(text, 60).replace("%", "&#37;")


def _layer_titles(sheet: Sheet, layout: Plan, ink: Inks) -> list[dict[str, Any]]:
    found = []
    if layout.bounds[2] > 1:
        for z in range(layout.bounds[2]):
            x, y = sheet.layer_origin(z)
            found.append(_note(f"z = {z}", x, y - sheet.edge / 2 - sheet.title / 2, ink))
    if layout.spare:
        x, y = sheet.spare_origin(0)
        found.append(_note("without a place of their own", x, y - sheet.spare_title / 2, ink))
    return found


def _note(text: str, x: float, y: float, ink: Inks) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xanchor": "left",
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 11, "color": ink.muted},
    }


# --- title, legend, size --------------------------------------------------------------------


def _dress(
    figure: go.Figure,
    slice_: Slice,
    status: SliceStatusName,
    layout: Plan,
    ink: Inks,
    grid_size: tuple[float, float],
    width: int,
) -> None:
    """Title, the sentence about the layout, legend and a size of its own."""
    wide = min(float(width), max(grid_size[0] + 24, 340.0))
    columns = max(30, int((wide - 16) / 5.7))
    shape = " ".join(part for part in (slice_.generation, slice_.topology_name) if part)
    expected = "?" if slice_.hosts_expected is None else f"{slice_.hosts_expected:,}"
    heading = f"<b>{escape(slice_.name, max(12, columns - 24))}</b>  {escape(shape, 24)} · {status}"
    notes = [f"{slice_.hosts_alive:,} of {expected} hosts ready.", layout.words]
    if status == "unknown" or slice_.blind:
        blind = ", ".join(escape(name, 40) for name in slice_.blind[:3]) or "not everything"
        notes[0] = f"Cannot be seen in full ({blind}): nothing here proves that a host is well."
    if layout.bounds[2] > 1 and layout.topology is not None:
        notes.append(_z_words(layout))
    lines = textwrap.wrap(" ".join(note for note in notes if note), columns)
    entries = [trace.name or "" for trace in figure.data if trace.showlegend is not False]
    rows = legend_rows(entries, wide - 16)
    top = 30 + 17 * len(lines)
    bottom = 10 + 22 * rows
    tall = int(grid_size[1] + top + bottom)
    figure.update_layout(
        autosize=False,
        width=int(wide),
        height=tall,
        margin={"l": 8, "r": 8, "t": top, "b": bottom, "autoexpand": False},
        title={
            "text": heading
            + "".join(f'<br><span style="font-size:12px">{line}</span>' for line in lines),
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1 - 20 / tall,
            "yref": "container",
            "yanchor": "bottom",
            "pad": {"l": 8},
            "font": {"size": 15, "color": ink.text},
        },
        legend={
            "orientation": "h",
            "x": 0,
            "y": 0,
            "xref": "container",
            "yref": "container",
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"size": 12, "color": ink.text},
            "itemclick": False,
            "itemdoubleclick": False,
            "itemsizing": "constant",
            "traceorder": "normal",
        },
        showlegend=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "color": ink.text},
        hoverlabel={
            "align": "left",
            "bgcolor": ink.ground,
            "bordercolor": ink.line,
            "font": {"color": ink.text, "size": 12},
        },
        hovermode="closest",
        dragmode="pan" if len(layout.tiles) > 64 else False,
    )


def _z_words(layout: Plan) -> str:
    wraps = layout.topology is not None and layout.topology.wrap[2]
    words = "z links join equal places of one layer and the next"
    words += " and from the last to the first" * wraps
    broken = 0
    for axis, start, end, sort in strokes(layout):
        if axis == 2 and sort in ("broken", "wrap broken"):
            broken += 1 if sort == "wrap broken" else end[2] - start[2]
    return f"{words}; {broken:,} of them are broken." if broken else f"{words}."


def legend_rows(entries: list[str], width: float) -> int:
    """Rows that a horizontal legend takes; Plotly gives all entries the widest one's width."""
    if not entries:
        return 0
    widest = max(len(entry) for entry in entries) * 6.6 + 48
    return -(-len(entries) // max(1, int(width // widest)))
