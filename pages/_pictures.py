"""Figures of ``charts`` on a page: the wall of slices and one slice's ICI grid."""

from __future__ import annotations

from typing import Any

import streamlit as st

from charts.colouring import COLOUR_BY, ColourBy
from charts.grid import View, host_index_of_point, slice_figure
from charts.palette import SLICE_SIGNS, WORST_FIRST
from charts.wall import slice_id_of_point, wall_figure
from diagnosis.finding import Report
from diagnosis.snapshot import Snapshot
from exporter.words import host_name, host_trouble, status_of
from fleet.model import Host, Slice
from pages import _memo
from pages._parts import ago, go, sentence

CONFIG = {"displaylogo": False, "displayModeBar": False, "scrollZoom": False}
WIDE, PHONE = 1080, 350
COLOUR_WORDS: dict[ColourBy, str] = {
    "state": "state",
    "placement_group": "placement group",
    "job": "job",
    "duty_cycle": "duty cycle",
    "pod_age": "age",
}


def dark() -> bool:
    """Whether the reader's theme has a dark ground."""
    return bool(st.context.theme.type == "dark")


def room() -> int:
    """Pixels for a figure. Streamlit does not tell the window's width, but telephones say so."""
    return PHONE if "Mobile" in (st.context.headers.get("User-Agent") or "") else WIDE


def wall(current: Snapshot) -> None:
    """All slices as tiles, worst first; a click on one opens it."""
    report = current.report
    ground, width = dark(), room()
    figure = _memo.once(
        current,
        ("wall", ground, width),
        lambda: wall_figure(report.fleet, report.statuses, dark=ground, width=width),
    )
    event = st.plotly_chart(
        figure,
        width="content",
        theme=None,
        key="wall",
        on_select="rerun",
        selection_mode="points",
        config=CONFIG,
        alt="All slices as tiles with their status; the table below has the same",
    )
    st.caption(f"A click on a tile opens the slice. {_key(report)}")
    points = event["selection"]["points"] if event else []
    chosen = slice_id_of_point(report.fleet, points[0]) if points else None
    if chosen is not None:
        go("slice", id=chosen)


def _key(report: Report) -> str:
    """What the letters mean, for the statuses that are there."""
    there = {status_of(report, item) for item in report.fleet.slices}
    signs = [SLICE_SIGNS[status] for status in WORST_FIRST if status in there]
    return " · ".join(f"{sign.word}: {sign.meaning}" for sign in signs)


def grid(current: Snapshot, item: Slice) -> None:
    """The slice's hosts and chips where its topology puts them; a click on a host names it."""
    with st.container(horizontal=True, gap="medium"):
        colour_by: ColourBy = (
            st.segmented_control(
                "Colours stand for",
                COLOUR_BY,
                default="state",
                format_func=lambda name: COLOUR_WORDS[name],
                key="grid-colours",
            )
            or "state"
        )
        view: View = "grid"
        if item.topology is not None and item.topology.host_bounds[2] > 1:
            view = (
                st.segmented_control("View", ("layers", "3d"), default="layers", key="grid-view")
                or "layers"
            )
    ground, width = dark(), room()
    figure = _memo.once(
        current,
        ("grid", item.id, colour_by, view, ground, width),
        lambda: slice_figure(
            item,
            status_of(current.report, item),
            fleet=current.report.fleet,
            colour_by=colour_by,
            view=view,
            dark=ground,
            width=width,
        ),
    )
    event = st.plotly_chart(
        figure,
        width="content",
        theme=None,
        key="grid",
        on_select="rerun",
        selection_mode="points",
        config=CONFIG,
        alt=f"ICI grid of the slice: {item.hosts_alive} hosts ready; the table below has the same",
    )
    host = _picked(item, event)
    if host is not None:
        sentence(_host_sentence(current, host))


def _picked(item: Slice, event: Any) -> Host | None:
    points = event["selection"]["points"] if event else []
    index = host_index_of_point(item, points[0]) if points else None
    return item.hosts[index] if index is not None else None


def _host_sentence(current: Snapshot, host: Host) -> str:
    parts = [
        f"{host_name(host)} is {host.state.replace('_', ' ')}",
        f"pod {host.pod_name}" if host.pod_name else "no pod",
        f"node {host.node_name}" if host.node_name else "no Kubernetes node",
        f"up for {ago(current, host.age_since)}" if host.age_since is not None else "age unknown",
    ]
    trouble = host_trouble(host)
    return ", ".join(parts) + (f": {trouble}." if trouble else ".")
