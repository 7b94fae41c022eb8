"""``slicewatch capture``: write what the APIs say to a bundle, to send or to keep."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from cli.looks import live_runtime
from cli.options import Command, read_settings, with_settings
from cli.terminal import InputError, clean, progress, say
from exporter.words import source_sentence
from fleet.observation import Observation, SourceStatus


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
def command(path: Path, frames: int, interval: float, force: bool, **given: Any) -> None:
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
    bad = [source for source in sources_of(looks[-1]) if source.status == "down"]
    if len(bad) == len(sources_of(looks[-1])):
        reasons = "; ".join(f"{source.name}: {source.detail}" for source in bad)
        raise InputError(f"nothing could be read: {reasons or 'no source was found'}")
    try:
        write_bundle(path, looks)
    except (BundleError, OSError) as error:
        raise InputError(f"cannot write {path}: {error}") from None
    for source in sources_of(looks[-1]):
        if source.status == "down" or not source.complete:
            say(clean(f"{source.name} is {source_sentence(source)}"))
    click.echo(str(path))


def sources_of(look: Observation) -> list[SourceStatus]:
    """The sources that one look asked."""
    kubernetes = [look.kubernetes.source] if look.kubernetes is not None else []
    return kubernetes + [ray.source for ray in look.ray]
