"""Faults of placement groups and gangs, and what is right: reservations of whole slices."""

from __future__ import annotations

from simulator.fleet_faults import register
from simulator.fleet_model import Bundle, Cluster, Group, Slice, Worker


def _new_group(cluster: Cluster, name: str, bundles: list[Bundle], at: float) -> Group:
    group = Group(cluster, name, len(cluster.groups) + 1, bundles, at)
    cluster.groups.append(group)
    if not cluster.jobs:
        cluster.jobs.append("python train.py")
    return group


def _start(group: Group, at: float) -> None:
    group.workers = [
        Worker(index, bundle.host, bundle.host.node_id, started=at)
        for index, bundle in enumerate(group.bundles)
        if bundle.host is not None
    ]


def reserve_head(cluster: Cluster, part: Slice, at: float) -> Group:
    """The head reservation of a slice, as ``slice_placement_group`` makes it."""
    selector = {"ray.io/tpu-worker-id": "0", "ray.io/tpu-pod-type": part.shape.pod_type}
    bundle = Bundle({part.shape.head_resource: 1.0}, selector, part.hosts[0])
    return _new_group(cluster, "", [bundle], at)


def reserve(cluster: Cluster, name: str, parts: list[Slice], at: float, *, run: bool) -> Group:
    """A gang on whole slices: head reservations, the group, and its workers if it runs."""
    for part in parts:
        if part.shape.hosts > 1:
            reserve_head(cluster, part, at)
    bundles = [
        Bundle(
            {"TPU": float(part.shape.chips_per_host), "CPU": 1.0},
            {"ray.io/tpu-slice-name": part.name} if part.shape.hosts > 1 else {},
            host,
        )
        for part in parts
        for host in reversed(part.hosts)  # bundle index is not the worker id
    ]
    group = _new_group(cluster, name, bundles, at)
    if run:
        _start(group, at + 20)
    return group


def _pending(group: Group, scheduling: str, attempts: int) -> Group:
    group.state, group.scheduling, group.attempts = "PENDING", scheduling, attempts
    for bundle in group.bundles:
        bundle.host = None
    group.workers = []
    return group


def _attempts(at: float, now: float) -> int:
    """Attempts of a healthy queue, which backs off to one a second."""
    return max(1, int(now - at))


@register("slices")
def split(
    cluster: Cluster, at: float, now: float, *, slices: tuple[str, ...], name: str = "eval-split"
) -> None:
    """A plain group lies over several slices without filling each."""
    parts = [cluster.slice(item) for item in slices]
    hosts = [host for part in parts for host in part.hosts[: max(1, part.shape.hosts - 1)]]
    bundles = [Bundle({"TPU": float(host.slice.shape.chips_per_host)}, {}, host) for host in hosts]
    _start(_new_group(cluster, name, bundles, at), at + 20)


@register("slice_name")
def subset(
    cluster: Cluster,
    at: float,
    now: float,
    *,
    slice_name: str,
    hosts: int = 3,
    name: str = "notebook",
) -> None:
    """A group holds a part of a slice that is no sub-slice."""
    part = cluster.slice(slice_name)
    bundles = [
        Bundle({"TPU": float(part.shape.chips_per_host)}, {}, host)
        for host in part.hosts[1 : hosts + 1]
    ]
    _start(_new_group(cluster, name, bundles, at), at + 20)


@register("slice_name")
def squat(
    cluster: Cluster,
    at: float,
    now: float,
    *,
    slice_name: str,
    hosts: int = 2,
    waiting: str = "train-b",
) -> None:
    """Others hold hosts of a slice that a gang has reserved."""
    subset(cluster, at, now, slice_name=slice_name, hosts=hosts)
    group = reserve(cluster, waiting, [cluster.slice(slice_name)], at + 30, run=False)
    _pending(group, "NO_RESOURCES", _attempts(at + 30, now))


@register("slice_name")
def leak_head(cluster: Cluster, at: float, now: float, *, slice_name: str) -> None:
    """A head reservation outlived its use."""
    reserve_head(cluster, cluster.slice(slice_name), at)


@register("slice_name")
def all_busy(
    cluster: Cluster, at: float, now: float, *, slice_name: str, name: str = "train-c"
) -> None:
    """A gang waits for a slice, and all are held.

    slice`` gives the shape that it waits for.
    """
    shape = cluster.slice(slice_name).shape
    selector = {"ray.io/tpu-worker-id": "0", "ray.io/tpu-pod-type": shape.pod_type}
    group = _new_group(cluster, name, [Bundle({shape.head_resource: 1.0}, selector)], at)
    _pending(group, "NO_RESOURCES", _attempts(at, now))


@register("slice_name")
def slice_gone(
    cluster: Cluster, at: float, now: float, *, slice_name: str, name: str = "train-d"
) -> None:
    """A group waits for a slice that has no live host.

    slice`` gives the shape; the name asked for is one that is not there.
    """
    part = cluster.slice(slice_name)
    needs = {"TPU": float(part.shape.chips_per_host), "CPU": 1.0}
    selector = {"ray.io/tpu-slice-name": f"{part.group}-99"}
    bundles = [Bundle(dict(needs), dict(selector)) for _ in part.hosts]
    _pending(_new_group(cluster, name, bundles, at), "INFEASIBLE", _attempts(at, now))


@register()
def bundle_too_large(
    cluster: Cluster, at: float, now: float, *, chips: float = 16, name: str = "train-e"
) -> None:
    """A group asks for more chips than any host has."""
    group = _new_group(cluster, name, [Bundle({"TPU": chips})], at)
    _pending(group, "INFEASIBLE", _attempts(at, now))


@register()
def queued_behind(cluster: Cluster, at: float, now: float, *, name: str = "small-job") -> None:
    """Another group waits behind a livelock."""
    _pending(_new_group(cluster, name, [Bundle({"TPU": 4.0})], at), "QUEUED", 0)


@register("group")
def member_dead(cluster: Cluster, at: float, now: float, *, group: str, worker: int = 1) -> None:
    """A worker of a gang died while the others run."""
    found = cluster.group(group).workers[worker]
    found.state, found.death = "DEAD", "Worker unexpectedly exits with a connection error code 2."


@register("group")
def gang_incomplete(
    cluster: Cluster, at: float, now: float, *, group: str, running: int = 2
) -> None:
    """Only some of a gang's workers ever started."""
    found = cluster.group(group)
    found.workers = found.workers[:running]


@register("group")
def idle(cluster: Cluster, at: float, now: float, *, group: str) -> None:
    """A whole slice is held, and nothing runs on it."""
    cluster.group(group).workers = []


@register("group")
def stalled(cluster: Cluster, at: float, now: float, *, group: str) -> None:
    """Every worker runs, and the chips do nothing."""
    for worker in cluster.group(group).workers:
        worker.duty_cycle = 0.0
