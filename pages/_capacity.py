"""Capacity by generation and topology: a picture and the same as a table."""

from __future__ import annotations

import streamlit as st

from charts.capacity import MOST, ORDER, capacity_figure
from charts.tables import capacity_table
from diagnosis.snapshot import Snapshot
from pages import _memo, _pictures
from pages._parts import cell, lazily, table


def capacity(current: Snapshot) -> None:
    """What there is of each shape, and how much of it is free."""
    report = current.report
    ground, width = _pictures.dark(), _pictures.room()
    figure = _memo.once(
        current,
        ("capacity", ground, width),
        lambda: capacity_figure(report.fleet, report.statuses, dark=ground, width=width),
    )
    st.subheader("Capacity")
    st.plotly_chart(
        figure,
        width="content",
        theme=None,
        key="capacity",
        config=_pictures.CONFIG,
        alt="Slices of each shape by status, as bars; the table below has the same numbers",
    )
    with lazily("Capacity as a table", "capacity") as unfolded:
        if not unfolded:
            return
        rows = _memo.once(current, "capacity-rows", lambda: _rows(current))
        if len(rows) > MOST:
            st.caption(f"The picture shows the {MOST} shapes with most slices, the table all.")
        table(
            rows,
            "capacity",
            empty="No slice.",
            alt="Slices, hosts and chips of each shape, and slices by status",
        )


def _rows(current: Snapshot) -> list[dict[str, object]]:
    frame = capacity_table(current.report.fleet, current.report.statuses)
    return [
        {
            "generation": cell(row["generation"]),
            "topology": cell(row["topology"]),
            "slices": int(row["slices"]),
            "whole": int(sum(row[name] for name in ("running", "reserved", "shared", "idle"))),
            **{name: int(row[name]) for name in ORDER},
            "hosts ready": f"{row['hosts_ready']:,} / {row['hosts']:,}",
            "chips": int(row["chips"]),
            "chips free": int(row["chips_free"]),
        }
        for row in frame.to_dict("records")
    ]
