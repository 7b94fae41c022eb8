"""Capacity by generation and topology: a bar a shape, a segment a status, its count in it."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from charts.dress import FONT, legend_rows
from charts.palette import SLICE_SIGNS, inks
from charts.text import escape
from fleet.model import Fleet, SliceStatusName

ORDER: tuple[SliceStatusName, ...] = (
    "running", "reserved", "shared", "idle", "forming", "incomplete", "broken", "unknown",
)  # fmt: skip
"""From what works over what is free to what is lost: free and lost capacity stand together."""
ROW = 30
MOST = 24
"""Shapes with a bar; a fleet has few, and the table below the figure has all."""


def tally(
    fleet: Fleet, statuses: Mapping[str, SliceStatusName]
) -> dict[tuple[str, str], dict[SliceStatusName, int]]:
    """Slices by shape (generation, topology) and status; the shapes with most slices first."""
    found: dict[tuple[str, str], dict[SliceStatusName, int]] = {}
    for item in fleet.slices:
        key = (item.generation or "?", item.topology_name or "?")
        row = found.setdefault(key, {})
        status = statuses.get(item.id, "unknown")
        row[status] = row.get(status, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: (-sum(pair[1].values()), pair[0])))


def capacity_figure(
    fleet: Fleet,
    statuses: Mapping[str, SliceStatusName],
    *,
    dark: bool = False,
    width: int = 1000,
) -> go.Figure:
    """Slices of each shape by status, as a stacked bar in shares of the shape's slices.

    Shares, not counts, make a shape of two slices readable beside one of two hundred; counts stand
    in the segments and in the label.
    """
    ink = inks(dark)
    rows = list(tally(fleet, statuses).items())[:MOST]
    labels = [_label(key, sum(row.values())) for key, row in rows]
    traces = []
    for status in ORDER:
        counts = [row.get(status, 0) for _, row in rows]
        if not any(counts):
            continue
        sign = SLICE_SIGNS[status]
        shares = [
            100 * number / max(1, sum(row.values()))
            for number, (_, row) in zip(counts, rows, strict=True)
        ]
        hollow = status == "unknown"
        traces.append(
            go.Bar(
                orientation="h",
                y=labels,
                x=shares,
                name=sign.legend(sum(counts)),
                text=[f"{sign.letter} {number:,}" if number else "" for number in counts],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                constraintext="none",
                textfont={"color": sign.ink if not hollow else WHITE, "size": 12},
                marker={
                    "color": sign.color,
                    "pattern": {"shape": "/" if hollow else "", "size": 5, "solidity": 0.2},
                    "line": {"width": 1, "color": ink.ground},
                },
                customdata=counts,
                hovertemplate=f"%{{y}}: %{{customdata}} {sign.word}<extra></extra>",
            )
        )
    figure = go.Figure(traces)
    legend = legend_rows([str(trace.name) for trace in traces], width)
    left = 20 + int(6.6 * max((len(label) for label in labels), default=1))
    figure.update_layout(
        barmode="stack",
        bargap=0.25,
        autosize=False,
        width=width,
        height=ROW * max(1, len(rows)) + 22 * legend + 14,
        margin={"l": left, "r": 8, "t": 22 * legend + 4, "b": 8, "autoexpand": False},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "color": ink.text, "size": 13},
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1,
            "xref": "container",
            "yref": "container",
            "xanchor": "left",
            "yanchor": "top",
            "font": {"size": 12},
            "itemclick": False,
            "itemdoubleclick": False,
            "traceorder": "normal",
        },
        showlegend=True,
        hovermode="closest",
        dragmode=False,
        uirevision="capacity",
    )
    figure.update_xaxes(visible=False, range=[0, 100], fixedrange=True)
    figure.update_yaxes(autorange="reversed", fixedrange=True, showgrid=False, ticks="")
    return figure


WHITE = "#FFFFFF"


def _label(key: tuple[str, str], total: int) -> str:
    return f"{escape(key[0], 12)} {escape(key[1], 16)} · {total:,}"
