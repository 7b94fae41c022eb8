"""One slice's ICI grid as a figure: chips by host, links between them, everything it knows.

A figure has its own size in pixels, because markers do: show it with ``width="content"``, and give
``width`` where there is less room.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from charts.colouring import ColourBy, short_value, signs
from charts.dress import dress
from charts.flat import Trace, flat_figure
from charts.grid3d import dense, figure_3d
from charts.hosts import HostView, Plan, hover, plan
from charts.lines import strokes
from charts.palette import HOST_SIGNS, Inks, Sign, inks, sequence_sign
from charts.text import escape, point_id
from fleet.model import Fleet, Host, Slice, SliceStatusName
from fleet.topology import Topology, host_coordinates, subslice_index, subslice_shapes

View = Literal["grid", "layers", "3d"]

BRIEF_ABOVE_HOSTS = 600
"""More hosts than this have a shorter hover text."""
MOST_LEGEND = 24


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
    views = (*layout.tiles, *layout.spare)
    figure, size = _picture(
        layout,
        signs(views, colour_by, fleet),
        [short_value(item, colour_by, fleet) for item in views],
        _words(views, layout, fleet),
        view,
        inks(dark),
        (width, height),
    )
    shape = " ".join(part for part in (slice_.generation, slice_.topology_name) if part)
    dress(
        figure,
        f"<b>{escape(slice_.name, max(16, width // 10))}</b>  {escape(shape, 24)} · {status}",
        " ".join((_seen(slice_, status), layout.words, _link_words(layout, view))),
        inks(dark),
        size=size,
        width=width,
        pan=len(views) > 64,
    )
    figure.update_layout(uirevision=f"{point_id(slice_.id)} {view}", clickmode="event+select")
    return figure


def topology_figure(
    topology: Topology,
    *,
    part: str | None = None,
    view: View | None = None,
    dark: bool = False,
    width: int = 1000,
    height: int = 760,
) -> go.Figure:
    """The picture of a shape without a cluster.

    With ``part``, the name of a sub-slice's shape, hosts are coloured by the sub-slice they are in.
    The other arguments are those of :func:`slice_figure`.
    """
    hosts = tuple(
        Host(key=f"worker-{worker}", worker_id=worker, state="ready", coordinates=place)
        for worker in range(topology.hosts)
        if (place := host_coordinates(topology, worker)) is not None
    )
    shape = Slice(
        id="",
        namespace="",
        cluster="",
        name=topology.name,
        topology=topology,
        hosts=hosts,
        holding="free",
    )
    layout = plan(shape, "idle")
    if part in subslice_shapes(topology):
        indexes = [subslice_index(topology, part or "", tile.place) or 0 for tile in layout.tiles]
        found = {index: sequence_sign(index, f"{part} number {index}") for index in set(indexes)}
        marks = [found[index] for index in indexes]
        values = [f"no. {index}" for index in indexes]
    else:
        marks = [Sign("host", "", "#0072B2", "#FFFFFF", "square")] * len(layout.tiles)
        values = [""] * len(layout.tiles)
    words: Trace = {
        "customdata": np.arange(len(hosts), dtype=np.int16),
        "hovertemplate": "worker %{customdata}<extra></extra>",
    }
    figure, size = _picture(layout, marks, values, words, view, inks(dark), (width, height))
    dress(
        figure,
        f"<b>{topology.generation} {topology.name}</b>",
        f"Layout assumed from worker ids. {_link_words(layout, view)}",
        inks(dark),
        size=size,
        width=width,
        pan=len(hosts) > 64,
    )
    if len(set(marks)) > MOST_LEGEND:
        figure.update_layout(showlegend=False)
    figure.update_layout(uirevision=f"{topology.generation} {topology.name} {view}")
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


def _picture(
    layout: Plan,
    marks: Sequence[Sign],
    values: Sequence[str],
    words: Trace,
    view: View | None,
    ink: Inks,
    most: tuple[int, int],
) -> tuple[go.Figure, tuple[float, float]]:
    width, height = most
    if view == "3d" and layout.bounds[2] > 1:
        size = (float(width - 24), float(min(height, max(320.0, 0.55 * width))))
        count = len(layout.tiles)
        figure = figure_3d(layout, marks[:count], ink=ink, words=words, shape=size[0] / size[1])
        return figure, size
    return flat_figure(layout, marks, values, words, ink, width=width, height=height)


def _seen(slice_: Slice, status: SliceStatusName) -> str:
    if status == "unknown" or slice_.blind:
        blind = ", ".join(escape(name, 40) for name in slice_.blind[:3]) or "not everything"
        return f"Cannot be seen in full ({blind}): nothing here proves that a host is well."
    expected = "?" if slice_.hosts_expected is None else f"{slice_.hosts_expected:,}"
    return f"{slice_.hosts_alive:,} of {expected} hosts ready."


def _link_words(layout: Plan, view: View | None) -> str:
    """Which links of a 3D slice the picture leaves out."""
    if layout.topology is None or layout.bounds[2] == 1:
        return ""
    if view == "3d":
        return "Of its links those on the surface and the broken ones are drawn." * dense(layout)
    wraps = layout.topology.wrap[2]
    words = "z links join equal places of one layer and the next"
    words += " and from the last to the first" * wraps
    broken = 0
    for axis, start, end, sort in strokes(layout):
        if axis == 2 and sort in ("broken", "wrap broken"):
            broken += 1 if sort == "wrap broken" else end[2] - start[2]
    return f"{words}; {broken:,} of them are broken." if broken else f"{words}."


def _words(views: Sequence[HostView], layout: Plan, fleet: Fleet | None) -> Trace:
    ids = [-1 if view.host is None else point_id(view.host.key) for view in views]
    if len(views) > BRIEF_ABOVE_HOSTS:
        return brief_words(views, ids)
    return {
        "customdata": np.asarray(ids, dtype=np.float64),
        "text": [hover(view, layout, fleet) for view in views],
        "hovertemplate": "%{text}<extra></extra>",
    }


def brief_words(views: Sequence[HostView], ids: list[int]) -> Trace:
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
