"""Maintenance, node conditions, dynamic slices and hosts that restarted alone."""

from __future__ import annotations

from tests.scenarios.independent.payloads import HOUR, MINUTE, NOW, World, ts
from tests.scenarios.independent.registry import bare, fleet, scene, set_env, silent

S0, S1 = "ml/train/v6e-group-0", "ml/train/v6e-group-1"


# --- HostMaintenance ----------------------------------------------------------------------------


@scene(
    ("HostMaintenance", None, "v6e-group-0"),
    exit=0,
    each=["ongoing", "soon", "taint", "window", "out-of-service"],
)
def maintenance(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    node = slices[0].hosts[1].node
    labels, taints = node["metadata"]["labels"], node["spec"]["taints"]
    if how == "ongoing":
        labels["cloud.google.com/active-node-maintenance"] = "ONGOING"
    elif how == "soon":
        labels["cloud.google.com/scheduled-maintenance-time"] = str(int(NOW + 30 * MINUTE))
    elif how == "taint":
        taints.append(
            {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
        )
    elif how == "window":
        taints.append(
            {
                "key": "cloud.google.com/maintenance-window-started",
                "value": "true",
                "effect": "NoSchedule",
            }
        )
    else:
        taints.append({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"})
    return world


@silent(each=["tomorrow", "long-past", "junk"], statuses={S0: "idle"})
def maintenance_far_away(when: str) -> World:
    world, _, slices = fleet()
    value = {
        "tomorrow": str(int(NOW + 26 * HOUR)),
        "long-past": str(int(NOW - 72 * HOUR)),
        "junk": "soon",
    }[when]
    labels = slices[0].hosts[1].node["metadata"]["labels"]
    labels["cloud.google.com/scheduled-maintenance-time"] = value
    return world


@silent()
def maintenance_of_a_node_that_is_no_tpu() -> World:
    world, _, _ = fleet()
    world.nodes[0]["metadata"]["labels"]["cloud.google.com/active-node-maintenance"] = "ONGOING"
    return world


# --- RuntimeFault -------------------------------------------------------------------------------


@scene(
    ("RuntimeFault", "MegascaleHangDetected", "v6e-group-0"),
    exit=1,
    may="GangStalled",
    each=["bare", "with-text", "busy"],
)
def megascale_hang(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0], duty=97.0 if how == "busy" else None)
    for host in slices[0].hosts[: 1 if how == "bare" else 4]:
        host.node["status"]["conditions"].append(
            {
                "type": "MegascaleHangDetected",
                "status": "True",
                "lastHeartbeatTime": ts(5),
                "lastTransitionTime": ts(10 * MINUTE),
            }
            | ({"message": "hang"} if how == "with-text" else {})
        )
    return world


@scene(("RuntimeFault", "SliceErrorDetected", "v6e-group-1"), exit=1, each=["idle", "held"])
def slice_error(how: str) -> World:
    world, cluster, slices = fleet()
    if how == "held":
        cluster.gang("train", slices[1])
    slices[1].hosts[2].node["status"]["conditions"].append(
        {
            "type": "SliceErrorDetected",
            "status": "True",
            "message": "ICI link tray1.chip3 down",
            "lastHeartbeatTime": ts(5),
            "lastTransitionTime": ts(3 * MINUTE),
        }
    )
    return world


@silent()
def conditions_that_are_false() -> World:
    world, _, slices = fleet()
    for kind in ("MegascaleHangDetected", "SliceErrorDetected", "MemoryPressure"):
        slices[0].hosts[0].node["status"]["conditions"].append({"type": kind, "status": "False"})
    return world


# --- DynamicSliceDegraded -----------------------------------------------------------------------


def dynamic(state: str, ready: str = "False", *, used: bool = False, label: str = "") -> World:
    world, cluster, slices = fleet("v7x", "4x4x4", replicas=1)
    for host in slices[0].hosts:
        labels = host.node["metadata"]["labels"]
        labels["cloud.google.com/gke-tpu-slice"] = "dyn-0"
        labels["cloud.google.com/gke-tpu-partition-4x4x4-id"] = "abc123"
        labels["cloud.google.com/gke-tpu-partition-4x4x4-state"] = label or "HEALTHY"
    world.slice_objects = [
        {
            "apiVersion": "accelerator.gke.io/v1beta1",
            "kind": "Slice",
            "metadata": {"name": "dyn-0", "creationTimestamp": ts(6 * HOUR)},
            "spec": {"type": "tpu7x", "topology": "4x4x4", "partitionIds": ["abc123"]},
            "status": {
                "conditions": [
                    {
                        "type": "Ready",
                        "status": ready,
                        "reason": state,
                        "lastTransitionTime": ts(30 * MINUTE),
                    }
                ]
            },
        }
    ]
    if used:
        cluster.gang("train", slices[0])
    return world


@scene(
    ("DynamicSliceDegraded", None, None),
    exit=0,
    may="SliceIncomplete",
    each=["ACTIVE_DEGRADED", "FAILED", "INCOMPLETE", "SliceCreationFailed"],
)
def dynamic_slice_is_not_active(state: str) -> World:
    return dynamic(state, "True" if state == "ACTIVE_DEGRADED" else "False")


@scene(("DynamicSliceDegraded", None, None), exit=1)
def dynamic_slice_failed_in_use() -> World:
    return dynamic("FAILED", used=True)


@scene(("DynamicSliceDegraded", None, None), exit=0, each=["DEGRADED", "UNHEALTHY"])
def dynamic_partition(label: str) -> World:
    return dynamic("ACTIVE", "True", label=label)


@scene(("DynamicSliceDegraded", None, None), exit=1)
def dynamic_partition_unhealthy_in_use() -> World:
    return dynamic("ACTIVE", "True", label="UNHEALTHY", used=True)


@silent(each=["HEALTHY", "UNSET"])
def dynamic_slice_is_active(label: str) -> World:
    return dynamic("ACTIVE", "True", used=True, label=label)


# --- HostRestartedAlone -------------------------------------------------------------------------


def younger(world: World, cluster, host, how: str) -> None:  # type: ignore[no-untyped-def]
    """One host of the slice is 20 minutes old."""
    if how in ("pod", "both"):
        host.pod["metadata"]["creationTimestamp"] = ts(20 * MINUTE)
        host.pod["status"]["startTime"] = ts(20 * MINUTE)
        for condition in host.pod["status"]["conditions"]:
            condition["lastTransitionTime"] = ts(19 * MINUTE)
        host.pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = ts(1140)
    if how == "restart":
        status = host.pod["status"]["containerStatuses"][0]
        status["restartCount"] = 1
        status["state"]["running"]["startedAt"] = ts(20 * MINUTE)
        status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": ts(1205)}}
    old = dict(host.ray, labels=dict(host.ray["labels"]))
    old |= {
        "node_id": host.ray["node_id"][::-1],
        "state": "DEAD",
        "end_time_ms": int((NOW - 21 * MINUTE) * 1000),
    }
    cluster.nodes.append(old)
    host.ray["start_time_ms"] = int((NOW - 18 * MINUTE) * 1000)


@scene(
    ("HostRestartedAlone", None, "v6e-group-0"),
    may="GangMemberDead GangIncomplete PlacementHostLost",
    exit=1,
    each=["pod", "restart", "ray"],
)
def one_host_restarted_under_work(how: str) -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0], workers=0)
    host = slices[0].hosts[1]
    for index, bundle in enumerate(group["bundles"]):
        young = bundle["node_id"] == host.ray_id
        cluster.actor(group, index, age=15 * MINUTE if young else 2 * HOUR)
    younger(world, cluster, host, how)
    return world


@scene(("HostRestartedAlone", None, "v6e-group-0"), may="GangMemberDead GangIncomplete", exit=1)
def one_host_restarted_without_kubernetes() -> World:
    world, cluster, slices = bare()
    group = cluster.gang("train", slices[0], workers=0)
    host = slices[0].hosts[1]
    for index, bundle in enumerate(group["bundles"]):
        young = bundle["node_id"] == host.ray_id
        cluster.actor(group, index, age=15 * MINUTE if young else 2 * HOUR)
    younger(world, cluster, host, "ray")
    return world


@silent(each=["pod", "restart", "ray"], statuses={S0: "idle"})
def one_host_restarted_without_work(how: str) -> World:
    world, cluster, slices = fleet()
    younger(world, cluster, slices[0].hosts[1], how)
    return world


@silent(each=["pod", "restart", "ray"], statuses={S0: "running"})
def one_host_restarted_before_the_work(how: str) -> World:
    world, cluster, slices = fleet()
    younger(world, cluster, slices[0].hosts[1], how)
    cluster.gang("train", slices[0], age=10 * MINUTE)
    return world


@silent(statuses={S0: "running"})
def hosts_that_came_minutes_apart() -> World:
    world, cluster, slices = fleet()
    for index, host in enumerate(slices[0].hosts):
        host.pod["metadata"]["creationTimestamp"] = ts(6 * HOUR - index * 2 * MINUTE)
        host.ray["start_time_ms"] = int((NOW - 6 * HOUR + index * 120 + 60) * 1000)
    cluster.gang("train", slices[0])
    return world


# --- MultisliceMismatch -------------------------------------------------------------------------


def megascale(slices: list, number: str, ids: list[str]) -> None:  # type: ignore[type-arg]
    for one, ident in zip(slices, ids, strict=True):
        for host in one.hosts:
            set_env(host.pod, "MEGASCALE_NUM_SLICES", number)
            set_env(host.pod, "MEGASCALE_SLICE_ID", ident)
            set_env(host.pod, "MEGASCALE_COORDINATOR_ADDRESS", "v6e-group-0-0.train-headless")


@scene(
    ("MultisliceMismatch", None, None),
    exit=1,
    each={
        "three-of-two": ("3", ["0", "1"]),
        "same-ids": ("2", ["0", "0"]),
        "one-of-two": ("1", ["0", "1"]),
        "id-too-big": ("2", ["0", "2"]),
    },
)
def multislice_mismatch(how: tuple[str, list[str]]) -> World:
    world, cluster, slices = fleet()
    megascale(slices, *how)
    cluster.gang("two-slices", *slices)
    return world


@scene(("MultisliceMismatch", None, None), exit=1, each=["number", "id"])
def multislice_differs_within(what: str) -> World:
    """R18: a replacement pod has the values of an older day."""
    world, cluster, slices = fleet()
    megascale(slices, "2", ["0", "1"])
    if what == "number":
        set_env(slices[1].hosts[2].pod, "MEGASCALE_NUM_SLICES", "3")
    else:
        set_env(slices[1].hosts[2].pod, "MEGASCALE_SLICE_ID", "0")
    cluster.gang("two-slices", *slices)
    return world


@scene(("MultisliceMismatch", None, None), exit=1, each=["3", "1"])
def multislice_mismatch_without_a_group(number: str) -> World:
    world, _, slices = fleet()
    megascale(slices, number, ["0", "1"])
    return world


@silent(each=["group", "no-group"])
def multislice_that_agrees(how: str) -> World:
    world, cluster, slices = fleet()
    megascale(slices, "2", ["0", "1"])
    if how == "group":
        cluster.gang("two-slices", *slices)
    return world


@silent()
def one_slice_of_several_without_megascale() -> World:
    world, cluster, slices = fleet()
    cluster.gang("one", slices[0])
    cluster.gang("other", slices[1])
    return world
