"""The demo: a real local Ray cluster, a Kubernetes API that mirrors it, and work running on it.

:func:`start` brings everything up and answers with what a server needs to look at it; with
``hosts`` it is an invented fleet of that size behind the same two APIs, without Ray. :func:`run` is
the whole of it for a command line: start, say what to type, serve, tidy up.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.control import Control

Progress = Callable[[str], None]

GANG = "train-a"
NAMESPACE, CLUSTER = "ml", "train"

SETTINGS: dict[str, float] = {
    "poll_interval": 3.0,
    "placement_pending": 10.0,
    "head_leak": 10.0,
    "blip": 5.0,
}
"""Settings for a demo that shows things while one looks. A real head deserves 10 s between polls,
and what waits for two minutes in earnest waits for ten seconds here."""


@dataclass
class Demo:
    """A running demo.

    ``settings`` are keyword arguments for ``settings.Settings``; ``commands`` are lines to paste.
    """

    control: Control
    kubeconfig: Path
    ray_address: str
    settings: dict[str, object]
    commands: tuple[str, ...]
    _stack: ExitStack

    def stop(self) -> None:
        """End every process and thread of the demo. Safe to call twice."""
        self._stack.close()

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(hosts: int | None = None, *, progress: Progress = lambda _: None, seed: int = 1) -> Demo:
    """Start the demo; on any failure (Ctrl-C too) what was started is ended again.

    Raises :class:`simulator.child.ChildError` when Ray does not come up.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slicewatch-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if hosts is None:
            demo = _start_real(stack, folder, progress)
        else:
            demo = _start_invented(stack, folder, hosts, seed, progress)
        demo._stack = stack.pop_all()
    return demo


def run(
    hosts: int | None = None,
    *,
    serve: Callable[[Demo], None],
    say: Progress,
    seed: int = 1,
) -> None:
    """Start the demo, say where it is, and ``serve`` until that returns; then tidy up."""
    began = time.monotonic()

    def progress(text: str) -> None:
        say(f"  {time.monotonic() - began:5.1f} s  {text}")

    # A terminal that is closed and a plain kill tidy up as Ctrl-C does.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda got, _: sys.exit(128 + got))
    what = "a local Ray cluster with TPU-labelled hosts" if hosts is None else "an invented fleet"
    say(f"Starting {what} …")
    demo = start(hosts, progress=progress, seed=seed)
    try:
        say("\nThe commands that Slicewatch suggests work in another terminal, and these as well:")
        for command in demo.commands:
            say(f"  {command}")
        say("")
        serve(demo)
    finally:
        say("Ending the demo …")
        demo.stop()


def _start_real(stack: ExitStack, folder: Path, progress: Progress) -> Demo:
    from simulator.child import Child
    from simulator.control import DemoControl
    from simulator.kube_api import KubeAPI
    from simulator.mirror import Mirror
    from simulator.ray_cluster import LocalRay
    from simulator.ray_keeper import RAY_ENV

    kube = KubeAPI().start()
    stack.callback(kube.stop)
    ray = LocalRay()
    mirror = Mirror(ray, kube, namespace=NAMESPACE, name=CLUSTER)
    stack.callback(ray.stop)
    head = ray.start(mirror.pod_name, head_pod=mirror.head_name, progress=progress)
    mirror.start()
    stack.callback(mirror.stop)
    progress(f"starting a training gang, {GANG}")
    driver = Child(
        "simulator.workload", ["--address", head.gcs], log=folder / "driver.log", env=RAY_ENV
    )
    stack.callback(driver.stop)
    first, free, other = ray.slices[0], ray.slices[1], ray.slices[2]
    answer = driver.ask(
        "train", timeout=120, name=GANG, generation=first.generation, topology=first.topology
    )
    names = [first.name, free.name]
    gang_slice = answer["slice"]
    control = DemoControl(
        mirror,
        driver,
        gang=GANG,
        gang_slice=gang_slice,
        free_slice=next(name for name in names if name != gang_slice),
        other_slice=other.name,
    )
    stack.callback(control.stop)
    progress(f"{GANG} runs on {gang_slice}")
    kubeconfig = kube.write_kubeconfig(folder / "kubeconfig", context="slicewatch-demo")
    return _demo(control, kubeconfig, head.dashboard)


def _demo(control: Control, kubeconfig: Path, ray_address: str) -> Demo:
    return Demo(
        control=control,
        kubeconfig=kubeconfig,
        ray_address=ray_address,
        settings={
            "kubernetes": "on",
            "kubeconfig": kubeconfig,
            "kube_context": None,
            "namespaces": (),
            "ray_addresses": (),
            "bundle": None,
            "demo": True,
            **SETTINGS,
        },
        commands=(
            f"export KUBECONFIG={kubeconfig}",
            "kubectl get pods -A -o wide",
            f"ray list nodes --address {ray_address}",
        ),
        _stack=ExitStack(),
    )


def _start_invented(
    stack: ExitStack, folder: Path, hosts: int, seed: int, progress: Progress
) -> Demo:
    from simulator.fleet_server import FleetServer

    progress(f"inventing {hosts} hosts")
    server = FleetServer.of_hosts(hosts, seed=seed)
    stack.callback(server.stop)
    server.start()
    progress(f"{server.describe()} behind a Kubernetes API and {server.ray_count} Ray APIs")
    kubeconfig = server.kube.write_kubeconfig(folder / "kubeconfig", context="slicewatch-demo")
    return _demo(server, kubeconfig, server.ray_address)
