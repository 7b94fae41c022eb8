"""How much the figures cost, against a bare ``scattergl`` figure of as many points.

For each picture: seconds to make it, kB that travel to the browser, and, where Chromium and
Playwright are installed, seconds until it is painted (and milliseconds a frame while a 3D one is
turned). Chromium draws by software here, so a reader's machine with a graphics card is faster.

Usage: ``python benchmarks/bench_figures.py [--no-browser]``; fails when a goal is missed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import plotly.graph_objects as go

from charts.grid import slice_figure
from charts.wall import wall_figure
from tests.charts.builders import bare, fleet_of, made, many

Picture = tuple[str, int, Callable[[], go.Figure]]

BUILD_SECONDS, PAYLOAD_BYTES, PAINT_SECONDS = 0.5, 500_000, 2.0


def best(work: Callable[[], go.Figure], times: int = 3) -> tuple[float, go.Figure]:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        figure = work()
        seconds.append(time.perf_counter() - started)
    return min(seconds), figure


def measure(pictures: list[Picture], page: Any) -> list[str]:
    """Print a line for each picture; gives the names of those that miss a goal."""
    missed = []
    print(f"{'picture':<36}{'build':>9}{'x bare':>8}{'payload':>10}{'x bare':>8}{'paint':>9}"
          f"{'x bare':>8}{'a frame':>10}")  # fmt: skip
    for name, points, work in pictures:
        bare_seconds, bare_figure = best(lambda points=points: bare(points))
        seconds, figure = best(work)
        size, bare_size = len(figure.to_json()), len(bare_figure.to_json())
        line = f"{name:<36}{seconds:8.3f}s{seconds / bare_seconds:8.1f}"
        line += f"{size / 1000:7.0f} kB{size / bare_size:8.1f}"
        paint_seconds = bare_paint = 0.0
        if page is not None:
            from tests.charts.painting import paint, turn

            bare_paint = min(paint(page, bare_figure) for _ in range(3))
            paint_seconds = min(paint(page, figure) for _ in range(3))
            line += f"{paint_seconds:8.2f}s{paint_seconds / bare_paint:8.1f}"
            if "3D" in name:
                line += f"{1000 * turn(page):7.0f} ms"
        print(line)
        # On a machine that is busy with something else the barest figure is slow as well.
        slow = paint_seconds > max(PAINT_SECONDS, 3 * bare_paint)
        if seconds > BUILD_SECONDS or size > PAYLOAD_BYTES or slow:
            missed.append(name)
    return missed


def main() -> int:
    part = made("v7x", "16x16x36", missing=(7, 8), dead=(900,), groups=3)
    fleet = fleet_of(part)
    walls, statuses = many(2500)
    cells = sum(len(item.hosts) for item in walls.slices)
    small = made("v6e", "4x4", missing=(1,))
    pictures: list[Picture] = [
        (
            "v6e 4x4, 16 chips",
            16,
            lambda: slice_figure(small[0], "incomplete", fleet=fleet_of(small)),
        ),
        (
            "v7x 16x16x36, 9,216 chips, layers",
            9216,
            lambda: slice_figure(part[0], "incomplete", fleet=fleet, view="layers"),
        ),
        (
            "v7x 16x16x36, 9,216 chips, 3D",
            9216,
            lambda: slice_figure(part[0], "incomplete", fleet=fleet, view="3d"),
        ),
        (
            f"wall of 2,500 slices, {cells:,} hosts",
            cells,
            lambda: wall_figure(walls, statuses),
        ),
    ]
    with ExitStack() as stack:
        page = None
        if "--no-browser" not in sys.argv and importlib.util.find_spec("playwright"):
            from tests.charts.painting import blank
            from tests.serving import browser

            page = blank(stack.enter_context(browser()))
        missed = measure(pictures, page)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"goals: build under {BUILD_SECONDS} s, payload under {PAYLOAD_BYTES // 1000} kB, paint "
        f"under {PAINT_SECONDS} s: {'missed by ' + '; '.join(missed) if missed else 'all met'}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
