"""The flat figure of a slice: tiles of hosts, chips in them, links between them, z by z.

Chips are drawn first and cannot be hit; on top lies one invisible square a host, which carries the
hover text and a number for the host. Streamlit reports clicks on ``scatter`` and ``scattergl``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from charts.dress import FONT, swatch
from charts.hosts import HostView, Plan
from charts.lines import strokes
from charts.palette import HOST_SIGNS, Inks, Sign
from charts.sheet import PITCH, STUB, Sheet, corners, lay_out

CHIP = 0.66
"""Width of a chip's marker as a part of the distance between chips."""
LETTER_PIXELS = 12.0
"""A chip smaller than this shows its state by shape instead of by letter."""
MOST_SVG_CHIPS = 1200
"""Up to this many chips are drawn as SVG, crisp and with a letter on each; more of them as WebGL,
whose text browsers blur. Both can be clicked."""
NAN = float("nan")

FRAMES: dict[str, tuple[str, float, str]] = {
    "unknown": (HOST_SIGNS["unknown"].color, 1.0, "dot"),
    "forming": (HOST_SIGNS["forming"].color, 1.5, "dot"),
    "incomplete": (HOST_SIGNS["incomplete"].color, 2.0, "dash"),
    "broken": (HOST_SIGNS["broken"].color, 2.5, "solid"),
}
"""Colour, width and dash of the border of a host that is not as it should be."""

Trace = dict[str, Any]
Placed = tuple[HostView, float, float]


def flat_figure(
    layout: Plan,
    marks: Sequence[Sign],
    values: Sequence[str],
    words: Trace,
    ink: Inks,
    *,
    width: int,
    height: int,
) -> tuple[go.Figure, tuple[float, float]]:
    """The bare flat figure and its size in pixels.

    ``marks`` and ``values`` (what is printed on a tile beside its worker id) are in the order of
    ``layout.tiles`` and ``layout.spare``; so are the arrays in ``words``, the part of a Plotly
    trace that holds ``customdata`` and hover text.
    """
    sheet = lay_out(layout, width - 24.0, float(height))
    placed = corners(sheet, layout)
    chips = len(placed) * layout.block[0] * layout.block[1] * layout.block[2]
    kind = "scatter" if chips <= MOST_SVG_CHIPS else "scattergl"
    traces = [
        *_frames(sheet, placed, ink, kind),
        *_links(sheet, layout, ink, kind),
        *_chips(sheet, placed, marks, ink, kind),
        *(_labels(sheet, placed, values, ink) if kind == "scatter" else ()),
        _targets(sheet, placed, words, kind),
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


def _frames(sheet: Sheet, placed: Sequence[Placed], ink: Inks, kind: str) -> list[Trace]:
    """Host borders; where tiles are tiny, only of hosts that are not as they should be."""
    width, height = sheet.tile
    roomy = sheet.scale * width >= 16
    groups: dict[str, tuple[list[float], list[float]]] = {}
    for view, x, y in placed:
        sort: str = view.state if view.state in FRAMES else "fine"
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
    placed: Sequence[Placed],
    marks: Sequence[Sign],
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
        if lettered:
            traces.append(_squares(centres, sign, open_, ink))
            traces.append(swatch(sign, len(corner), ink.ground, hollow=open_))
        else:
            traces.append(
                {
                    "type": kind,
                    "mode": "markers",
                    "x": _compact(centres[:, 0]),
                    "y": _compact(centres[:, 1]),
                    "name": sign.legend(len(corner)),
                    "hoverinfo": "skip",
                    "marker": {
                        "size": size,
                        "symbol": sign.symbol,
                        "color": sign.color,
                        "opacity": 1.0,
                        "line": {"width": 1 if "open" in sign.symbol else 0, "color": sign.color},
                    },
                }
            )
        if lettered:
            color = ink.text if open_ else sign.ink
            traces.append(
                _text(centres, [sign.letter] * len(centres), min(15.0, size * 0.58), color)
            )
    return traces


def _squares(centres: np.ndarray[Any, Any], sign: Sign, hollow: bool, ink: Inks) -> Trace:
    """Chips as filled squares of one path: they shrink with the figure, which markers do not."""
    half = CHIP * PITCH / 2
    ring = half * np.asarray([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1), (NAN, NAN)])
    points = (centres[:, None, :] + ring[None, :, :]).reshape(-1, 2).astype(np.float32)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": points[:, 0],
        "y": points[:, 1],
        "fill": "toself",
        "fillcolor": ink.ground if hollow else sign.color,
        "line": {"width": 2, "color": sign.color},
        "hoverinfo": "skip",
        "showlegend": False,
    }


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
    sheet: Sheet, placed: Sequence[Placed], values: Sequence[str], ink: Inks
) -> list[Trace]:
    """Worker id and, where the tile is wide enough, rank or value, at the head of each tile.

    Links run through the heads above each column of chips: the id stands left of the first, the
    rest between the first and the second.
    """
    if not sheet.header or not placed:
        return []
    width = sheet.scale * sheet.tile[0]
    left = np.asarray([(x + 2 / sheet.scale, y + sheet.header / 2 + 0.5) for _, x, y in placed])
    middle = left + np.asarray([sheet.tile[0] / 2 - 2 / sheet.scale, 0.0])
    names = ["?" if view.worker_id is None else f"{view.worker_id}" for view, _, _ in placed]
    if width < 60:
        return [_text(middle, names, max(8.0, width * 0.22), ink.text)]
    traces = [_text(left, [f"<b>{name}</b>" for name in names], 12.0, ink.text, "right")]
    extras = list(values)
    for at, (view, _, _) in enumerate(placed):
        if not extras[at] and view.rank is not None:
            extras[at] = f"rank {view.rank}" if width >= 100 else f"r{view.rank}"
    if any(extras):
        traces.append(_text(middle, extras, 11.0 if width >= 76 else 10.0, ink.muted))
    return traces


def _targets(sheet: Sheet, placed: Sequence[Placed], words: Trace, kind: str) -> Trace:
    """The invisible squares that can be hit: one a host, with its number and its words."""
    width, height = sheet.tile
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
