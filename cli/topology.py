"""``slicewatch topology``: what a slice of a shape is, from the shape's name alone."""

from __future__ import annotations

import json
import shutil
import sys

import click

from cli.terminal import InputError
from fleet.describe import describe, describe_text
from fleet.topology import TopologyError, parse_topology


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
    """Say what a TPU slice of GENERATION and TOPOLOGY is, how to ask for one, and draw it.

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
        click.echo(json.dumps(describe(shape), indent=2))
        return
    width = shutil.get_terminal_size().columns
    click.echo(describe_text(shape, width=width, ascii_only=not _speaks_unicode()), nl=False)


def _speaks_unicode() -> bool:
    """Whether what reads standard output can take the lines that a drawing is made of."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return encoding.lower().replace("-", "").startswith("utf")
