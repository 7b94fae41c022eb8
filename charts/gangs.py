"""A gang as a matrix: a row a slice, a column a worker id, in each tile the rank on it."""

from __future__ import annotations

import math
from typing import NamedTuple

import plotly.graph_objects as go

from charts.dress import FONT, legend_rows
from charts.palette import BLACK, WHITE, inks
from charts.text import escape
from fleet.gangs import Gang, Rank, RankState
from fleet.model import Host, Slice

ACROSS, ACROSS_PHONE = 32, 8
"""Columns at most; a larger slice takes several rows."""
TILE = 34
MOST_TILES = 4096


class RankSign(NamedTuple):
    """How a rank's state is shown: the same hues as everywhere, and a letter."""

    word: str
    letter: str
    color: str
    ink: str


SIGNS: dict[RankState | str, RankSign] = {
    "running": RankSign("running", "R", "#0072B2", WHITE),
    "starting": RankSign("starting", "F", "#7F93A8", BLACK),
    "no worker": RankSign("no worker", "V", "#56B4E9", BLACK),
    "finished": RankSign("finished", "I", "#009E73", WHITE),
    "died": RankSign("died", "X", "#D55E00", WHITE),
    "host gone": RankSign("host gone", "!", "#E69F00", BLACK),
    "waiting": RankSign("waits for a host", "?", "#8B9096", WHITE),
    "unused": RankSign("host not in the group", "·", "#B9BEC4", BLACK),
}


class _Tile(NamedTuple):
    x: int
    y: int
    state: str
    label: str
    words: str
    key: int


def gang_figure(gang: Gang, *, dark: bool = False, width: int = 1000) -> go.Figure:
    """The matrix. Ranks without a host stand in a row of their own, the last one."""
    ink = inks(dark)
    across = ACROSS if width > 600 else ACROSS_PHONE
    tiles, rows = _tiles(gang, across)
    tiles = tiles[:MOST_TILES]
    columns = max((tile.x for tile in tiles), default=0) + 1
    left = 16 + min(200, int(6.8 * max((len(name) for name in rows), default=4)))
    side = max(22.0, min(float(TILE), (width - left - 8) / columns))
    figure = go.Figure()
    for state, sign in SIGNS.items():
        own = [tile for tile in tiles if tile.state == state]
        if not own:
            continue
        figure.add_trace(
            go.Scatter(
                x=[tile.x for tile in own],
                y=[tile.y for tile in own],
                mode="markers+text",
                name=f"{sign.letter} · {sign.word}: {len(own):,}",
                marker={
                    "symbol": "square-open" if state in ("waiting", "unused") else "square",
                    "size": side - 4,
                    "color": sign.color,
                    "line": {"width": 2 if state in ("waiting", "unused") else 0},
                },
                text=[f"{sign.letter}{tile.label}" for tile in own],
                textfont={
                    "color": ink.text if state in ("waiting", "unused") else sign.ink,
                    "size": 11,
                },
                customdata=[tile.key for tile in own],
                hovertext=[tile.words for tile in own],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    wide = int(min(width, max(left + columns * side + 8, 620)))
    legend = legend_rows([str(trace.name) for trace in figure.data], wide)
    tall = len(rows) * side
    figure.update_layout(
        autosize=False,
        width=wide,
        height=int(tall + 22 * legend + 34),
        margin={"l": left, "r": 8, "t": 22 * legend + 24, "b": 4, "autoexpand": False},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "color": ink.text, "size": 12},
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1,
            "xref": "container",
            "yref": "container",
            "xanchor": "left",
            "yanchor": "top",
            "itemclick": False,
            "itemdoubleclick": False,
            "itemsizing": "constant",
        },
        showlegend=True,
        hovermode="closest",
        dragmode=False,
        hoverlabel={
            "align": "left",
            "bgcolor": ink.ground,
            "bordercolor": ink.line,
            "font": {"color": ink.text, "size": 12},
        },
        uirevision="gang",
    )
    figure.update_xaxes(
        side="top",
        # Tiles keep their size in a figure that is wider than they are.
        range=[-0.5, (wide - left - 8) / side - 0.5],
        tickmode="array",
        tickvals=list(range(0, columns, max(1, columns // 16))),
        fixedrange=True,
        showgrid=False,
        zeroline=False,
        title=None,
    )
    figure.update_yaxes(
        range=[len(rows) - 0.5, -0.5],
        tickmode="array",
        tickvals=list(range(len(rows))),
        ticktext=rows,
        fixedrange=True,
        showgrid=False,
        zeroline=False,
    )
    return figure


def _tiles(gang: Gang, across: int) -> tuple[list[_Tile], list[str]]:
    tiles: list[_Tile] = []
    rows: list[str] = []
    unused = {(item.id, host.key) for item, host in gang.unused}
    for item in gang.slices:
        base = len(rows)
        places = _places(item)
        down = max(1, math.ceil((max(places.values(), default=0) + 1) / across))
        name = escape(item.name, 24)
        rows += [name, *(f"… from {across * row}" for row in range(1, down))]
        for rank in gang.ranks:
            if rank.slice is None or rank.slice.id != item.id or rank.host is None:
                continue
            place = places.get(rank.host.key, 0)
            row, column = divmod(place, across)
            words = _words(rank, item)
            tiles.append(_Tile(column, base + row, rank.state, str(rank.index), words, rank.index))
        for host in item.hosts:
            if (item.id, host.key) in unused:
                row, column = divmod(places.get(host.key, 0), across)
                words = f"{_host(host)} of {escape(item.name)}: not in the group"
                tiles.append(_Tile(column, base + row, "unused", "", words, -1))
    homeless = [rank for rank in gang.ranks if rank.slice is None or rank.host is None]
    if homeless:
        base = len(rows)
        down = math.ceil(len(homeless) / across)
        rows += ["no host"] + [""] * (down - 1)
        for number, rank in enumerate(homeless):
            row, column = divmod(number, across)
            words = f"<b>rank {rank.index}</b>: {SIGNS[rank.state].word}"
            tiles.append(_Tile(column, base + row, rank.state, str(rank.index), words, rank.index))
    return tiles, rows


def _places(item: Slice) -> dict[str, int]:
    """A column for each host: its worker id, or a free one after them where it has none."""
    taken: dict[int, str] = {}
    rest = []
    for host in item.hosts:
        if (
            host.worker_id is not None
            and 0 <= host.worker_id < 4096
            and host.worker_id not in taken
        ):
            taken[host.worker_id] = host.key
        else:
            rest.append(host.key)
    following = max(taken, default=-1) + 1
    return {key: place for place, key in taken.items()} | {
        key: following + number for number, key in enumerate(rest)
    }


def _host(host: Host) -> str:
    return f"worker {'?' if host.worker_id is None else host.worker_id}"


def _words(rank: Rank, item: Slice) -> str:
    lines = [f"<b>rank {rank.index}</b>: {SIGNS[rank.state].word}"]
    if rank.host is not None:
        lines.append(f"{_host(rank.host)} of {escape(item.name)}")
        if rank.host.pod_name:
            lines.append(f"pod {escape(rank.host.pod_name)}")
    if rank.worker is not None:
        told = rank.worker.name or rank.worker.id
        lines.append(f"{rank.worker.kind} {escape(told, 60)} {escape(rank.worker.state, 20)}")
        if rank.worker.running_task:
            lines.append(f"runs {escape(rank.worker.running_task, 60)}")
    if rank.use is not None and rank.use.duty_cycle is not None:
        lines.append(f"duty cycle {100 * rank.use.duty_cycle:.0f} %")
    return "<br>".join(lines)
