"""``slicewatch capture``: write what the APIs say to a bundle, to send or to keep."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from cli.looks import observe, require_an_answer, sources_of
from cli.options import Command, read_settings, with_settings
from cli.terminal import InputError, clean, progress, say
from exporter.words import source_sentence


@with_settings("Where to look", "Pace", without=("bundle", "poll_interval"))
@click.command(cls=Command, short_help="Write what the APIs say to a bundle.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--frames",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    help="How many looks to take; several show what changes (a livelock, a stall). [1]",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=1.0, max=3600.0),
    default=10.0,
    metavar="SECONDS",
    help="Seconds between two looks. [10]",
)
def command(path: Path, frames: int, interval: float, **given: Any) -> None:
    """Write what Kubernetes and Ray say to PATH: a folder, a .tar.gz or a .zip by its name.

    What no rule reads stays out: environment values other than the TPU, MEGASCALE and RAY ones,
    annotations, managed fields, secrets. Look at it with "slicewatch diagnose --bundle PATH".

    A source that is down or incomplete is named on standard error, and the bundle says so too.
    The exit code is 2 when nothing at all could be read, or the bundle cannot be written.

    \b
    Examples:
      slicewatch capture incident.tar.gz
      slicewatch capture incident.tar.gz --frames 6 --interval 10
      slicewatch capture now/ --kube-context prod --namespace ml
    """
    from collectors.archive import BundleError
    from collectors.bundle_writing import BundleWriter

    settings = read_settings(given)
    look = None
    try:
        with BundleWriter(path, frames=frames) as bundle:
            for number in range(frames):
                if number:
                    time.sleep(interval)
                with progress(f"Look {number + 1} of {frames}") as note:
                    look = observe(settings, note)
                    if number == 0:
                        require_an_answer(look)
                    bundle.add(look)
                if frames > 1:
                    say(f"look {number + 1} of {frames} taken")
    except BundleError as error:
        raise InputError(str(error)) from None
    for source in sources_of(look) if look is not None else ():
        if source.status in ("down", "degraded") or not source.complete:
            say(clean(f"{source.name} is {source_sentence(source)}"))
    click.echo(str(path))
