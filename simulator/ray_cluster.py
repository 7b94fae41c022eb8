"""A real local Ray cluster whose hosts look like TPU hosts. No TPU is needed.

Real raylets with the labels, resources and environment that a TPU host on GKE has: what Ray's own
``slice_placement_group`` does on them is what it does on hardware. They belong to a process of
their own (:mod:`simulator.ray_keeper`), so that this one neither imports Ray nor leaves anything
behind, whatever way it ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulator.child import Child, ChildError, result_of
from simulator.shapes import Shape, shape

START_SECONDS = 300.0
"""A raylet takes 3 s on an idle laptop; a busy one with a cold disk may take a minute."""

ATTEMPTS = 2
"""Ray gives its head 30 s to come up, which a machine that compiles something else may exceed."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class HostPlan:
    """One host to be: which slice, which worker, in which worker group."""

    key: str
    slice_name: str
    worker_id: int
    shape: Shape
    group: str
    replica: int

    @property
    def resources(self) -> dict[str, float]:
        """Ray's resources of such a host: chips, its slice's name, and the head on worker 0."""
        found: dict[str, float] = {"TPU": self.shape.chips_per_host, self.slice_name: 1}
        if self.worker_id == 0:
            found[self.shape.head_resource] = 1
        return found

    @property
    def labels(self) -> dict[str, str]:
        return {
            "ray.io/tpu-slice-name": self.slice_name,
            "ray.io/tpu-worker-id": str(self.worker_id),
            "ray.io/tpu-topology": self.shape.topology,
            "ray.io/tpu-pod-type": self.shape.pod_type,
            "ray.io/accelerator-type": self.shape.accelerator_type,
        }

    def env(self, pod_name: str) -> dict[str, str]:
        """What the webhook, the device plugin and KubeRay put into such a container."""
        return {
            "TPU_NAME": self.slice_name,
            "TPU_WORKER_ID": str(self.worker_id),
            "TPU_ACCELERATOR_TYPE": self.shape.env_accelerator_type,
            "TPU_TOPOLOGY": self.shape.topology,
            "RAY_CLOUD_INSTANCE_ID": pod_name,
            "RAY_NODE_TYPE_NAME": self.group,
        }


@dataclass(frozen=True)
class SlicePlan:
    """A slice to be, as a replica of a worker group."""

    generation: str
    topology: str
    replica: int = 0

    @property
    def shape(self) -> Shape:
        return shape(self.generation, self.topology)

    @property
    def group(self) -> str:
        return f"{self.generation}-group"

    @property
    def name(self) -> str:
        return f"{self.group}-{self.replica}"

    def hosts(self) -> tuple[HostPlan, ...]:
        return tuple(
            HostPlan(
                f"{self.name}-{number}", self.name, number, self.shape, self.group, self.replica
            )
            for number in range(self.shape.hosts)
        )


DEMO_SLICES = (SlicePlan("v6e", "4x4", 0), SlicePlan("v6e", "4x4", 1), SlicePlan("v5p", "2x2x2", 0))
"""Ten hosts: enough for a gang, a free slice beside it, and another generation."""


@dataclass(frozen=True)
class HostView:
    """A host's raylet: alive or not, and its Ray node id."""

    plan: HostPlan
    pod_name: str
    node_id: str | None = None
    pid: int | None = None
    alive: bool = False
    log: str = ""


@dataclass(frozen=True)
class HeadView:
    """Where the head listens: GCS (``host:port``) and dashboard (a URL)."""

    gcs: str
    dashboard: str
    node_id: str
    session: str
    pid: int


class LocalRay:
    """A local Ray cluster. Thread-safe. Use as a context manager, or call :meth:`stop`."""

    def __init__(self, slices: Iterable[SlicePlan] = DEMO_SLICES) -> None:
        self.slices = tuple(slices)
        self.plans = {host.key: host for item in self.slices for host in item.hosts()}
        self.head: HeadView | None = None
        self._hosts: dict[str, HostView] = {}
        self._lock = threading.RLock()
        self._child: Child | None = None
        self._temp_dir: Path | None = None

    # --- life ------------------------------------------------------------------------------

    def start(
        self,
        pod_names: Callable[[HostPlan], str] = lambda plan: plan.key,
        head_pod: str = "head",
        progress: Progress = lambda _: None,
        dashboard_port: int = 0,
    ) -> HeadView:
        """Start the head and all hosts; answers when the head knows all of them.

        ``pod_names`` gives each host's ``RAY_CLOUD_INSTANCE_ID``. Raises :class:`ChildError`, with
        everything ended again, when Ray does not come up.
        """
        try:
            self.head = self._start_head(head_pod, progress, dashboard_port)
            for plan in self.plans.values():
                self._hosts[plan.key] = HostView(plan, pod_names(plan))
            waiting = [(key, self._order_add(view)) for key, view in self._hosts.items()]
            for count, (key, future) in enumerate(waiting, 1):
                self._joined(key, result_of(future, START_SECONDS))
                progress(f"host {count} of {len(waiting)} joined: {key}")
        except BaseException:
            self.stop()
            raise
        return self.head

    def _start_head(self, pod: str, progress: Progress, port: int) -> HeadView:
        env = {"RAY_CLOUD_INSTANCE_ID": pod, "RAY_NODE_TYPE_NAME": "headgroup"}
        for attempt in range(ATTEMPTS):
            # A short path: Unix sockets below it may be no longer than 107 bytes in all.
            self._temp_dir = Path(tempfile.mkdtemp(prefix="slicewatch-", dir="/tmp"))
            log = self._temp_dir / "keeper.log"
            self._child = Child("simulator.ray_keeper", [str(self._temp_dir)], log=log)
            progress("starting the Ray head" if attempt == 0 else "the head was slow; once more")
            try:
                answer = self._child.ask(
                    "head", timeout=START_SECONDS, dashboard_port=port, env=env
                )
            except ChildError:
                if attempt == ATTEMPTS - 1:
                    raise
                self.stop()
            else:
                return HeadView(**answer)
        raise AssertionError

    def stop(self) -> None:
        """End every process of the cluster. Safe to call twice, and before :meth:`start`."""
        with self._lock:
            child, self._child = self._child, None
            self.head = None
            self._hosts = {key: replace(view, alive=False) for key, view in self._hosts.items()}
        if child is not None:
            child.stop()
        if self._temp_dir is not None:
            shutil.rmtree(self._temp_dir, ignore_errors=True)

    def __enter__(self) -> LocalRay:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- hosts -----------------------------------------------------------------------------

    def hosts(self) -> dict[str, HostView]:
        """All hosts by key; ``alive`` is what the kernel says about the raylet's process."""
        with self._lock:
            for key, view in self._hosts.items():
                if view.alive and view.pid is not None and not _running(view.pid):
                    self._hosts[key] = replace(view, alive=False)
            return dict(self._hosts)

    def stop_host(self, key: str) -> None:
        """Kill one host's raylet without a goodbye, as a dying machine would."""
        self._keeper().ask("stop", timeout=START_SECONDS, host=key)
        with self._lock:
            self._hosts[key] = replace(self._hosts[key], alive=False, pid=None)

    def start_host(self, key: str, pod_name: str | None = None) -> HostView:
        """Start a stopped host again with the same slice name and worker id.

        ``pod_name`` is the new pod's name, as Kubernetes gives a new one to a replacement.
        """
        with self._lock:
            view = self._hosts[key]
        if view.alive:
            return view
        self._keeper().ask(
            "stop", timeout=START_SECONDS, host=key
        )  # forget a raylet that died by itself
        view = replace(view, pod_name=pod_name or view.pod_name)
        with self._lock:
            self._hosts[key] = view
        self._joined(key, result_of(self._order_add(view), START_SECONDS))
        return self.hosts()[key]

    # --- the keeper ------------------------------------------------------------------------

    def _keeper(self) -> Child:
        child = self._child
        if child is None:
            raise ChildError("the local Ray cluster is not running")
        return child

    def _order_add(self, view: HostView) -> Future[dict[str, Any]]:
        plan = view.plan
        return self._keeper().order(
            "add",
            host=plan.key,
            resources=plan.resources,
            labels=plan.labels,
            env=plan.env(view.pod_name),
            cpus=1,
        )

    def _joined(self, key: str, answer: dict[str, Any]) -> None:
        with self._lock:
            self._hosts[key] = replace(self._hosts[key], alive=True, **answer)


def _running(pid: int) -> bool:
    """Whether a process is there and no zombie (Linux's /proc; elsewhere a signal of 0)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
