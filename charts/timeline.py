"""What happened when, on one axis of time that can be zoomed: bars for what lasted, marks for what
happened at a moment, and grey where nobody looked.

The figure knows nothing of history: it draws the bars and marks that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple

import plotly.graph_objects as go

from charts.dress import FONT
from charts.palette import Inks, inks
from charts.text import escape

Weight = Literal["critical", "warning", "info"]

COLOURS: dict[str, tuple[str, str, str]] = {
    "critical": ("#D55E00", "X", "#FFFFFF"),
    "warning": ("#E69F00", "!", "#14171A"),
    "info": ("#56B4E9", "i", "#14171A"),
}
"""Colour, letter and ink of a bar, by severity."""
ROW = 24
MOST_ROWS = 24
LONGEST = 34


class Bar(NamedTuple):
    """Something that lasted from ``start`` to ``end`` (epoch seconds), in the row ``row``.

    ``color`` takes the place of the severity's (a status has its own); ``text`` is for the hover.
    """

    row: str
    start: float
    end: float
    text: str
    weight: Weight = "info"
    color: str | None = None
    letter: str | None = None
    still: bool = False


class Mark(NamedTuple):
    """Something that happened ``at`` (epoch seconds); ``lane`` is its row, ``key`` its number."""

    lane: str
    at: float
    text: str
    key: int
    symbol: str = "diamond"


def timeline_figure(
    bars: Sequence[Bar],
    marks: Sequence[Mark],
    gaps: Sequence[tuple[float, float]],
    start: float,
    end: float,
    *,
    now: float | None = None,
    zone: tzinfo = UTC,
    dark: bool = False,
    width: int = 1000,
) -> go.Figure:
    """The timeline from ``start`` to ``end``.

    Args:
        bars: the rows above, in the order given; more rows than fit share the last one.
        marks: the lanes below.
        gaps: times in which nobody looked.
        start: epoch seconds.
        end: epoch seconds.
        now: a moment to draw a line at.
        zone: the reader's; the axis shows it.
        dark: for a dark ground.
        width: pixels.
    """
    ink = inks(dark)
    rows = list(dict.fromkeys(bar.row for bar in bars))
    shown = rows[:MOST_ROWS]
    names = {row: _name(row, place) for place, row in enumerate(shown)}
    lanes = list(dict.fromkeys(mark.lane for mark in marks))
    order = [*names.values(), *(escape(lane, LONGEST) for lane in lanes)]
    figure = go.Figure()
    for bar in bars:
        if bar.row in names:
            figure.add_trace(_bar(bar, names[bar.row], start, end, zone, ink))
    for lane in lanes:
        figure.add_trace(_marks([mark for mark in marks if mark.lane == lane], lane, zone, ink))
    for one, two in gaps:
        figure.add_vrect(
            x0=_at(one, zone), x1=_at(two, zone), fillcolor=ink.muted, opacity=0.18, line_width=0,
            annotation_text="nobody looked", annotation_position="bottom left",
            annotation_font={"size": 10, "color": ink.muted},
        )  # fmt: skip
    if now is not None and start <= now <= end:
        figure.add_vline(x=_at(now, zone), line={"color": ink.text, "width": 1, "dash": "dot"})
    left = 24 + int(6.6 * max((len(name) for name in order), default=4))
    figure.update_layout(
        autosize=False,
        width=width,
        height=ROW * max(2, len(order)) + 80,
        margin={"l": min(left, width // 2), "r": 12, "t": 30, "b": 36, "autoexpand": False},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "color": ink.text, "size": 12},
        showlegend=False,
        hovermode="closest",
        dragmode="zoom",
        hoverlabel={
            "align": "left",
            "bgcolor": ink.ground,
            "bordercolor": ink.line,
            "font": {"color": ink.text, "size": 12},
        },
        clickmode="event+select",
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": ink.muted, "activecolor": ink.text},
        uirevision=f"{start:.0f}",
    )
    figure.update_xaxes(
        type="date",
        range=[_at(start, zone), _at(end, zone)],
        gridcolor=ink.line,
        griddash="dot",
        linecolor=ink.line,
        nticks=max(2, width // 150),
        tickangle=0,
        ticks="outside",
        tickcolor=ink.line,
    )
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=order[::-1],
        range=[-0.6, max(1, len(order)) - 0.4],
        fixedrange=True,
        showgrid=False,
    )
    return figure


def _bar(bar: Bar, name: str, start: float, end: float, zone: tzinfo, ink: Inks) -> go.Scatter:
    color, letter, text_ink = COLOURS[bar.weight]
    color, letter = bar.color or color, bar.letter or letter
    first, last = max(bar.start, start), min(max(bar.end, bar.start), end)
    return go.Scatter(
        x=[_at(first, zone), _at((first + last) / 2, zone), _at(last, zone)],
        y=[name] * 3,
        mode="lines+markers+text",
        line={"color": color, "width": 14},
        marker={
            "size": [10, 1, 10],
            "symbol": ["square", "circle", "triangle-right" if bar.still else "square"],
            "color": color,
            "opacity": 1,
        },
        text=["", letter, ""],
        textposition="middle center",
        textfont={"color": text_ink, "size": 11},
        hovertext=escape(bar.text, 200),
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _marks(marks: Sequence[Mark], lane: str, zone: tzinfo, ink: Inks) -> go.Scatter:
    return go.Scatter(
        x=[_at(mark.at, zone) for mark in marks],
        y=[escape(lane, LONGEST)] * len(marks),
        mode="markers",
        marker={
            "size": 10,
            "symbol": [mark.symbol for mark in marks],
            "color": ink.link,
            "line": {"width": 1, "color": ink.text},
        },
        customdata=[mark.key for mark in marks],
        hovertext=[escape(mark.text, 160) for mark in marks],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _name(row: str, place: int) -> str:
    """A row's label; equal beginnings of long names must not become one row."""
    short = escape(row, LONGEST)
    return short if len(row) <= LONGEST else f"{short} ({place + 1})"


def _at(moment: float, zone: tzinfo) -> str:
    """Plotly knows no zones: the wall clock of the reader, as text."""
    try:
        return datetime.fromtimestamp(moment, zone).replace(tzinfo=None).isoformat(" ")
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC).replace(tzinfo=None).isoformat(" ")
