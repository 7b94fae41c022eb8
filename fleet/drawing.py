"""A slice's host grid as text for a terminal."""

from __future__ import annotations

from fleet.places import worker_id_at
from fleet.topology_shape import Topology

_ASCII = str.maketrans("┌┬┐├┼┤└┴┘│─▪…×→↓", "+++++++++|-o.x>v")


def draw(
    topology: Topology, *, width: int = 100, height: int = 40, ascii_only: bool = False
) -> str:
    """The hosts with their worker ids in the assumed layout, x to the right and y down.

    A 2D slice shows its chips as long as it fits into ``width`` columns; a 3D slice is a row of
    layers, one a z, as many as fit into ``width`` by ``height``, and says how many it left out.
    """
    layers = [_layer(topology, z, chips=False) for z in range(min(topology.host_bounds[2], 64))]
    if topology.host_bounds[2] == 1:
        detailed = _layer(topology, 0, chips=True)
        text = "\n".join(detailed if len(detailed[0]) <= width else layers[0])
    else:
        text = _side_by_side(topology, layers, width, height)
    lines = [line.rstrip() for line in text.splitlines()]
    result = "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines)
    return result.translate(_ASCII) if ascii_only else result


def _layer(topology: Topology, z: int, *, chips: bool) -> list[str]:
    bx, by, _ = topology.host_bounds
    cx, cy, _ = topology.chips_per_host_bounds
    digits = len(str(topology.hosts - 1))
    inner = digits + (2 * cx if chips else 0)

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join(["─" * (inner + 2)] * bx) + right

    lines = [rule("┌", "┬", "┐")]
    for y in range(by):
        if y:
            lines.append(rule("├", "┼", "┤"))
        for row in range(cy if chips else 1):
            cells = []
            for x in range(bx):
                name = str(worker_id_at(topology, (x, y, z))) if row == 0 else ""
                cells.append(f" {name:>{digits}}{' ▪' * cx if chips else ''} ")
            lines.append("│" + "│".join(cells) + "│")
    lines.append(rule("└", "┴", "┘"))
    return lines


def _side_by_side(topology: Topology, layers: list[list[str]], width: int, height: int) -> str:
    total = topology.host_bounds[2]
    size = max(len(layers[0][0]), len(f"z={total - 1}"))
    each_row = max(1, (width + 2) // (size + 2))
    rows = max(1, height // (len(layers[0]) + 2))
    shown = layers[: each_row * rows]
    blocks = []
    for start in range(0, len(shown), each_row):
        group = shown[start : start + each_row]
        head = "  ".join(f"{f'z={start + i}':<{size}}" for i in range(len(group)))
        blocks.append(
            "\n".join(
                [
                    head,
                    *(
                        "  ".join(f"{part:<{size}}" for part in row)
                        for row in zip(*group, strict=True)
                    ),
                ]
            )
        )
    text = "\n\n".join(blocks)
    left_out = total - len(shown)
    if left_out:
        per_layer = topology.hosts // total
        text += f"\n… {left_out} more layers like these, {per_layer} worker ids each"
    return text
