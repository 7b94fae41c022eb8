"""``slicewatch serve``: collectors, dashboard, metrics and API in one process on one port."""

from __future__ import annotations

from typing import Any

import click

from cli import launch
from cli.options import Command, read_settings, with_settings


@with_settings()
@click.command(cls=Command, short_help="The dashboard, /metrics and /api on your cluster.")
@click.option("--headless", is_flag=True, help="Only /metrics, health and /api: no dashboard.")
def command(headless: bool, **given: Any) -> None:
    """Watch your clusters and show them: dashboard, /metrics and /api/v1/report on one port.

    Kubernetes is found through the current kubeconfig context, or the account of the pod it runs
    in; Ray clusters are found there. It only reads. With --bundle it shows a bundle instead.

    \b
    Examples:
      slicewatch serve
      slicewatch serve --kube-context prod --port 9000
      slicewatch serve --ray-address http://localhost:8265
      slicewatch serve --headless --host 0.0.0.0
      slicewatch serve --bundle capture.tar.gz
    """
    settings = read_settings(given)
    launch.log_to_stderr(settings)
    what = launch.prepare(settings)
    if headless:
        launch.serve_headless(what)
    else:
        launch.serve_dashboard(what)
