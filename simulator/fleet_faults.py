"""Faults of invented fleets, by name: each a function that changes one cluster's data.

``at`` is when it happened and ``now`` when it is looked at (epoch seconds). The consequences that a
real cluster shows are written too: a group that lost a host reschedules, its actor there is dead,
the others stay alive, and everybody else in the queue waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulator.fleet_model import Cluster, Host

LIVELOCK_RATE = 300_000
"""Attempts a second at which Ray 2.60 retries a group with slice selectors that lost a host."""

Change = Callable[..., None]


@dataclass(frozen=True)
class Fault:
    """A kind of fault. ``needs``: what it has to be told (``slice_name``, …)."""

    name: str
    text: str
    change: Change
    needs: tuple[str, ...]


FAULTS: dict[str, Fault] = {}


def register(*needs: str) -> Callable[[Change], Change]:
    """Make a function a fault of its own name; its docstring's first line says what happens."""

    def add(change: Change) -> Change:
        name = change.__name__
        FAULTS[name] = Fault(name, (change.__doc__ or "").splitlines()[0], change, needs)
        return change

    return add


# --- hosts ------------------------------------------------------------------------------------


def lose(cluster: Cluster, host: Host, at: float, now: float) -> None:
    """The raylet of a host dies; whatever held it notices, the rest waits."""
    host.ray, host.died, host.since = "dead", at, at
    for group in cluster.groups:
        hit = [index for index, bundle in enumerate(group.bundles) if bundle.host is host]
        if not hit or group.state != "CREATED" or group.is_head:
            continue
        group.state = "RESCHEDULING"
        selected = any(bundle.selector for bundle in group.bundles)
        group.scheduling = "FAILED_TO_COMMIT_RESOURCES" if selected else "NO_RESOURCES"
        group.attempts = int((now - at) * LIVELOCK_RATE) + 1000 if selected else 20
        for index in hit:
            group.bundles[index].host, group.bundles[index].node_id = None, None
        for worker in group.workers:
            if worker.host is host:
                worker.state = "DEAD"
                worker.death = "The actor died because its node has died."


def _worker(cluster: Cluster, slice_name: str, worker: int) -> Host:
    return cluster.slice(slice_name).hosts[worker]


@register("slice_name", "worker")
def raylet_dead(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The raylet dies, the pod stays up."""
    lose(cluster, _worker(cluster, slice_name, worker), at, now)


@register("slice_name", "worker")
def machine_lost(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The machine dies: node NotReady, pod not ready."""
    host = _worker(cluster, slice_name, worker)
    lose(cluster, host, at, now)
    host.node, host.pod = "lost", "not_ready"


@register("slice_name", "worker")
def node_gone(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The node object is gone, the pod still points at it."""
    host = _worker(cluster, slice_name, worker)
    lose(cluster, host, at, now)
    host.node, host.pod = "gone", "not_ready"


@register("slice_name", "worker")
def crash_loop(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The container fails at each start."""
    host = _worker(cluster, slice_name, worker)
    lose(cluster, host, at, now)
    host.pod, host.restarts = "crash_loop", 7


@register("slice_name", "worker")
def pod_failed(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The pod was evicted."""
    host = _worker(cluster, slice_name, worker)
    lose(cluster, host, at, now)
    host.pod = "failed"


@register("slice_name", "worker")
def container_ended(
    cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int
) -> None:
    """The container has ended and is not back."""
    host = _worker(cluster, slice_name, worker)
    lose(cluster, host, at, now)
    host.pod = "terminated"


@register("slice_name", "worker")
def pod_missing(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The pod is gone and no other came."""
    host = _worker(cluster, slice_name, worker)
    lose(cluster, host, at, now)
    host.pod, host.node = None, "gone"


@register("slice_name", "worker")
def never_joined(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """The pod runs, and its Ray node never joined."""
    host = _worker(cluster, slice_name, worker)
    host.ray, host.started, host.since = "absent", at, at


@register("slice_name")
def unschedulable(cluster: Cluster, at: float, now: float, *, slice_name: str) -> None:
    """The slice's pods find no machines."""
    for host in cluster.slice(slice_name).hosts:
        host.pod, host.ray, host.node = "unschedulable", "absent", "gone"
        host.started = host.since = at


@register("slice_name")
def no_capacity(cluster: Cluster, at: float, now: float, *, slice_name: str) -> None:
    """The cloud has no capacity for the slice."""
    unschedulable(cluster, at, now, slice_name=slice_name)
    for host in cluster.slice(slice_name).hosts:
        host.scale_up_failed = True


@register("slice_name")
def forming(cluster: Cluster, at: float, now: float, *, slice_name: str, there: int = 1) -> None:
    """The slice has just been asked for; some hosts are there."""
    for host in cluster.slice(slice_name).hosts:
        host.started = host.since = at
        if host.index >= there:
            host.pod, host.ray = "starting", "absent"


@register("slice_name", "worker")
def restarted(cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int) -> None:
    """One host was replaced; its peers are older."""
    host = _worker(cluster, slice_name, worker)
    host.history.append((host.started, at - 60))
    host.started = host.since = at
    host.attempt += 1


# --- identity ---------------------------------------------------------------------------------


@register("slice_name", "worker")
def duplicate_worker_id(
    cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int
) -> None:
    """Two hosts claim the same worker id."""
    host = _worker(cluster, slice_name, worker)
    host.worker_id = worker - 1 if worker else 1


@register("slice_name")
def webhook_bypassed(cluster: Cluster, at: float, now: float, *, slice_name: str) -> None:
    """The webhook did not see the slice's pods."""
    for host in cluster.slice(slice_name).hosts:
        host.marked = False


@register("slice_name", "worker")
def spans_node_pools(
    cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int
) -> None:
    """One host sits on another node pool."""
    _worker(cluster, slice_name, worker).pool = "some-other-pool"


@register("slice_name", "worker")
def chip_count(
    cluster: Cluster, at: float, now: float, *, slice_name: str, worker: int, tpus: float = 3
) -> None:
    """A host offers fewer chips than its machine has."""
    _worker(cluster, slice_name, worker).tpus = tpus


@register()
def no_headless_service(cluster: Cluster, at: float, now: float) -> None:
    """The hosts' headless Service is missing."""
    cluster.without_service = True


@register("slice_name")
def host_count(cluster: Cluster, at: float, now: float, *, slice_name: str, hosts: int = 3) -> None:
    """NumOfHosts does not fit the topology."""
    cluster.wrong_num_of_hosts[cluster.slice(slice_name).group] = hosts


def apply(cluster: Cluster, kind: str, at: float, now: float, where: dict[str, Any]) -> None:
    """Make a fault; raises ``KeyError`` for an unknown kind, slice or group."""
    from simulator import fleet_group_faults  # noqa: F401 - registers the rest

    FAULTS[kind].change(cluster, at, now, **where)
