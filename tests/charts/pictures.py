"""Draws the figures of ``docs/images`` anew: ``python -m tests.charts.pictures [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

import plotly.graph_objects as go

from charts.grid import slice_figure, topology_figure
from charts.wall import wall_figure
from fleet.topology import parse_topology
from tests.charts.builders import fleet_of, made, many
from tests.charts.painting import blank, paint
from tests.serving import browser

ROOT = Path(__file__).resolve().parents[2]
PHONE = 374


def pictures() -> dict[str, go.Figure]:
    """The figures by file name; those with ``dark`` in it stand on a dark ground."""
    flat = made("v6e", "4x4", "v6e-group-0", missing=(2,))
    square = made("v6e", "16x16", "v6e-group-7", missing=(60, 61), dead=(5,))
    deep = made("v5p", "4x4x8", "v5p-group-3", dead=(9,), groups=2)
    huge = made("v7x", "16x16x36", "ironwood-0", missing=(100, 101), dead=(700,), groups=3)
    fleet = fleet_of(flat, square, deep, huge)
    wall, few = many(300), many(60)
    bad = "incomplete"
    return {
        "grid-2d-light": slice_figure(flat[0], bad, fleet=fleet),
        "grid-2d-dark": slice_figure(
            square[0], bad, fleet=fleet, colour_by="duty_cycle", dark=True
        ),
        "grid-layers-light": slice_figure(deep[0], bad, fleet=fleet, view="layers"),
        "grid-layers-dark": slice_figure(
            deep[0], bad, fleet=fleet, view="layers", colour_by="placement_group", dark=True
        ),
        "grid-layers-narrow-light": slice_figure(
            deep[0], bad, fleet=fleet, view="layers", width=PHONE
        ),
        "grid-3d-light": slice_figure(deep[0], bad, fleet=fleet, view="3d"),
        "grid-9216-chips-light": slice_figure(huge[0], bad, fleet=fleet, view="layers"),
        "grid-9216-chips-3d-dark": slice_figure(huge[0], bad, fleet=fleet, view="3d", dark=True),
        "grid-sub-slices-light": topology_figure(parse_topology("v6e", "8x8"), part="4x8"),
        "wall-light": wall_figure(*wall),
        "wall-dark": wall_figure(*wall, dark=True),
        "wall-narrow-light": wall_figure(*few, width=PHONE),
    }


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as found:
        for name, figure in pictures().items():
            page = blank(
                found,
                width=int(figure.layout.width) + 16,
                height=int(figure.layout.height) + 16,
                dark="dark" in name,
            )
            paint(page, figure)
            page.screenshot(path=folder / f"{name}.png")
            page.close()
            print(folder / f"{name}.png", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
