"""Where a slice's tiles lie on a flat sheet: side by side layers, one a z, sized to fit a page.

Units are the sheet's own (a chip is ten apart from the next); ``scale`` turns them into pixels.
Markers have a size in pixels, not in units, so a figure has to know its scale when it is made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from charts.hosts import HostView, Plan
from fleet.topology import Coord

PITCH = 10.0
PAD = 2.0
GAP = 4.0
EDGE = (3.0, 7.0)
"""Free space around a layer: without and with the ends of wrap-around links."""
STUB = 4.0
MOST_SCALE = 4.4
"""Pixels a unit at most: a chip is then 30 px wide, and 4 chips do not fill a screen."""
LABEL_PIXELS = 30.0
"""A tile narrower than this has no room for a worker id."""
HEADER_PIXELS = 17.0
TITLE_PIXELS = 17.0


class Sheet(NamedTuple):
    """The arithmetic of one layout; all lengths in units but ``scale`` (pixels a unit).

    ``header`` is the strip of a tile that holds its worker id, ``title`` the one above a layer.
    """

    bounds: Coord
    block: Coord
    columns: int
    header: float
    title: float
    edge: float
    scale: float = 1.0
    spare_rows: int = 0

    @property
    def tile(self) -> tuple[float, float]:
        """Width and height of one host's tile."""
        return (
            self.block[0] * PITCH + 2 * PAD,
            self.block[1] * self.block[2] * PITCH + 2 * PAD + self.header,
        )

    @property
    def layer(self) -> tuple[float, float]:
        """Distance from one layer to the next."""
        width, height = self.tile
        return (
            self.bounds[0] * (width + GAP) - GAP + 2 * self.edge,
            self.bounds[1] * (height + GAP) - GAP + 2 * self.edge + self.title,
        )

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of everything, the spare rows included."""
        rows = math.ceil(self.bounds[2] / self.columns)
        width, height = self.layer
        spare = self.spare_rows * (self.tile[1] + GAP) + self.spare_title * bool(self.spare_rows)
        return (self.columns * width, rows * height + spare)

    @property
    def spare_title(self) -> float:
        """Height of the line above the tiles without a place."""
        return math.ceil(TITLE_PIXELS / self.scale)

    @property
    def spare_columns(self) -> int:
        """How many spare tiles stand in one row."""
        return max(1, int((self.columns * self.layer[0] - self.edge) / (self.tile[0] + GAP)))

    def layer_origin(self, z: int) -> tuple[float, float]:
        """The upper left corner of a layer's first tile."""
        row, column = divmod(z, self.columns)
        width, height = self.layer
        return (column * width + self.edge, row * height + self.edge + self.title)

    def tile_origin(self, place: Coord) -> tuple[float, float]:
        """The upper left corner of the tile of the host at ``place``."""
        x0, y0 = self.layer_origin(place[2])
        width, height = self.tile
        return (x0 + place[0] * (width + GAP), y0 + place[1] * (height + GAP))

    def spare_origin(self, at: int) -> tuple[float, float]:
        """The upper left corner of the ``at``-th tile without a place, below all layers."""
        row, column = divmod(at, self.spare_columns)
        width, height = self.tile
        top = math.ceil(self.bounds[2] / self.columns) * self.layer[1] + self.spare_title
        return (self.edge + column * (width + GAP), top + row * (height + GAP))

    def chip_offsets(self) -> list[tuple[float, float]]:
        """Centres of a host's chips from its tile's corner; several z lie below each other."""
        cx, cy, cz = self.block
        return [
            (PAD + PITCH * (x + 0.5), self.header + PAD + PITCH * (z * cy + y + 0.5))
            for z in range(cz)
            for y in range(cy)
            for x in range(cx)
        ]

    def chip(self, chip: Coord) -> tuple[float, float]:
        """The centre of a chip given in the slice's chip coordinates."""
        cx, cy, cz = self.block
        x0, y0 = self.tile_origin((chip[0] // cx, chip[1] // cy, chip[2] // cz))
        row = (chip[2] % cz) * cy + chip[1] % cy
        return (
            x0 + PAD + PITCH * (chip[0] % cx + 0.5),
            y0 + self.header + PAD + PITCH * (row + 0.5),
        )


def lay_out(plan: Plan, width: float, height: float) -> Sheet:
    """The sheet with the largest tiles that fits into ``width`` by ``height`` pixels.

    Long slices get as many layers a row as that takes. Room for worker ids is kept only where a
    tile is wide enough to read one.
    """
    wrap = plan.topology.wrap if plan.topology is not None else (False, False, False)
    edge = EDGE[wrap[0] or wrap[1] or plan.bounds[2] > 1]

    def best(header: float, title: float) -> Sheet:
        found: Sheet | None = None
        for columns in range(1, plan.bounds[2] + 1):
            draft = Sheet(plan.bounds, plan.block, columns, header, title, edge)
            draft = draft._replace(spare_rows=math.ceil(len(plan.spare) / draft.spare_columns))
            across, down = draft.size
            draft = draft._replace(scale=min(width / across, height / down, MOST_SCALE))
            if found is None or draft.scale > found.scale + 1e-9:
                found = draft
        return found or Sheet(plan.bounds, plan.block, 1, header, title, edge)

    # Strips of text have a height in pixels, but the scale is known only once they are laid out:
    # guess, look, correct.
    layers = plan.bounds[2] > 1
    sheet = best(6.0, 8.0 * layers)
    for _ in range(2):
        labelled = sheet.scale * sheet.tile[0] >= LABEL_PIXELS
        header = math.ceil(HEADER_PIXELS / sheet.scale) if labelled else 0
        sheet = best(float(header), math.ceil(TITLE_PIXELS / sheet.scale) * float(layers))
    return sheet


def corners(sheet: Sheet, plan: Plan) -> list[tuple[HostView, float, float]]:
    """Every tile with its upper left corner, places first, then what has none."""
    return [(view, *sheet.tile_origin(view.place)) for view in plan.tiles] + [
        (view, *sheet.spare_origin(at)) for at, view in enumerate(plan.spare)
    ]
