"""Slices that lack hosts, for each cause, and slices that only look as if they did."""

from __future__ import annotations

from tests.scenarios.independent.payloads import HOUR, MINUTE, NOW, World, hexid, ts
from tests.scenarios.independent.registry import (
    bare,
    crash,
    env_of,
    failed,
    fleet,
    node_down,
    not_ready,
    pending,
    scene,
    set_env,
    silent,
)

S0, S1 = "ml/train/v6e-group-0", "ml/train/v6e-group-1"
STOCKOUT = (
    "Node scale up in zones us-east5-b associated with this pod failed: GCE out of resources. "
    "Pod is at risk of not being scheduled."
)
REGIMES = ["kuberay", "legacy"]


# --- PodUnschedulable, ScaleUpFailed ------------------------------------------------------------


@scene(
    ("SliceIncomplete", "PodUnschedulable", "v6e-group-1"),
    statuses={S0: "idle", S1: "incomplete"},
    exit=0,
    each=REGIMES,
)
def one_pod_unschedulable(regime: str) -> World:
    world, cluster, slices = fleet(regime=regime)
    pending(slices[1].hosts[3].pod)
    cluster.forget(slices[1].hosts[3])
    return world


@scene(
    ("SliceIncomplete", "PodUnschedulable", "v6e-group-1"),
    statuses={S1: "incomplete"},
    exit=0,
    each=["condition", "event", "neither"],
)
def whole_slice_unschedulable(said: str) -> World:
    world, cluster, slices = fleet()
    for host in slices[1].hosts:
        pending(host.pod)
        cluster.forget(host)
        world.nodes.remove(host.node)
        if said != "condition":
            host.pod["status"]["conditions"] = []
            host.pod["status"].pop("conditions")
        if said == "event":
            world.event(
                "FailedScheduling",
                "0/9 nodes are available: 9 Insufficient google.com/tpu.",
                host.pod,
                bare=True,
            )
    return world


@scene(
    ("SliceIncomplete", "ScaleUpFailed", "v6e-group-1"),
    may="ScaleUpFailed",
    statuses={S1: "incomplete"},
    exit=0,
    each={
        "stockout": STOCKOUT,
        "quota": "Node scale up in zones us-east5-b associated with this pod failed: GCE quota "
        "exceeded. Pod is at risk of not being scheduled.",
        "pool": "Node scale up failed: ZONE_RESOURCE_POOL_EXHAUSTED",
        "ip": "Node scale up in zones europe-west4-a associated with this pod failed: IP space "
        "exhausted. Pod is at risk of not being scheduled.",
    },
)
def stockout_words(words: str) -> World:
    world, cluster, slices = fleet()
    for index, host in enumerate(slices[1].hosts):
        pending(host.pod)
        cluster.forget(host)
        world.nodes.remove(host.node)
        if index == 0:
            world.event("FailedScaleUp", words, host.pod)
    return world


@scene(
    ("SliceIncomplete", "ScaleUpFailed", "v6e-group-1"),
    may="ScaleUpFailed PlacementPending",
    exit=1,
)
def stockout_while_a_group_waits_by_name() -> World:
    world, cluster, slices = fleet()
    for host in slices[1].hosts[1:]:
        pending(host.pod)
        cluster.forget(host)
        world.event("FailedScaleUp", STOCKOUT, host.pod)
    cluster.head_group(slices[1], age=30 * MINUTE)
    cluster.group(
        "waits",
        [({"TPU": 4.0}, "", {"ray.io/tpu-slice-name": "v6e-group-1"})] * 4,
        state="PENDING",
        age=30 * MINUTE,
    )
    return world


@scene(("ScaleUpFailed", None, "v6e-group"), may="ReplicaDrift", exit=0)
def stockout_of_pods_that_were_given_up() -> World:
    """Two replicas wanted; the second one's pods were deleted again, their event remains."""
    world, cluster, slices = fleet()
    for host in slices[1].hosts:
        world.pods.remove(host.pod)
        world.nodes.remove(host.node)
        cluster.forget(host)
    world.event("FailedScaleUp", STOCKOUT, slices[1].hosts[0].pod)
    return world


@silent(statuses={S0: "idle"})
def stockout_of_a_pod_that_nobody_wants_any_more() -> World:
    world, _, slices = fleet(replicas=1)
    ghost = {"metadata": {"name": "train-v6e-group-worker-zzzzz", "namespace": "ml"}, "kind": "Pod"}
    world.event("FailedScaleUp", STOCKOUT, ghost, ago=20 * MINUTE)
    assert slices
    return world


@scene(
    ("SliceIncomplete", None, "v6e-group-1"),
    may="ScaleUpFailed",
    statuses={S1: "incomplete"},
    exit=0,
)
def not_trigger_scale_up() -> World:
    world, cluster, slices = fleet()
    for host in slices[1].hosts:
        pending(host.pod)
        cluster.forget(host)
        world.event(
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 in backoff after failed "
            "scale-up, 2 node(s) didn't match Pod's node affinity/selector",
            host.pod,
            kind="Normal",
        )
    return world


@silent(statuses={S1: "forming"})
def fresh_stockout_retried_and_won() -> World:
    """It failed four minutes ago, a node came, the pods run: nothing left of it."""
    world, cluster, slices = fleet(ages=[6 * HOUR, 5 * MINUTE])
    pending(slices[1].hosts[3].pod, ago=5 * MINUTE)
    cluster.forget(slices[1].hosts[3])
    world.event(
        "TriggeredScaleUp",
        "pod triggered scale-up: [{pool 0->4 (max: 4)}]",
        slices[1].hosts[3].pod,
        kind="Normal",
    )
    return world


@silent(statuses={S0: "idle", S1: "idle"})
def old_stockout_since_mended() -> World:
    world, _, slices = fleet(ages=[6 * HOUR, 30 * MINUTE])
    for host in slices[1].hosts:
        world.event("FailedScaleUp", STOCKOUT, host.pod, ago=40 * MINUTE)
    return world


# --- PodCrashLooping, PodFailed, PodNotReady ----------------------------------------------------


@scene(
    ("SliceIncomplete", "PodCrashLooping", "v6e-group-0"),
    statuses={S0: "incomplete", S1: "idle"},
    exit=0,
    each=["CrashLoopBackOff", "ImagePullBackOff?"],
)
def crash_looping(reason: str) -> World:
    world, cluster, slices = fleet()
    host = slices[0].hosts[1]
    crash(host.pod)
    cluster.die(host)
    if reason.endswith("?"):  # terminated right now, between two attempts, ten restarts
        host.pod["status"]["containerStatuses"][0]["state"] = {
            "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ts(20)}
        }
    return world


@scene(
    ("SliceIncomplete", "PodCrashLooping", "v6e-group-0"),
    may="GangMemberDead PlacementHostLost",
    exit=1,
)
def crash_looping_under_a_gang() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    host = slices[0].hosts[1]
    crash(host.pod)
    cluster.die(host)
    cluster.lose(group, host.ray_id)
    return world


@scene(("SliceIncomplete", "PodCrashLooping", "v6e-group-0"), exit=0)
def crash_looping_from_birth_never_joined() -> World:
    world, cluster, slices = fleet()
    host = slices[0].hosts[1]
    crash(host.pod, ago=5 * HOUR)
    cluster.forget(host)
    return world


@scene(
    ("SliceIncomplete", "PodFailed", "v6e-group-0"),
    statuses={S0: "incomplete"},
    exit=0,
    each={
        "evicted": ("Evicted", "The node was low on resource: memory."),
        "admission": (
            "UnexpectedAdmissionError",
            "Allocate failed due to invalid TPU chip count "
            "request, you must request all 4 chips on this node together",
        ),
        "preempted": ("Preempted", "Preempted in order to admit critical pod"),
        "shutdown": ("Terminated", "Pod was terminated in response to imminent node shutdown."),
    },
)
def pod_failed(words: tuple[str, str]) -> World:
    world, cluster, slices = fleet()
    host = slices[0].hosts[2]
    failed(host.pod, *words)
    cluster.die(host)
    return world


@scene(("SliceIncomplete", "PodFailed", "v6e-group-0"), exit=0)
def pod_failed_without_ray_row() -> World:
    world, cluster, slices = fleet()
    failed(slices[0].hosts[2].pod, "OOMKilled")
    cluster.forget(slices[0].hosts[2])
    return world


@scene(
    ("SliceIncomplete", "PodNotReady", "v6e-group-0"),
    statuses={S0: "incomplete"},
    exit=0,
    each=["dead", "never", "ImagePullBackOff", "ContainerCreating"],
)
def pod_not_ready(how: str) -> World:
    world, cluster, slices = fleet()
    host = slices[0].hosts[1]
    not_ready(host.pod)
    if how == "dead":
        cluster.die(host)
    else:
        cluster.forget(host)
    if how in ("ImagePullBackOff", "ContainerCreating"):
        host.pod["status"]["phase"] = "Pending"
        host.pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": how}}
    return world


# --- nodes --------------------------------------------------------------------------------------


@scene(
    ("SliceIncomplete", "NodeNotReady", "v6e-group-0"),
    statuses={S0: "incomplete"},
    exit=0,
    each=["Unknown", "False"],
)
def node_not_ready(status: str) -> World:
    world, cluster, slices = fleet()
    node_down(slices[0].hosts[2], status=status)
    cluster.die(slices[0].hosts[2])
    return world


@scene(
    ("SliceIncomplete", "NodeNotReady", "v6e-group-0"),
    may="PlacementHostLost GangMemberDead SchedulerLivelock",
    exit=1,
)
def node_not_ready_under_a_gang() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    host = slices[0].hosts[2]
    node_down(host)
    cluster.die(host)
    cluster.lose(group, host.ray_id)
    return world


@scene(
    ("SliceIncomplete", "NodeGone", "v6e-group-0"),
    statuses={S0: "incomplete"},
    exit=0,
    each=["running", "terminating", "failed", "not-ready", "ray-forgot"],
)
def node_gone(pod_says: str) -> World:
    world, cluster, slices = fleet()
    host = slices[0].hosts[2]
    world.nodes.remove(host.node)
    if pod_says == "terminating":
        host.pod["metadata"]["deletionTimestamp"] = ts(10 * MINUTE)
        not_ready(host.pod)
    elif pod_says == "failed":
        failed(host.pod, "NodeLost")
    elif pod_says == "not-ready":
        not_ready(host.pod)
    if pod_says == "ray-forgot":
        cluster.forget(host)
    else:
        cluster.die(host)
    return world


@scene(
    ("SliceIncomplete", "NodeGone", "v6e-group-0"),
    may="PlacementHostLost GangMemberDead SchedulerLivelock",
    exit=1,
    each=REGIMES,
)
def spot_node_gone_under_a_gang(regime: str) -> World:
    world, cluster, slices = fleet(regime=regime)
    group = cluster.gang("train", slices[0])
    host = slices[0].hosts[2]
    world.nodes.remove(host.node)
    cluster.die(host)
    cluster.lose(group, host.ray_id)
    return world


# --- raylets ------------------------------------------------------------------------------------


@scene(
    ("SliceIncomplete", "RayletDead", "v6e-group-0"),
    statuses={S0: "incomplete", S1: "idle"},
    exit=0,
    each=[*REGIMES, "several"],
)
def raylet_dead(regime: str) -> World:
    world, cluster, slices = fleet(regime="kuberay" if regime == "several" else regime)
    for host in slices[0].hosts[1 : 4 if regime == "several" else 2]:
        cluster.die(host)
    return world


@scene(
    ("SliceIncomplete", "RayletDead", "v6e-group-0"),
    exit=0,
    statuses={"-/default/v6e-group-0": "incomplete"},
)
def raylet_dead_without_kubernetes() -> World:
    world, cluster, slices = bare()
    cluster.die(slices[0].hosts[0])
    return world


@scene(("SliceIncomplete", "RayletDead", None), exit=0, each=["v5e", "v5p", "v4", "v7x"])
def raylet_dead_other_generations(kind: str) -> World:
    topology = "4x4" if kind == "v5e" else "2x2x4"
    world, cluster, slices = fleet(kind, topology)
    cluster.die(slices[1].hosts[2])
    return world


@scene(("SliceIncomplete", "RayletDead", None), exit=0)
def single_host_slice_dead() -> World:
    """A single host's slice with its raylet dead has no live host at all."""
    world, cluster, slices = fleet("v6e", "2x2", replicas=3)
    cluster.die(slices[1].hosts[0])
    return world


@scene(
    ("SliceIncomplete", "RayNodeNeverJoined", "v6e-group-1"),
    statuses={S0: "idle", S1: "incomplete"},
    exit=0,
    each=["one", "all"],
)
def never_joined(many: str) -> World:
    world, cluster, slices = fleet(ages=[6 * HOUR, 40 * MINUTE])
    for host in slices[1].hosts[3 if many == "one" else 0 :]:
        cluster.forget(host)
    return world


@silent(statuses={S1: "forming"}, each=["one", "all", "nine-minutes"])
def not_joined_yet(many: str) -> World:
    age = 9 * MINUTE if many == "nine-minutes" else 4 * MINUTE
    world, cluster, slices = fleet(ages=[6 * HOUR, age])
    for host in slices[1].hosts[0 if many == "all" else 3 :]:
        cluster.forget(host)
    return world


@scene(
    ("SliceIncomplete", "RayletDead", "v6e-group-1"),
    statuses={S1: "incomplete"},
    exit=0,
)
def gone_within_the_grace_counts_at_once() -> World:
    """The slice is five minutes old, all hosts came, one is dead since a minute."""
    world, cluster, slices = fleet(ages=[6 * HOUR, 5 * MINUTE])
    cluster.die(slices[1].hosts[1], ago=60)
    return world


# --- PodMissing ---------------------------------------------------------------------------------


@scene(
    ("SliceIncomplete", "PodMissing", "v6e-group-0"),
    may="ReplicaDrift",
    statuses={S0: "incomplete"},
    exit=0,
    each=["dead", "forgotten", "legacy"],
)
def pod_missing(how: str) -> World:
    world, cluster, slices = fleet(regime="legacy" if how == "legacy" else "kuberay")
    host = slices[0].hosts[3]
    world.pods.remove(host.pod)
    if how == "forgotten":
        cluster.forget(host)
    else:
        cluster.die(host)
    return world


@scene(
    ("SliceIncomplete", "PodMissing", "v6e-group-0"),
    may="ReplicaDrift",
    statuses={S0: "incomplete"},
    exit=0,
)
def pod_missing_since_the_start() -> World:
    """Admission refused host 3 for ever: three pods of four, hours old."""
    world, cluster, slices = fleet()
    host = slices[0].hosts[3]
    world.pods.remove(host.pod)
    world.nodes.remove(host.node)
    cluster.forget(host)
    return world


@scene(
    ("SliceIncomplete", None, "v6e-group-0"),
    may="ReplicaDrift PlacementHostLost GangMemberDead SchedulerLivelock",
    exit=1,
)
def pod_and_node_gone_under_a_gang() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    host = slices[0].hosts[3]
    world.pods.remove(host.pod)
    world.nodes.remove(host.node)
    cluster.die(host)
    cluster.lose(group, host.ray_id)
    return world


# --- critical by who waits ----------------------------------------------------------------------


@scene(
    ("SliceIncomplete", "RayletDead", "v6e-group-1"),
    may="PlacementPending HeadReservationLeaked",
    exit=1,
)
def incomplete_and_awaited_by_name() -> World:
    world, cluster, slices = fleet()
    cluster.die(slices[1].hosts[3])
    cluster.head_group(slices[1], age=30 * MINUTE)
    cluster.group(
        "waits",
        [({"TPU": 4.0}, "", {"ray.io/tpu-slice-name": "v6e-group-1"})] * 4,
        state="PENDING",
        age=30 * MINUTE,
        attempts=1800,
    )
    return world


# --- not incomplete -----------------------------------------------------------------------------


@silent(statuses={S0: "idle"})
def kueue_gates() -> World:
    """A second slice waits for its quota: scheduling gates on every pod."""
    world, cluster, slices = fleet()
    for host in slices[1].hosts:
        pending(host.pod, ago=3 * HOUR)
        host.pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        host.pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": ts(3 * HOUR),
            }
        ]
        cluster.forget(host)
        world.nodes.remove(host.node)
    return world


@silent(each=["spec", "state", "condition"])
def suspended_cluster(how: str) -> World:
    world, cluster, _ = fleet()
    world.pods.clear()
    cluster.ray_up = False
    if how == "spec":
        cluster.raycluster["spec"]["suspend"] = True
    cluster.raycluster["status"]["state"] = "suspended"
    if how == "condition":
        cluster.raycluster["spec"]["suspend"] = True
        cluster.raycluster["status"]["conditions"].append(
            {
                "type": "RayClusterSuspended",
                "status": "True",
                "reason": "RayClusterSuspended",
                "lastTransitionTime": ts(HOUR),
            }
        )
    return world


@silent(may="SourceDown", each=["terminating", "gone"])
def cluster_shutting_down(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.raycluster["metadata"]["deletionTimestamp"] = ts(30)
    for pod in list(world.pods):
        pod["metadata"]["deletionTimestamp"] = ts(30)
    if how == "gone":
        for host in slices[0].hosts + slices[1].hosts[:2]:
            world.pods.remove(host.pod)
            cluster.die(host, ago=20)
    return world


@silent(statuses={S0: "idle"}, each=["terminating", "dead", "gone"])
def scaled_down_slice(how: str) -> World:
    """Replicas went from two to one: the second slice goes as a whole."""
    world, cluster, slices = fleet()
    cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    for host in slices[1].hosts:
        if how == "gone":
            world.pods.remove(host.pod)
        else:
            host.pod["metadata"]["deletionTimestamp"] = ts(20)
        if how != "terminating":
            cluster.die(host, ago=15)
    return world


@silent(statuses={S0: "idle"})
def scaled_down_half_dead_half_terminating() -> World:
    world, cluster, slices = fleet()
    cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    for index, host in enumerate(slices[1].hosts):
        host.pod["metadata"]["deletionTimestamp"] = ts(20)
        if index < 2:
            cluster.die(host, ago=10)
            world.pods.remove(host.pod)
    return world


@silent(statuses={S0: "idle"}, each=["same-names", "many-generations"])
def stale_dead_nodes(how: str) -> World:
    """Former hosts of the same slice name are history."""
    world, cluster, slices = fleet()
    for generation in range(1 if how == "same-names" else 5):
        for host in slices[0].hosts:
            old = dict(host.ray, state="DEAD", node_id=hexid(f"old{generation}{host.worker}"))
            old["labels"] = dict(host.ray["labels"])
            old["node_ip"] = f"10.9.{generation}.{host.worker}"
            old["start_time_ms"] = int((NOW - (20 + generation) * HOUR) * 1000)
            old["end_time_ms"] = int((NOW - (7 + generation) * HOUR) * 1000)
            old["state_message"] = "Expected termination: received SIGTERM"
            cluster.nodes.append(old)
    return world


@silent(statuses={S0: "idle"})
def stale_dead_slice_of_a_former_life() -> World:
    """A slice that was scaled down hours ago has only dead rows: no slice, no finding."""
    world, cluster, slices = fleet()
    cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    for host in slices[1].hosts:
        world.pods.remove(host.pod)
        world.nodes.remove(host.node)
        cluster.die(host, ago=5 * HOUR)
    return world


@silent()
def stale_dead_slice_without_kubernetes() -> World:
    world, cluster, slices = bare(replicas=2)
    for host in slices[1].hosts:
        cluster.die(host, ago=5 * HOUR)
        host.ray["state_message"] = "Expected termination: received SIGTERM"
    return world


@silent(each=["new-pods-run", "new-pods-form"])
def rolling_restart(how: str) -> World:
    """Slice 1 is replaced as a whole: old pods terminate, new ones come, gang over."""
    world, cluster, slices = fleet()
    for host in slices[1].hosts:
        old = host.pod
        new = World.copy(world).pods[world.pods.index(old)]
        old["metadata"]["deletionTimestamp"] = ts(60)
        cluster.die(host, ago=90)
        name = old["metadata"]["name"] + "n"
        new["metadata"] |= {"name": name, "uid": hexid(name, 32), "creationTimestamp": ts(80)}
        new["metadata"]["labels"]["ray.io/worker-group-replica-name"] = "v6e-group-fresh"
        new["status"]["podIP"] = f"10.8.1.{host.worker}"
        set_env(new, "RAY_CLOUD_INSTANCE_ID", name)
        for condition in new["status"]["conditions"]:
            condition["lastTransitionTime"] = ts(70)
        new["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": ts(70)}}
        terms = new["spec"]["affinity"]["podAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        terms[0]["labelSelector"]["matchExpressions"][0]["values"] = ["v6e-group-fresh"]
        if how == "new-pods-form":
            pending(new, ago=80)
            new["status"].pop("podIP", None)
        world.pods.append(new)
    return world


@silent(may="SourceDown")
def cluster_just_created() -> World:
    """RayCluster and pods are two minutes old; Ray does not answer yet."""
    world, cluster, _slices = fleet(ages=[2 * MINUTE, 2 * MINUTE])
    cluster.raycluster["metadata"]["creationTimestamp"] = ts(2 * MINUTE)
    cluster.raycluster["status"] = {"state": ""}
    for pod in world.pods:
        pending(pod, ago=2 * MINUTE)
    cluster.ray_up = False
    return world


@silent()
def cluster_without_tpus() -> World:
    world = World()
    cluster = world.cluster()
    cluster.raycluster["spec"]["workerGroupSpecs"].append(
        {
            "groupName": "cpu",
            "replicas": 3,
            "minReplicas": 0,
            "maxReplicas": 9,
            "numOfHosts": 1,
            "template": {"spec": {"containers": [{"name": "ray-worker"}]}},
        }
    )
    for index in range(3):
        node = world.node(f"cpu-{index}", "cpu-pool")
        world.pod(cluster, f"train-cpu-worker-{index}", "cpu", node, f"10.8.3.{index}", 6 * HOUR)
    cluster.group("cpu-wait", [({"CPU": 64.0}, "", {})], state="PENDING", age=HOUR)
    return world


@silent()
def completed_worker_pods() -> World:
    """A RayJob is over: its pods are Succeeded, Ray has gone with them, the object remains."""
    world, cluster, slices = fleet(replicas=1)
    for pod in world.pods:
        pod["status"]["phase"] = "Succeeded"
        not_ready(pod, ago=HOUR)
    cluster.raycluster["spec"]["suspend"] = True
    cluster.raycluster["status"]["state"] = "suspended"
    cluster.ray_up = False
    assert slices
    return world


@silent(
    each=[
        ("v6e", "2x2", 4, 4),
        ("v6e", "2x4", 8, 3),
        ("v6e", "1x1", 1, 4),
        ("v5e", "2x2", 4, 2),
        ("v5p", "2x2x1", 4, 2),
        ("v6e", "2x4", 4, 2),
        ("v6e", "4x8", 4, 1),
        ("v5e", "4x4", 4, 2),
        ("v5p", "2x2x4", 4, 2),
        ("v4", "2x2x2", 4, 2),
        ("v7x", "2x2x2", 4, 2),
        ("v7x", "2x2x1", 4, 2),
        ("v7x", "4x4x4", 4, 1),
        ("v6e", "8x8", 4, 1),
    ]
)
def healthy_idle_shapes(shape: tuple[str, str, int, int]) -> World:
    kind, topology, chips, replicas = shape
    world, _, _ = fleet(kind, topology, chips=chips, replicas=replicas)
    return world


@silent(
    each=[
        ("v6e", "2x2", 4, 4),
        ("v6e", "2x4", 8, 3),
        ("v5e", "4x4", 4, 2),
        ("v5p", "2x2x4", 4, 2),
        ("v7x", "2x2x2", 4, 2),
    ]
)
def healthy_running_shapes(shape: tuple[str, str, int, int]) -> World:
    kind, topology, chips, replicas = shape
    world, cluster, slices = fleet(kind, topology, chips=chips, replicas=replicas)
    cluster.gang("train", slices[0], heads=len(slices[0].hosts) > 1)
    return world


@silent(each=["legacy", "minimal", "rich", "nulls"])
def healthy_in_every_dress(dress: str) -> World:
    world, cluster, slices = fleet(regime="legacy" if dress == "legacy" else "kuberay")
    cluster.gang("train", slices[0])
    if dress == "minimal":
        for pod in world.pods:
            pod.pop("apiVersion")
            pod.pop("kind")
            pod["metadata"].pop("ownerReferences")
            pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            pod["spec"].pop("affinity", None)
        for node in world.nodes:
            node["spec"] = {}
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        for row in cluster.nodes:
            for key in ("state_message", "end_time_ms", "node_name"):
                row.pop(key)
    elif dress == "rich":
        for item in [*world.pods, *world.nodes]:
            item["metadata"] |= {
                "annotations": {"a/b": "c"},
                "managedFields": [{"manager": "x", "fieldsV1": {}}],
                "resourceVersion": "12345",
            }
        for pod in world.pods:
            pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
            pod["spec"]["tolerations"] = [{"operator": "Exists"}]
            env_of(pod).append({"name": "MY_IP", "valueFrom": {"fieldRef": {"fieldPath": "x"}}})
            pod["spec"]["containers"].append({"name": "sidecar", "env": None, "resources": {}})
    elif dress == "nulls":
        for pod in world.pods:
            pod["spec"]["affinity"] = pod["spec"].get("affinity")
            pod["metadata"]["annotations"] = None
            pod["metadata"]["deletionTimestamp"] = None
            pod["status"]["reason"] = None
        for node in world.nodes:
            node["spec"]["taints"] = None
        for actor in cluster.actors:
            actor["name"] = None
    return world


@silent(statuses={S0: "idle", "batch/train/v6e-group-0": "running"})
def two_clusters_same_names() -> World:
    """The same cluster and group names in two namespaces, the same pod IPs of host networks."""
    world = World()
    first, second = world.cluster("ml"), world.cluster("batch")
    world.tpus(first, replicas=1)
    [busy] = world.tpus(second, replicas=1)
    second.gang("train", busy)
    return world


@scene(
    ("SliceIncomplete", "RayletDead", "v6e-group-0"),
    statuses={S0: "incomplete", "batch/train/v6e-group-0": "idle"},
    exit=0,
)
def two_clusters_one_broken() -> World:
    world = World()
    first, second = world.cluster("ml"), world.cluster("batch")
    [one] = world.tpus(first, replicas=1)
    world.tpus(second, replicas=1)
    first.die(one.hosts[1])
    return world
