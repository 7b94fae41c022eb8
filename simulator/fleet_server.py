"""An invented fleet behind a Kubernetes API and a Ray API a cluster, with faults to switch.

Faults are kept as a list, and the fleet is made anew from its seed when the list changes: so a
mended fleet is exactly the one that it was, and ``kubectl get -w`` sees only what differs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from simulator import fleet_rows
from simulator.control import FaultView
from simulator.fleet import FleetBuilder
from simulator.fleet_faults import apply
from simulator.fleet_kube import kubernetes_objects
from simulator.fleet_model import Cluster, InventedFleet, Slice
from simulator.kube_api import KubeAPI
from simulator.ray_api import RayAPI, Rows

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Fault:
    view: FaultView
    kind: str
    cluster: str
    where: dict[str, Any]


class FleetServer:
    """Serves a fleet that ``make`` builds. It is also the demo's control. Thread-safe."""

    def __init__(self, make: Callable[[], InventedFleet]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._active: dict[str, float] = {}
        self._busy: set[str] = set()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fleet")
        self.fleet = make()
        self.kube = KubeAPI()
        self._rows: dict[str, Rows] = {}
        self.ray = {
            cluster.key: self._ray_api(cluster.key)
            for cluster in self.fleet.clusters
            if not cluster.suspended
        }
        self._faults = {fault.view.key: fault for fault in _choose(self.fleet)}
        self._publish(self.fleet)

    @classmethod
    def of_hosts(cls, hosts: int, *, seed: int = 1, now: float | None = None) -> FleetServer:
        """A fleet of ``hosts`` invented hosts, as of ``now``."""
        at = time.time() if now is None else now
        return cls(lambda: FleetBuilder(seed, at).fill(hosts).build())

    def start(self) -> FleetServer:
        """Start all servers."""
        self.kube.start()
        for key, api in self.ray.items():
            api.start()
            namespace, name = key.split("/", 1)
            self.kube.proxies[(namespace, f"{name}-head-svc")] = api.url
        return self

    def stop(self) -> None:
        """Stop all servers. Safe to call twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.kube.stop()
        for api in self.ray.values():
            api.stop()

    def __enter__(self) -> FleetServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ray_count(self) -> int:
        return len(self.ray)

    @property
    def ray_address(self) -> str:
        """The address of the first cluster's dashboard."""
        return next(iter(self.ray.values())).url

    def describe(self) -> str:
        """``1,000 hosts in 143 slices``."""
        slices = sum(len(cluster.slices) for cluster in self.fleet.clusters)
        return f"{len(self.fleet.hosts):,} hosts in {slices:,} slices"

    # --- faults ----------------------------------------------------------------------------

    def faults(self) -> list[FaultView]:
        """The faults that can be made in this fleet, and which are on."""
        with self._lock:
            return [
                replace(view, active=view.key in self._active, busy=view.key in self._busy)
                for view in (fault.view for fault in self._faults.values())
            ]

    def inject(self, key: str) -> None:
        """Begin to make a fault; nothing happens when it is there."""
        self._begin(key, wanted=True)

    def mend(self, key: str) -> None:
        """Begin to mend a fault; nothing happens when it is not there."""
        self._begin(key, wanted=False)

    def _begin(self, key: str, *, wanted: bool) -> None:
        with self._lock:
            if key not in self._faults or key in self._busy or (key in self._active) is wanted:
                return
            self._busy.add(key)
        self._pool.submit(self._switch, key, wanted)

    def _switch(self, key: str, wanted: bool) -> None:
        with self._lock:
            active = {name: at for name, at in self._active.items() if name != key}
        if wanted:
            active[key] = time.time()
        try:
            fleet = self._make()
            now = time.time()
            for name, at in active.items():
                fault = self._faults[name]
                apply(fleet.cluster(fault.cluster), fault.kind, at, now, fault.where)
            self._publish(fleet)
            self._active = active
        except Exception:
            log.exception("fault %s", key)
        finally:
            with self._lock:
                self._busy.discard(key)

    def _publish(self, fleet: InventedFleet) -> None:
        self._rows = {
            cluster.key: fleet_rows.rows(cluster)
            for cluster in fleet.clusters
            if not cluster.suspended
        }
        self.fleet = fleet
        self.kube.store.replace_all(kubernetes_objects(fleet))

    def _ray_api(self, key: str) -> RayAPI:
        return RayAPI(
            lambda: self._rows[key],
            status=lambda: fleet_rows.cluster_status(self.fleet.cluster(key)),
            metrics=lambda: fleet_rows.tpu_metrics(self.fleet.cluster(key)),
            version=self.fleet.cluster(key).version,
        )


def _choose(fleet: InventedFleet) -> list[_Fault]:
    """Faults that fit what is there: a gang to hurt, free slices to misuse."""
    found: list[_Fault] = []

    def add(key: str, label: str, text: str, kind: str, part: Slice, **where: Any) -> None:
        found.append(_Fault(FaultView(key, label, text), kind, part.cluster.key, where))

    running = next(filter(None, map(_running_slice, fleet.clusters)), None)
    if running is not None:
        add(
            "stop_host",
            "Stop a host",
            f"The machine of worker 1 of {running.id} dies under a gang.",
            "machine_lost",
            running,
            slice_name=running.name,
            worker=1,
        )
    free = max((_free_slices(cluster) for cluster in fleet.clusters), key=len, default=[])
    if len(free) >= 2:
        add(
            "split_group",
            "Make a split group",
            f"A plain placement group lies over {free[0].id} and {free[1].name}.",
            "split",
            free[0],
            slices=(free[0].name, free[1].name),
        )
    if free and free[0].shape.hosts > 2:
        add(
            "squat",
            "Squat on a slice",
            f"A notebook holds two hosts of {free[0].id}, which train-b has reserved.",
            "squat",
            free[0],
            slice_name=free[0].name,
        )
    if free:
        last = free[-1]
        add(
            "leak_head",
            "Leak a head reservation",
            f"The head of {last.id} is reserved and never used.",
            "leak_head",
            last,
            slice_name=last.name,
        )
        add(
            "stall_pod",
            "Stall a pod",
            f"The container of worker 1 of {last.id} fails at each start.",
            "crash_loop",
            last,
            slice_name=last.name,
            worker=1,
        )
        add(
            "no_capacity",
            "Take a slice away",
            f"The cloud has no capacity for {free[0].id}.",
            "no_capacity",
            free[0],
            slice_name=free[0].name,
        )
    return found


def _free_slices(cluster: Cluster) -> list[Slice]:
    """Free slices of several hosts, the largest first."""
    free = [part for part in cluster.free_slices() if part.shape.hosts > 1]
    return sorted(free, key=lambda part: -part.shape.hosts)


def _running_slice(cluster: Cluster) -> Slice | None:
    for group in cluster.groups:
        for worker in group.workers:
            if worker.host.slice.shape.hosts > 1:
                return worker.host.slice
    return None
