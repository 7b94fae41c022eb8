"""Placement groups: split, in part, waiting for each cause, lost, livelocked, leaked."""

from __future__ import annotations

from typing import Any

from tests.scenarios.independent.payloads import HOUR, MINUTE, NOW, World, ts
from tests.scenarios.independent.registry import bare, fleet, pending, scene, silent

S0, S1 = "ml/train/v6e-group-0", "ml/train/v6e-group-1"
NAME = "ray.io/tpu-slice-name"


def hold(
    cluster: Any,
    name: str,
    hosts: list[Any],
    *,
    age: float = 2 * HOUR,
    work: bool = True,
    where: dict[str, str] | None = None,
) -> Any:
    """A CREATED group on these hosts, with an actor on each."""
    group = cluster.group(
        name, [({"TPU": 4.0, "CPU": 1.0}, h.ray_id, where or {}) for h in hosts], age=age
    )
    if work:
        for index in range(len(hosts)):
            cluster.actor(group, index, age=age)
    return group


def wants(
    cluster: Any,
    name: str,
    count: int,
    *,
    selector: dict[str, str] | None = None,
    age: float = 30 * MINUTE,
    attempts: int = 1800,
    chips: float = 4.0,
    **more: Any,
) -> Any:
    """A PENDING group of whole hosts."""
    return cluster.group(
        name,
        [({"TPU": chips, "CPU": 1.0}, "", selector or {})] * count,
        state="PENDING",
        age=age,
        attempts=attempts,
        **more,
    )


# --- PlacementSplit -----------------------------------------------------------------------------


@scene(
    ("PlacementSplit", None, "naive"),
    may="PlacementSubset",
    exit=1,
    each=["2+2", "3+1", "4+1", "1+1", "2+2+1", "legacy"],
)
def split(shape: str) -> World:
    counts = [2, 2] if shape == "legacy" else [int(part) for part in shape.split("+")]
    world, cluster, slices = fleet(replicas=3, regime="legacy" if shape == "legacy" else "kuberay")
    hosts = [h for one, n in zip(slices, counts, strict=False) for h in one.hosts[:n]]
    hold(cluster, "naive", hosts)
    return world


@scene(("PlacementSplit", None, None), may="PlacementSubset", exit=1)
def split_without_a_name() -> World:
    world, cluster, slices = fleet()
    hold(cluster, "", slices[0].hosts[:2] + slices[1].hosts[2:])
    return world


@scene(
    ("PlacementSplit", None, "naive"),
    may="PlacementSubset GangIncomplete ReservationIdle",
    exit=1,
    each=["bare", "no-work"],
)
def split_elsewhere(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    hold(cluster, "naive", slices[0].hosts[1:] + slices[1].hosts[:1], work=how == "bare")
    return world


@scene(("PlacementSplit", None, "naive"), may="PlacementSubset", exit=1, each=["v5p", "v5e", "v7x"])
def split_other_generations(kind: str) -> World:
    world, cluster, slices = fleet(kind, "4x4" if kind == "v5e" else "2x2x4")
    hold(cluster, "naive", slices[0].hosts[:2] + slices[1].hosts[:2])
    return world


@silent(statuses={S0: "running", S1: "running"}, each=["two", "no-heads", "no-selectors"])
def multislice_on_purpose(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("two-slices", *slices, heads=how == "two", selector=how != "no-selectors")
    return world


@silent(each=["2x2", "2x4"])
def one_group_over_single_host_slices(topology: str) -> World:
    world, cluster, slices = fleet("v6e", topology, chips=4 if topology == "2x2" else 8, replicas=3)
    group = cluster.group(
        "serve",
        [({"TPU": 4.0 if topology == "2x2" else 8.0}, s.hosts[0].ray_id, {}) for s in slices],
    )
    for index in range(3):
        cluster.actor(group, index)
    return world


# --- PlacementSubset ----------------------------------------------------------------------------


@scene(
    ("PlacementSubset", None, "part"),
    statuses={S0: "shared"},
    exit=0,
    each={"three": [0, 1, 2], "diagonal": [0, 3], "other-diagonal": [1, 2]},
)
def subset(which: list[int]) -> World:
    world, cluster, slices = fleet()
    hold(cluster, "part", [slices[0].hosts[i] for i in which])
    return world


@scene(("PlacementSubset", None, "part"), exit=0, each=["bare", "named-selector"])
def subset_elsewhere(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    hold(cluster, "part", slices[0].hosts[:3], where={NAME: "v6e-group-0"})
    return world


@silent(statuses={S0: "shared"}, each={"row": [0, 1], "column": [0, 2], "host": [3]})
def valid_sub_slice(which: list[int]) -> World:
    world, cluster, slices = fleet()
    hold(cluster, "sub", [slices[0].hosts[i] for i in which], where={NAME: "v6e-group-0"})
    return world


@silent(statuses={S0: "shared"}, each={"diagonal": [0, 3], "column": [1, 3]})
def sub_slice_that_ray_chose_itself(which: list[int]) -> World:
    """subslice_placement_group names the workers: it asked libtpu where they are."""
    world, cluster, slices = fleet()
    group = hold(cluster, "sub", [slices[0].hosts[i] for i in which])
    for bundle, worker in zip(group["bundles"], which, strict=True):
        bundle["label_selector"] = {NAME: "v6e-group-0", "ray.io/tpu-worker-id": str(worker)}
    return world


@silent(statuses={"ml/train/v6e-group-0": "shared"})
def four_by_four_of_a_four_by_eight() -> World:
    world, cluster, slices = fleet("v6e", "4x8", replicas=1)
    # Host bounds 2x4, x fastest: hosts 0..3 are the first 4x4.
    hold(cluster, "sub", slices[0].hosts[:4])
    return world


@silent(statuses={S0: "shared"})
def two_groups_share_one_slice() -> World:
    world, cluster, slices = fleet()
    hold(cluster, "left", [slices[0].hosts[0], slices[0].hosts[2]])
    hold(cluster, "right", [slices[0].hosts[1], slices[0].hosts[3]])
    return world


# --- PlacementPending ---------------------------------------------------------------------------


@scene(
    ("PlacementPending", "NoSuchSlice", "wants"),
    exit=0,
    each=["head-32", "head-of-another-generation", "too-many-hosts"],
)
def no_such_slice(how: str) -> World:
    world, cluster, _ = fleet()
    if how == "too-many-hosts":
        wants(cluster, "wants", 64)
        return world
    pod_type = "v6e-32" if how == "head-32" else "v5p-16"
    cluster.head_group(None, pod_type=pod_type, age=10 * MINUTE, attempts=500)["name"] = "wants"
    return world


@scene(("PlacementPending", "NoSuchSlice", None), exit=0)
def no_such_slice_unnamed() -> World:
    world, cluster, _ = fleet()
    cluster.head_group(None, pod_type="v6e-64", age=10 * MINUTE, attempts=500)
    return world


@scene(
    ("PlacementPending", "AllSlicesBusy", None), exit=0, each=["head", "hosts", "unnamed", "bare"]
)
def all_slices_busy(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    for index, one in enumerate(slices):
        cluster.gang(f"busy-{index}", one)
    if how == "hosts":
        wants(cluster, "wants", 4)
    else:
        group = cluster.head_group(None, pod_type="v6e-16", age=10 * MINUTE, attempts=500)
        group["name"] = "" if how == "unnamed" else "wants"
    return world


@scene(
    ("SliceIncomplete", None, "v6e-group-1"),
    may="PlacementPending",
    exit=1,
    each=["with-head", "without-head"],
)
def waits_for_an_incomplete_slice(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("busy", slices[0])
    cluster.die(slices[1].hosts[2])
    if how == "with-head":
        cluster.head_group(slices[1], age=30 * MINUTE)
    wants(cluster, "wants", 4, selector={NAME: "v6e-group-1"})
    return world


@scene(
    ("PlacementPending", "Squatter", "wants"),
    may="PlacementSubset",
    exit=1,
    each=["row", "one-host", "two-squatters", "bare", "by-actors"],
)
def squatter(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    hosts = slices[1].hosts
    if how == "two-squatters":
        hold(cluster, "first", hosts[:1])
        hold(cluster, "second", hosts[3:])
    elif how == "by-actors":
        cluster.actor(None, 0, node=hosts[1].ray_id)
    else:
        hold(cluster, "squat", hosts[:1] if how == "one-host" else hosts[:2])
    cluster.head_group(slices[1], age=30 * MINUTE)
    wants(cluster, "wants", 4, selector={NAME: "v6e-group-1"})
    return world


@scene(
    ("PlacementPending", "SliceGone", "wants"),
    exit=1,
    may="HeadReservationLeaked",
    each=["never-heard-of", "dead", "bare"],
)
def slice_gone(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    if how in ("dead", "bare"):
        for host in slices[1].hosts:
            if how == "dead":
                world.pods.remove(host.pod)
                world.nodes.remove(host.node)
            cluster.die(host, ago=HOUR)
        if how == "dead":
            cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    name = "v6e-group-7" if how == "never-heard-of" else "v6e-group-1"
    wants(cluster, "wants", 4, selector={NAME: name})
    return world


@scene(("PlacementPending", "BundleTooLarge", "wants"), exit=1, each=["one", "many", "head-held"])
def bundle_too_large(how: str) -> World:
    """R20: a bundle of eight chips where every host has four."""
    world, cluster, slices = fleet("v6e", "2x4", replicas=2)
    if how == "head-held":
        cluster.head_group(slices[0], age=30 * MINUTE)
    selector = {NAME: "v6e-group-0"} if how == "head-held" else {}
    wants(
        cluster,
        "wants",
        1 if how != "many" else 4,
        chips=8.0,
        selector=selector,
        scheduling="INFEASIBLE",
    )
    return world


@scene(
    ("HeadReservationLeaked", None, "v6e-group-0"),
    may="PlacementPending",
    exit=1,
    each=["kubernetes", "bare"],
)
def head_held_by_a_leak(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    cluster.gang("ok", slices[1])
    cluster.head_group(slices[0], age=90 * MINUTE)
    cluster.head_group(None, pod_type="v6e-16", age=10 * MINUTE, attempts=500)
    return world


@scene(("PlacementPending", "ResourceNameMismatch", None), exit=1, each=["unnamed", "named"])
def resource_name_mismatch(how: str) -> World:
    """R21: asks for TPU-v5e-16-head, raylets offer TPU-v5litepod-16-head."""
    world, cluster, _ = fleet("v5e", "4x4")
    group = cluster.head_group(None, pod_type="v5e-16", age=10 * MINUTE, attempts=500)
    if how == "named":
        group["name"] = "wants"
    return world


@scene(("PlacementPending", "ResourceNameMismatch", None), exit=1)
def resource_name_mismatch_ironwood() -> World:
    world, cluster, _ = fleet("v7x", "2x2x2")
    cluster.head_group(None, pod_type="tpu7x-16", age=10 * MINUTE, attempts=500)
    return world


@scene(
    ("PlacementPending", "ScaleUpFailed", None),
    may="SliceIncomplete ScaleUpFailed",
    each=["head", "hosts"],
)
def pending_because_the_cloud_is_full(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("busy", slices[0])
    for host in slices[1].hosts:
        pending(host.pod)
        cluster.forget(host)
        world.nodes.remove(host.node)
        world.event(
            "FailedScaleUp",
            "Node scale up in zones us-east5-b associated with this pod "
            "failed: GCE out of resources.",
            host.pod,
        )
    if how == "head":
        cluster.head_group(None, pod_type="v6e-16", age=30 * MINUTE, attempts=500)
    else:
        wants(cluster, "wants", 4)
    return world


@scene(
    ("PlacementPending", "ScaleUpFailed", None),
    may="SliceIncomplete ScaleUpFailed ReplicaDrift",
    each=["pods", "no-pods"],
)
def the_only_slice_of_its_kind_gets_no_nodes(how: str) -> World:
    world, cluster, slices = fleet(replicas=1)
    for host in slices[0].hosts:
        world.nodes.remove(host.node)
        cluster.forget(host)
        pending(host.pod)
        world.event(
            "FailedScaleUp",
            "Node scale up in zones us-east5-b associated with this pod "
            "failed: GCE quota exceeded.",
            host.pod,
        )
        if how == "no-pods":
            world.pods.remove(host.pod)
    cluster.head_group(None, pod_type="v6e-16", age=30 * MINUTE, attempts=500)
    return world


@scene(
    ("SchedulerLivelock", None, None),
    ("SliceIncomplete", None, "v6e-group-0"),
    may="PlacementPending PlacementHostLost GangMemberDead GangIncomplete",
    exit=1,
    each=["kubernetes", "legacy", "bare", "unnamed"],
)
def livelock(how: str) -> World:
    if how == "bare":
        world, cluster, slices = bare()
    else:
        world, cluster, slices = fleet(regime="legacy" if how == "legacy" else "kuberay")
    group = cluster.gang("" if how == "unnamed" else "train", slices[0])
    host = slices[0].hosts[2]
    cluster.die(host)
    cluster.lose(group, host.ray_id, livelock=True)
    cluster.group(
        "cpu-only",
        [({"CPU": 0.1}, "", {})],
        state="PENDING",
        age=18 * MINUTE,
        attempts=0,
        scheduling="QUEUED",
    )
    wants(cluster, "starved", 4, age=15 * MINUTE, attempts=0, scheduling="QUEUED")
    return world


@scene(
    ("SchedulerLivelock", None, None),
    may="PlacementPending SliceIncomplete PlacementHostLost GangMemberDead",
    exit=1,
)
def livelock_of_a_pending_group() -> World:
    world, cluster, slices = fleet()
    wants(
        cluster,
        "spinner",
        4,
        selector={NAME: "v6e-group-0"},
        age=10 * MINUTE,
        attempts=90_000_000,
        scheduling="FAILED_TO_COMMIT_RESOURCES",
    )
    wants(cluster, "starved", 4, age=9 * MINUTE, attempts=0, scheduling="QUEUED")
    assert slices
    return world


@silent(each=["cpu", "young", "removed", "gpu"])
def pending_that_is_nobodys_business(how: str) -> World:
    world, cluster, _ = fleet()
    if how == "cpu":
        cluster.group(
            "cpu", [({"CPU": 500.0}, "", {})] * 3, state="PENDING", age=5 * HOUR, attempts=3600
        )
    elif how == "gpu":
        cluster.group("gpu", [({"GPU": 8.0}, "", {})], state="PENDING", age=HOUR)
    elif how == "young":
        cluster.head_group(None, pod_type="v6e-32", age=100, attempts=60)
    else:
        wants(cluster, "gone", 4)
        cluster.groups[-1]["state"] = "REMOVED"
        cluster.groups[-1]["stats"]["scheduling_state"] = "REMOVED"
    return world


@silent()
def retried_at_a_healthy_pace_for_hours() -> World:
    """1,800 attempts in half an hour is one a second: CPU group, backed off."""
    world, cluster, _ = fleet()
    cluster.group("cpu", [({"CPU": 500.0}, "", {})], state="PENDING", age=3 * HOUR, attempts=10800)
    return world


# --- PlacementHostLost --------------------------------------------------------------------------


@scene(("SliceIncomplete", None, "v6e-group-0"), may="PlacementHostLost GangMemberDead", exit=1)
def host_lost_few_attempts() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    host = slices[0].hosts[2]
    cluster.die(host)
    cluster.lose(group, host.ray_id)
    return world


@scene(
    ("PlacementHostLost", None, "train"),
    may="SliceIncomplete GangMemberDead ReplicaDrift",
    exit=1,
    each=["kubernetes", "bare"],
)
def whole_slice_vanished_under_a_group(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    group = cluster.gang("train", slices[0])
    for host in slices[0].hosts:
        if how != "bare":
            world.pods.remove(host.pod)
            world.nodes.remove(host.node)
        cluster.die(host)
        cluster.lose(group, host.ray_id)
    return world


@scene(
    ("PlacementHostLost", None, "train"),
    may="GangMemberDead SchedulerLivelock PlacementSubset",
    exit=1,
)
def host_came_back_and_the_group_still_reschedules() -> World:
    """The slice is whole again, the group has not noticed for ten minutes."""
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    host = slices[0].hosts[2]
    cluster.lose(group, host.ray_id)
    return world


@scene(("PlacementHostLost", None, "loose"), may="GangMemberDead SliceIncomplete", exit=1)
def single_host_lost() -> World:
    world, cluster, slices = fleet("v6e", "2x2", replicas=3)
    group = hold(cluster, "loose", [one.hosts[0] for one in slices])
    host = slices[1].hosts[0]
    world.pods.remove(host.pod)
    world.nodes.remove(host.node)
    cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    cluster.die(host)
    cluster.lose(group, host.ray_id)
    return world


# --- HeadReservationLeaked, ReservationIdle -----------------------------------------------------


@scene(("HeadReservationLeaked", None, "v6e-group-0"), exit=0, each=["kubernetes", "bare"])
def leaked_head_nobody_waits(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    cluster.head_group(slices[0], age=90 * MINUTE)
    return world


@scene(("HeadReservationLeaked", None, "v6e-group-0"), exit=0)
def leaked_head_after_its_group_was_removed() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    head = cluster.groups[0]
    cluster.end(group)
    head["state"] = "CREATED"
    head["stats"]["scheduling_state"] = "FINISHED"
    return world


@silent(each=["young", "beside-its-group", "v5p"])
def head_that_is_not_leaked(how: str) -> World:
    if how == "v5p":
        world, cluster, slices = fleet("v5p", "2x2x2")
    else:
        world, cluster, slices = fleet()
    if how == "young":
        cluster.head_group(slices[0], age=60)
    else:
        cluster.gang("train", slices[0])
    return world


@scene(
    ("ReservationIdle", None, "resting"),
    statuses={S0: "reserved"},
    exit=0,
    each=["never-worked", "work-finished", "bare?"],
)
def reservation_idle(how: str) -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("resting", slices[0], workers=0 if how == "never-worked" else None)
    if how != "never-worked":
        for actor in cluster.actors:
            cluster.kill(
                actor,
                "RAY_KILL",
                "The actor is dead because it was killed by `ray.kill`.",
                40 * MINUTE,
            )
        for task in cluster.tasks:
            task["state"] = "FINISHED"
            task["error_type"] = None
    assert group
    return world


@silent(statuses={S0: "reserved"}, each=[3 * MINUTE, 12 * MINUTE])
def reservation_young(age: float) -> World:
    world, cluster, slices = fleet()
    cluster.gang("young", slices[0], workers=0, age=age)
    return world


@silent(statuses={S0: "idle"}, each=["SUCCEEDED", "FAILED", "STOPPED"])
def job_over_and_group_removed(status: str) -> World:
    world, cluster, slices = fleet()
    cluster.end(cluster.gang("train", slices[0]), status=status)
    return world


@silent(each=["running-now", "tasks-only", "detached"], statuses={S0: "running"})
def reservation_in_use(how: str) -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0], work="task" if how == "tasks-only" else "actor")
    group["is_detached"] = how == "detached"
    return world


@silent(statuses={S0: "shared"})
def actors_without_a_group() -> World:
    world, cluster, slices = fleet()
    cluster.actor(None, 0, node=slices[0].hosts[1].ray_id)
    assert ts(0)
    assert NOW
    return world
