"""A 3D slice that turns: chips, hosts and links in isometric view.

Streamlit reports no clicks on 3D markers: this one is for turning and hovering, the layers of
:mod:`charts.grid` are for clicking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from charts.hosts import HostView, Plan
from charts.lines import strokes
from charts.palette import Inks, Sign
from fleet.topology import Coord

PITCH = 20
"""Units from a chip to the next; whole numbers travel to the browser as two bytes each."""
HOST_GAP = 7
"""Additional units between hosts."""
STUB = 14
"""Length of the ends of a wrap-around link, in units."""
EYE = {"x": 0.85, "y": -1.5, "z": 0.75}
FULL_TEXT_CHIPS = 1024
LABELLED_HOSTS = 40
PLATED_HOSTS = 600
NAN = float("nan")

SYMBOLS = {
    "square": "square",
    "circle": "circle",
    "diamond": "diamond",
    "hexagon": "circle",
    "x": "x",
    "cross": "cross",
    "star": "diamond",
    "triangle-up": "diamond",
    "square-open": "square-open",
    "hash-open": "circle-open",
    "asterisk-open": "cross",
}
"""3D has eight marker shapes only; colours and the legend's letters tell the rest apart."""

DENSE_SYMBOLS = {
    "circle": "diamond",
    "hexagon": "diamond-open",
    "diamond": "cross",
    "hash-open": "square-open",
    "circle-open": "square-open",
}
"""For thousands of chips: a circle is fifty triangles, a diamond two."""

Trace = dict[str, Any]


def figure_3d(
    layout: Plan, marks: Sequence[Sign], *, ink: Inks, words: Trace, shape: float
) -> go.Figure:
    """The bare 3D figure: traces and scene; :mod:`charts.grid` adds title, legend and size.

    ``marks`` are in the order of ``layout.tiles``, and so is ``words["text"]``, the hosts' hover
    texts, where there are few enough. ``shape`` is the width of the scene over its height.
    """
    traces = [
        *_plates(layout, marks),
        *_links(layout, ink),
        *_chips(layout, marks, words.get("text")),
        *_labels(layout, ink),
        _axes(layout, ink),
    ]
    figure = go.Figure({"data": traces, "layout": {}}, skip_invalid=False)
    hidden = {"visible": False, "showspikes": False}
    figure.update_layout(
        scene={
            "xaxis": hidden,
            "yaxis": hidden,
            "zaxis": hidden,
            "aspectmode": "manual",
            "aspectratio": _aspect(layout, shape),
            "bgcolor": "rgba(0,0,0,0)",
            "dragmode": "turntable",
            "camera": {
                "projection": {"type": "orthographic"},
                "eye": EYE,
            },
        },
    )
    return figure


def _aspect(layout: Plan, shape: float) -> dict[str, float]:
    """The scene's sides, as large as the figure (width over height ``shape``) can hold.

    Seen from ``EYE`` a box x by y by z is .87 x + .49 y wide and .20 x + .35 y + .92 z high, and
    Plotly's orthographic camera shows three units of height.
    """
    x, y, z = (
        bound * (PITCH * part + HOST_GAP)
        for bound, part in zip(layout.bounds, layout.block, strict=True)
    )
    across, deep, high = _scene(x, -y, z)
    wide = 0.87 * across + 0.49 * deep
    tall = 0.2 * across + 0.35 * deep + 0.92 * high
    scale = min(2.3 / tall, 2.3 * shape / wide)
    return {"x": across * scale, "y": deep * scale, "z": high * scale}


def _at(chip: Coord, block: Coord) -> tuple[float, float, float]:
    """A chip's place in the scene, hosts a little apart."""
    x, y, z = (
        PITCH * value + HOST_GAP * (value // part) for value, part in zip(chip, block, strict=True)
    )
    return _scene(x, y, z)


def _scene(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Slice axes to scene axes: z to the right, x away from the reader, y down.

    So the layers of the flat picture stand one behind the other, and a long slice lies flat.
    """
    return (z, x, -y)


def _lines(points: list[tuple[float, float, float]], **more: Any) -> Trace:
    xyz = np.asarray(points, dtype=np.float32)
    return {
        "type": "scatter3d",
        "mode": "lines",
        "x": xyz[:, 0],
        "y": xyz[:, 1],
        "z": xyz[:, 2],
        "hoverinfo": "skip",
        **more,
    }


def dense(layout: Plan) -> bool:
    """Whether there are so many chips that only the links on the surface are drawn.

    The others could not be told apart, and would make each turn of the picture five times slower.
    """
    return _chip_count(layout) > FULL_TEXT_CHIPS


def _chip_count(layout: Plan) -> int:
    return len(layout.tiles) * layout.block[0] * layout.block[1] * layout.block[2]


def _links(layout: Plan, ink: Inks) -> list[Trace]:
    gap = (NAN, NAN, NAN)
    runs: dict[str, list[tuple[float, float, float]]] = {"link": [], "wrap": [], "broken": []}
    thick = dense(layout)
    ends = [bound * part - 1 for bound, part in zip(layout.bounds, layout.block, strict=True)]
    for axis, start, end, kind in strokes(layout):
        across = [other for other in range(3) if other != axis]
        inside = all(0 < start[other] < ends[other] for other in across)
        if thick and inside and "broken" not in kind:
            continue
        a, b = _at(start, layout.block), _at(end, layout.block)
        if not kind.startswith("wrap"):
            runs[kind] += (a, b, gap)
            continue
        before, after = list(a), list(b)
        scene_axis, outwards = ((1, 1), (2, -1), (0, 1))[axis]
        before[scene_axis] -= STUB * outwards
        after[scene_axis] += STUB * outwards
        runs["wrap" if kind == "wrap" else "broken"] += (
            a,
            (before[0], before[1], before[2]),
            gap,
            b,
            (after[0], after[1], after[2]),
            gap,
        )
    looks = {
        "link": ("ICI link", ink.link, 2, "solid"),
        "wrap": ("wrap-around link", ink.wrap, 2, "dot"),
        "broken": ("broken link", ink.broken, 5, "dash"),
    }
    return [
        _lines(
            points, name=name, line={"color": color, "width": size, "dash": dash}, legendrank=2000
        )
        for kind, points in runs.items()
        if points
        for name, color, size, dash in (looks[kind],)
    ]


def _chips(layout: Plan, marks: Sequence[Sign], texts: Sequence[str] | None) -> list[Trace]:
    cx, cy, cz = layout.block
    offsets = np.asarray(
        [
            (PITCH * x, PITCH * y, PITCH * z)
            for z in range(cz)
            for y in range(cy)
            for x in range(cx)
        ],
        dtype=np.int16,
    )
    chips = _chip_count(layout)
    if chips > FULL_TEXT_CHIPS:
        texts = None
    size = 9.0 if chips <= 64 else 6.0 if chips <= 512 else 4.0 if chips <= 2048 else 2.5
    pitch = np.asarray([PITCH * part + HOST_GAP for part in layout.block], dtype=np.int16)
    traces = []
    for sign in sorted(set(marks), key=lambda item: (item.letter, item.word)):
        chosen = [at for at, mark in enumerate(marks) if mark == sign]
        views = [layout.tiles[at] for at in chosen]
        own = [texts[at] for at in chosen] if texts is not None else None
        origins = np.asarray([view.place for view in views], dtype=np.int16) * pitch
        centres = (origins[:, None, :] + offsets[None, :, :]).reshape(-1, 3)
        # In a thick slice whatever is wrong must shine through what is well.
        wrong = chips > 512 and views[0].state in ("broken", "incomplete", "forming")
        symbol = SYMBOLS.get(sign.symbol, "circle")
        if chips > FULL_TEXT_CHIPS:
            symbol = DENSE_SYMBOLS.get(sign.symbol, symbol)
        traces.append(
            {
                "type": "scatter3d",
                "mode": "markers",
                "x": centres[:, 2],
                "y": centres[:, 0],
                "z": -centres[:, 1],
                "name": sign.legend(len(views)),
                **_words(views, sign.word, own, len(offsets)),
                "marker": {
                    "size": size + 4.0 if wrong else size,
                    "symbol": symbol,
                    "color": sign.color,
                    "line": {"width": 0},
                    "opacity": 1.0 if wrong or chips <= 512 else 0.6,
                },
            }
        )
    return traces


def _words(views: list[HostView], word: str, texts: list[str] | None, chips: int) -> Trace:
    """Hover text on each chip; for thousands of them only the worker id, which is two bytes."""
    if texts is not None:
        return {
            "text": [text for text in texts for _ in range(chips)],
            "hovertemplate": "%{text}<extra></extra>",
        }
    ids = [-1 if view.worker_id is None else view.worker_id for view in views]
    return {
        "customdata": np.repeat(np.asarray(ids).clip(-1, 32767).astype(np.int16), chips),
        "hovertemplate": f"worker %{{customdata}}: {word.replace('%', '&#37;')}<extra></extra>",
    }


def _labels(layout: Plan, ink: Inks) -> list[Trace]:
    """Worker ids at the hosts' centres, as long as there are few enough to read."""
    if len(layout.tiles) > LABELLED_HOSTS:
        return []
    points = [_middle(view.place, layout.block) for view in layout.tiles]
    xyz = np.asarray(points, dtype=np.float32)
    return [
        {
            "type": "scatter3d",
            "mode": "text",
            "x": xyz[:, 0],
            "y": xyz[:, 1],
            "z": xyz[:, 2],
            "text": ["?" if v.worker_id is None else str(v.worker_id) for v in layout.tiles],
            "textfont": {"size": 13, "color": ink.text},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]


def _middle(place: Coord, block: Coord, *, flat: bool = True) -> tuple[float, float, float]:
    """The centre of a host; in slice axes, or where it is in the scene (``flat``)."""
    x, y, z = (
        at * (PITCH * part + HOST_GAP) + PITCH * (part - 1) / 2
        for at, part in zip(place, block, strict=True)
    )
    return _scene(x, y, z) if flat else (x, y, z)


def _plates(layout: Plan, marks: Sequence[Sign]) -> list[Trace]:
    """A translucent plate behind the chips of each host, in its colour."""
    if len(layout.tiles) > PLATED_HOSTS:
        return []
    cx, cy, _ = layout.block
    reach = PITCH * 0.35
    traces = []
    for color in sorted({mark.color for mark in marks}):
        views = [v for v, mark in zip(layout.tiles, marks, strict=True) if mark.color == color]
        points: list[tuple[float, float, float]] = []
        faces: list[tuple[int, int, int]] = []
        for view in views:
            x, y, z = _middle(view.place, layout.block, flat=False)
            wide, high = PITCH * (cx - 1) / 2 + reach, PITCH * (cy - 1) / 2 + reach
            first = len(points)
            points += [
                _scene(x + wide * i, y + high * j, z)
                for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))
            ]
            faces += [(first, first + 1, first + 2), (first, first + 2, first + 3)]
        xyz, ijk = np.asarray(points, dtype=np.float32), np.asarray(faces, dtype=np.int16)
        traces.append(
            {
                "type": "mesh3d",
                **{axis: xyz[:, at] for at, axis in enumerate("xyz")},
                **{corner: ijk[:, at] for at, corner in enumerate("ijk")},
                "color": color,
                "opacity": 0.16,
                "flatshading": True,
                "lighting": {"ambient": 1, "diffuse": 0, "specular": 0},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    return traces


def _axes(layout: Plan, ink: Inks) -> Trace:
    """A small corner that names the axes, outside the grid."""
    longest = max(b * p for b, p in zip(layout.bounds, layout.block, strict=True)) * PITCH
    start, length = -34.0, max(30.0, 0.08 * longest)
    ends = [
        (length, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, length, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, length),
    ]
    points = [_scene(start + x, start + y, start + z) for x, y, z in ends]
    return {
        "type": "scatter3d",
        "mode": "lines+text",
        **{axis: [point[at] for point in points] for at, axis in enumerate("xyz")},
        "text": ["x", "", "y", "", "z"],
        "textfont": {"size": 13, "color": ink.muted},
        "line": {"color": ink.muted, "width": 3},
        "hoverinfo": "skip",
        "showlegend": False,
    }
