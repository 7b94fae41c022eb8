"""What all figures of a slice have around the picture: title, sentences, legend, size."""

from __future__ import annotations

import textwrap
from typing import Any

import plotly.graph_objects as go

from charts.palette import Inks, Sign

FONT = "Source Sans Pro, Source Sans 3, Helvetica, Arial, sans-serif"


def swatch(sign: Sign, count: int, ground: str, *, hollow: bool = False) -> dict[str, Any]:
    """A trace without points: the legend's square for what is drawn as filled paths."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [None],
        "y": [None],
        "name": sign.legend(count),
        "marker": {
            "size": 12,
            "symbol": "square",
            "color": ground if hollow else sign.color,
            "line": {"width": 2 if hollow else 0, "color": sign.color},
        },
        "hoverinfo": "skip",
        "showlegend": True,
    }


def dress(
    figure: go.Figure,
    heading: str,
    notes: str,
    ink: Inks,
    *,
    size: tuple[float, float],
    width: int,
    pan: bool,
) -> None:
    """Give a figure its title, its sentences, its legend and a size of its own.

    Args:
        figure: changed in place.
        heading: HTML of one line; names in it are escaped already.
        notes: sentences below it, broken where the figure ends; escaped already.
        ink: the ground's inks.
        size: pixels of the picture itself.
        width: pixels at most.
        pan: whether dragging moves the picture (else it scrolls the page).
    """
    wide = min(float(width), max(size[0] + 24, 340.0))
    columns = max(30, int((wide - 16) / 5.7))
    lines = textwrap.wrap(notes, columns, break_long_words=False)
    entries = [trace.name or "" for trace in figure.data if trace.showlegend is not False]
    rows = legend_rows(entries, wide - 16)
    top = 30 + 17 * len(lines)
    bottom = 10 + 22 * rows
    tall = int(size[1] + top + bottom)
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
        dragmode="pan" if pan else False,
    )


def legend_rows(entries: list[str], width: float) -> int:
    """Rows that a horizontal legend takes; Plotly gives all entries the widest one's width."""
    if not entries:
        return 0
    widest = max(len(entry) for entry in entries) * 6.6 + 48
    return -(-len(entries) // max(1, int(width // widest)))
