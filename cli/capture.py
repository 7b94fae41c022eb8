"""``slicewatch capture``: write what the APIs say to a bundle, to send or to keep."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from cli.looks import live_runtime
from cli.options import Command, read_settings, with_settings
from cli.terminal import InputError, progress, say


@with_settings("Where to look", "Pace", without=("bundle",))
@click.command(cls=Command, short_help="Write what the APIs say to a bundle.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--frames",
    type=click.IntRange(1, 1000),
    default=1,
    help="How many looks to take; several show what changes (a livelock, a stall). [1]",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=1.0),
    default=10.0,
    metavar="SECONDS",
    help="Seconds between two looks. [10]",
)
@click.option("--force", is_flag=True, help="Write over PATH when it is there already.")
def command(path: Path, frames: int, interval: float, force: bool, **given: Any) -> int:
    """Write what Kubernetes and Ray say to PATH: a folder, a .tar.gz or a .zip by its name.

    What no rule reads stays out: environment values other than the TPU, MEGASCALE and RAY ones,
    annotations, managed fields, secrets. Look at it with "slicewatch diagnose --bundle PATH".

    The exit code is 0 when everything was captured, 1 when a source is missing or incomplete (the
    bundle says so too), and 2 when nothing could be read or written.

    \b
    Examples:
      slicewatch capture incident.tar.gz
      slicewatch capture incident.tar.gz --frames 6 --interval 10
      slicewatch capture now/ --kube-context prod --namespace ml
    """
    from collectors.bundle import BundleError, write_bundle

    if path.exists() and not force:
        raise InputError(f"{path} is there already; --force writes over it")
    runtime = live_runtime(read_settings(given))
    looks = []
    for number in range(frames):
        if number:
            time.sleep(interval)
        with progress(f"Look {number + 1} of {frames}"):
            looks.append(runtime.look_once())
        if frames > 1:
            say(f"look {number + 1} of {frames} taken")
    try:
        write_bundle(path, looks)
    except (BundleError, OSError) as error:
        raise InputError(f"cannot write {path}: {error}") from None
    sources = [
        source.source
        for source in ([looks[-1].kubernetes] if looks[-1].kubernetes else []) + list(looks[-1].ray)
    ]
    bad = [item for item in sources if item.status == "down" or not item.complete]
    for item in bad:
        say(f"{item.name} is {item.status}: {item.detail or 'incomplete'}")
    click.echo(str(path))
    return 1 if bad or not sources else 0
