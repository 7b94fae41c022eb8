"""``slicewatch demo``: a local Ray cluster with TPU-labelled hosts, and the dashboard on it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import launch
from cli.options import Command, read_settings, with_settings
from cli.terminal import InputError, say

if TYPE_CHECKING:
    from simulator.demo import Demo


@with_settings("Pace", "Serving", "Thresholds of the rules")
@click.command(cls=Command, short_help="A real local Ray cluster, and the dashboard on it.")
@click.option(
    "--hosts",
    type=click.IntRange(1, 20_000),
    metavar="N",
    help="Instead of a real Ray cluster an invented fleet of N hosts, behind the same two APIs.",
)
@click.option("--headless", is_flag=True, help="Only /metrics, health and /api: no dashboard.")
def command(hosts: int | None, headless: bool, **given: Any) -> None:
    """Try Slicewatch without a cluster.

    It starts a real local Ray cluster whose hosts carry TPU labels (no TPU is needed; about 30 s
    and 2.5 GiB of memory), a Kubernetes API that mirrors it, and a training gang on one of its
    slices. Break something on the page of that name, and see what Slicewatch says. Ctrl-C ends
    everything.

    \b
    Examples:
      slicewatch demo
      slicewatch demo --port 9000
      slicewatch demo --hosts 1000
    """
    try:
        from simulator.child import ChildError
        from simulator.demo import run
    except ModuleNotFoundError as error:
        raise InputError(
            f"the demo needs {error.name}: pip install 'slicewatch[dashboard,demo]'"
        ) from None
    # Whatever is wrong with the flags or the port is said now, not after half a minute.
    asked = read_settings(given)
    launch.check_port(asked.host, asked.port)
    launch.log_to_stderr(asked)

    def serve(demo: Demo) -> None:
        # What the demo needs wins over the environment, and a flag over both.
        chosen = {key for key, value in given.items() if value not in (None, ())}
        needed = {
            key: value for key, value in demo.settings.items() if f"setting_{key}" not in chosen
        }
        # Each demo is a cluster of its own: its history goes with it.
        with tempfile.TemporaryDirectory(prefix="slicewatch-demo-") as folder:
            needed.setdefault("history_path", Path(folder) / "history.sqlite")
            settings = read_settings(given, **needed)
            what = launch.prepare(settings, demo=demo.control)
            if headless:
                launch.serve_headless(what)
            else:
                launch.serve_dashboard(what)

    try:
        run(hosts, serve=serve, say=say)
    except ChildError as error:
        raise InputError(f"the demo could not start: {error}") from None
