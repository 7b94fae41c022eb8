"""``slicewatch topology``: what a slice of a shape is, from the shape's name alone."""

from __future__ import annotations

import json

import click

from cli.terminal import InputError, style
from fleet.topology import Topology, TopologyError, parse_topology

_AXES = "xyz"


@click.command(short_help="What a slice of a shape is: chips, hosts, wiring.")
@click.argument("generation")
@click.argument("topology")
@click.option(
    "--chips-per-host",
    type=click.IntRange(1, 8),
    help="Chips of one host, where the shape is sold on hosts of different size.",
)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
def command(generation: str, topology: str, chips_per_host: int | None, form: str) -> None:
    """Say what a TPU slice of GENERATION and TOPOLOGY is.

    GENERATION is v2, v3, v4, v5e, v5p, v6e or v7x; TOPOLOGY is chips along each axis. Nothing is
    asked of any cluster. The exit code is 2 where there is no such shape.

    \b
    Examples:
      slicewatch topology v6e 4x4
      slicewatch topology v5e 2x4 --chips-per-host 4
      slicewatch topology v5p 4x4x8 --format json
    """
    try:
        shape = parse_topology(generation, topology, chips_per_host)
    except TopologyError as error:
        near = f"; nearest: {', '.join(error.nearest)}" if error.nearest else ""
        raise InputError(f"{error}{near}") from None
    if form == "json":
        click.echo(json.dumps(as_json(shape), indent=2))
        return
    for label, value in as_rows(shape):
        click.echo(f"{style(f'{label:<15}', bold=True)} {value}")


def as_json(shape: Topology) -> dict[str, object]:
    """The shape in the fields of the contract."""
    return {
        "generation": shape.generation,
        "topology": shape.name,
        "chips": shape.chips,
        "hosts": shape.hosts,
        "chips_per_host": shape.chips_per_host,
        "host_bounds": list(shape.host_bounds),
        "wrap": list(shape.wrap),
        "pod_type": shape.pod_type,
        "accelerator": shape.accelerator,
        "verified": shape.verified,
    }


def as_rows(shape: Topology) -> list[tuple[str, str]]:
    """The shape as labelled lines for people."""
    rings = [axis for axis, closed in zip(_AXES, shape.wrap, strict=True) if closed]
    bounds = " × ".join(map(str, shape.host_bounds))
    rows = [
        ("slice", f"{shape.generation} {shape.name}"),
        ("chips", f"{shape.chips:,}"),
        ("hosts", f"{shape.hosts:,}, {shape.chips_per_host} chips each"),
        ("host grid", f"{bounds} (x, y, z)"),
        ("ICI rings", f"along {', '.join(rings)}" if rings else "none: every axis ends open"),
        ("pod type", f"{shape.pod_type} (Ray), head resource TPU-{shape.pod_type}-head"),
        ("accelerator", shape.accelerator or "none on GKE"),
    ]
    if not shape.verified:
        rows.append(("note", "well-formed, but no source lists this shape on such hosts"))
    if shape.ambiguous:
        rows.append(("note", "sold on hosts of different size: see --chips-per-host"))
    return rows
