"""Slices that lack hosts, or whose hosts cannot be one slice; and the nearest innocents."""

from __future__ import annotations

from fleet.times import format_time
from tests.scenarios.scene import scene
from tests.scenarios.world import HOUR, World

S0 = "v6e-16-group-0"
INCOMPLETE = {f"ml/train/{S0}": ("incomplete",)}
BROKEN = {f"ml/train/{S0}": ("broken",)}


def crashing(reason: str = "CrashLoopBackOff") -> dict[str, object]:
    return {
        "name": "ray-worker",
        "ready": False,
        "restartCount": 7,
        "state": {"waiting": {"reason": reason}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1}},
    }


@scene(("SliceIncomplete", "PodUnschedulable", S0), statuses=INCOMPLETE)
def pod_unschedulable() -> World:
    world = World()
    name = world.add(age=2 * HOUR)
    world.pending(f"{name}-pod-1", "0/8 nodes are available: 8 node(s) didn't match selector")
    world.without_ray_node(f"ray-{name}-1")
    return world


@scene(("SliceIncomplete", "PodCrashLooping", S0), statuses=INCOMPLETE)
def pod_crash_looping() -> World:
    world = World()
    name = world.add()
    world.not_ready(f"{name}-pod-2", ago=900)
    world.pod_of(name, 2)["status"]["containerStatuses"] = [crashing()]
    world.without_ray_node(f"ray-{name}-2")
    return world


@scene(("SliceIncomplete", "PodFailed", S0), statuses=INCOMPLETE)
def pod_failed() -> World:
    world = World()
    name = world.add()
    world.pod_of(name, 3)["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "invalid TPU chip count request",
    }
    world.without_ray_node(f"ray-{name}-3")
    return world


@scene(("SliceIncomplete", "PodNotReady", S0), statuses=INCOMPLETE)
def image_cannot_be_pulled() -> World:
    world = World()
    name = world.add(age=HOUR)
    world.not_ready(f"{name}-pod-1", ago=HOUR)
    world.pod_of(name, 1)["status"]["containerStatuses"] = [crashing("ImagePullBackOff")]
    world.without_ray_node(f"ray-{name}-1")
    return world


@scene(("SliceIncomplete", "NodeNotReady", "train"), statuses=INCOMPLETE)
def node_not_ready_under_a_gang() -> World:
    world = World()
    name = world.add()
    world.gang("train", name)
    world.node_of(name, 1)["status"]["conditions"] = [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "lastTransitionTime": format_time(world.now - 400),
        }
    ]
    world.not_ready(f"{name}-pod-1", ago=390)
    world.lose_host(name, 1)
    return world


@scene(("SliceIncomplete", "NodeGone", S0), statuses=INCOMPLETE)
def node_gone() -> World:
    world = World()
    name = world.add()
    world.nodes.remove(world.node_of(name, 0))
    world.not_ready(f"{name}-pod-0", ago=200)
    world.die(f"ray-{name}-0", ago=180)
    return world


@scene(("SliceIncomplete", "RayletDead", S0), statuses=INCOMPLETE)
def raylet_dead_on_an_idle_slice() -> World:
    world = World()
    name = world.add()
    world.die(f"ray-{name}-2", ago=120)
    return world


@scene(
    ("SliceIncomplete", "RayletDead", S0),
    statuses={f"-/default/{S0}": ("incomplete",)},
)
def raylet_dead_without_kubernetes() -> World:
    world = World(kubernetes=False)
    name = world.add()
    world.gang("train", name)
    world.lose_host(name, 2)
    return world


@scene(("SliceIncomplete", "RayNodeNeverJoined", S0), statuses=INCOMPLETE)
def ray_node_never_joined() -> World:
    world = World()
    name = world.add(age=HOUR)
    world.without_ray_node(f"ray-{name}-3")
    return world


@scene(("SliceIncomplete", "PodMissing", S0), statuses=INCOMPLETE)
def pod_missing() -> World:
    world = World()
    name = world.add()
    world.without_pod(f"{name}-pod-3")
    world.die(f"ray-{name}-3", ago=700)
    return world


@scene(
    ("SliceIncomplete", "ScaleUpFailed", S0),
    ("PlacementPending", "ScaleUpFailed", None),
    statuses=INCOMPLETE,
)
def quota_exceeded() -> World:
    world = World()
    name = world.add(age=HOUR)
    for index in range(4):
        world.pending(f"{name}-pod-{index}")
        world.without_ray_node(f"ray-{name}-{index}")
    world.event("Pod", f"{name}-pod-2", "FailedScaleUp", "GCE quota exceeded", ago=120)
    world.head_group(None, age=900.0)
    return world


@scene(("SliceIncomplete", "ScaleUpFailed", S0), may=("ScaleUpFailed",))
def in_backoff_after_a_failed_scale_up() -> World:
    world = World()
    name = world.add(age=HOUR)
    for index in range(4):
        world.pending(f"{name}-pod-{index}")
        world.without_ray_node(f"ray-{name}-{index}")
        world.event(
            "Pod",
            f"{name}-pod-{index}",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 in backoff after failed scale-up",
        )
    return world


@scene(("SliceIncomplete", "RayletDead", "train-a"), statuses=INCOMPLETE)
def lost_host_folds_everything() -> World:
    """One dead host: the group reschedules, an actor is dead, another group waits for the slice."""
    world = World()
    name = world.add()
    world.gang("train-a", name)
    world.lose_host(name, 1)
    world.waiting("train-b", selector={"ray.io/tpu-slice-name": name})
    return world


@scene(
    ("SliceIncomplete", "RayletDead", S0),
    ("SchedulerLivelock", None, "train-a"),
    statuses=INCOMPLETE,
)
def lost_host_livelock_and_four_groups_wait() -> World:
    world = World()
    name = world.add()
    world.add()
    world.gang("train-a", name)
    world.lose_host(name, 1, ago=60)
    for group in world.groups:
        if group["state"] == "RESCHEDULING":
            group["stats"] |= {
                "scheduling_attempt": 5_000_000,
                "scheduling_state": "FAILED_TO_COMMIT_RESOURCES",
            }
    for number in range(4):
        world.waiting(f"waits-{number}", age=600, attempts=0)
    return world


@scene(
    ("SliceIncomplete", "RayletDead", S0),
    ("DuplicateWorkerId", None, "v6e-16-group-1"),
    ("HeadReservationLeaked", None, "v6e-16-group-2"),
)
def three_faults_at_once_are_three_findings() -> World:
    world = World()
    names = [world.add() for _ in range(3)]
    world.die(f"ray-{names[0]}-1", ago=300)
    duplicate(world, names[1])
    world.head_group(names[2], age=HOUR)
    return world


def duplicate(world: World, name: str) -> None:
    world.host(name, 3)["labels"]["ray.io/tpu-worker-id"] = "2"
    pod = world.pod_of(name, 3)
    world.env(pod, "TPU_WORKER_ID", "2")
    pod["spec"]["hostname"] = f"{name}-2"


@scene(("DuplicateWorkerId", None, S0), statuses=BROKEN)
def duplicate_worker_id() -> World:
    world = World()
    name = world.add(regime="legacy")
    duplicate(world, name)
    return world


@scene(("DuplicateWorkerId", None, S0), statuses={f"-/default/{S0}": ("broken",)})
def duplicate_worker_id_without_kubernetes() -> World:
    world = World(kubernetes=False)
    duplicate(world, world.add())
    return world


@scene(("DuplicateWorkerId", None, "hostname"), statuses=BROKEN)
def duplicate_hostname() -> World:
    world = World()
    name = world.add()
    world.pod_of(name, 3)["spec"]["hostname"] = f"{name}-2"
    return world


@scene(statuses={f"ml/train/{S0}": ("idle",)})
def equal_worker_ids_in_different_slices() -> World:
    world = World()
    world.add()
    world.add()
    return world


@scene(("SliceSpansNodePools", None, S0), statuses=BROKEN)
def spans_two_pools() -> World:
    world = World()
    name = world.add()
    for index in (2, 3):
        world.node_of(name, index)["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = "other"
    return world


@scene(statuses={"ml/train/v7x-32-group-0": ("idle",)})
def a_dynamic_slice_over_two_pools() -> World:
    world = World()
    name = world.add("v7x-32")
    for index in range(4):
        labels = world.node_of(name, index)["metadata"]["labels"]
        labels["cloud.google.com/gke-nodepool"] = f"block-{index // 2}"
        labels["cloud.google.com/gke-tpu-slice"] = "slice-a"
    return world


@scene(("SliceSpansNodePools", None, "dynamic"))
def spans_two_dynamic_slices() -> World:
    world = World()
    name = world.add("v7x-32")
    for index in range(4):
        labels = world.node_of(name, index)["metadata"]["labels"]
        labels["cloud.google.com/gke-tpu-slice"] = f"slice-{index // 2}"
    return world


@scene(("HostRestartedAlone", None, S0), statuses=BROKEN)
def host_restarted_alone() -> World:
    world = World()
    name = world.add()
    world.gang("train", name, age=3 * HOUR)
    world.host(name, 2)["start_time_ms"] = (world.now - HOUR) * 1000
    return world


@scene()
def host_restarted_before_the_work_began() -> World:
    world = World()
    name = world.add()
    world.host(name, 2)["start_time_ms"] = (world.now - 2 * HOUR) * 1000
    world.gang("train", name, age=HOUR)
    return world


@scene()
def host_restarted_on_an_idle_slice() -> World:
    world = World()
    name = world.add()
    world.host(name, 2)["start_time_ms"] = (world.now - 2 * HOUR) * 1000
    return world


@scene(("HeadResourceMissing", None, S0))
def head_resource_missing() -> World:
    world = World()
    name = world.add()
    del world.host(name, 0)["resources_total"]["TPU-v6e-16-head"]
    world.head_group(None, age=600)
    return world


@scene(unknown=("SliceIncomplete",), statuses={f"ml/train/{S0}": ("unknown",)})
def topology_not_known() -> World:
    world = World()
    name = world.add()
    world.groups_spec.clear()
    for index in range(4):
        pod, node, ray = (
            world.pod_of(name, index),
            world.node_of(name, index),
            world.host(name, index),
        )
        pod["spec"]["nodeSelector"].pop("cloud.google.com/gke-tpu-topology")
        node["metadata"]["labels"].pop("cloud.google.com/gke-tpu-topology")
        ray["labels"].pop("ray.io/tpu-topology")
        ray["labels"].pop("ray.io/tpu-pod-type")
        world.env(pod, "TPU_WORKER_HOSTNAMES", None)
        pod["spec"]["containers"][0]["env"].append({"name": "TPU_WORKER_HOSTNAMES"})
    return world


@scene(
    ("SourceDown", None, "ray:ml/train"),
    statuses={f"ml/train/{S0}": ("unknown",)},
    unknown=("SliceIncomplete", "PlacementSplit", "GangMemberDead"),
)
def ray_down_pods_up() -> World:
    world = World(ray=False)
    world.add()
    return world


@scene(
    ("SourceDown", None, "ray:ml/train"),
    ("SliceIncomplete", "PodCrashLooping", S0),
)
def ray_down_and_a_pod_that_surely_crashes() -> World:
    world = World(ray=False)
    name = world.add()
    world.not_ready(f"{name}-pod-2", ago=900)
    world.pod_of(name, 2)["status"]["containerStatuses"] = [crashing()]
    return world


@scene(("SliceIncomplete", "RayletDead", S0))
def two_clusters_with_equal_slice_names() -> World:
    """Only the first of two clusters is hurt; see ``test_engine`` for both in one fleet."""
    world = World(cluster="train")
    name = world.add()
    world.die(f"ray-{name}-0", ago=400)
    return world


@scene(("SliceIncomplete", "RayletDead", "v5p-16-group-0"))
def a_v5p_slice_of_two_hosts() -> World:
    world = World()
    name = world.add("v5p-16")
    world.die(f"ray-{name}-1", ago=300)
    return world


@scene(("SliceIncomplete", None, "v5e-8-group-0"))
def a_single_host_slice_whose_raylet_died() -> World:
    world = World()
    name = world.add("v5e-8")
    world.add("v5e-8")
    world.die(f"ray-{name}-0", ago=300)
    return world


@scene(("SliceIncomplete", "RayNodeNeverJoined", S0))
def a_successor_that_does_not_join_counts_at_once() -> World:
    """The grace is for hosts that have not come yet: this place was filled and is not any more."""
    world = World()
    name = world.add()
    world.gang("train", name)
    world.lose_host(name, 1, ago=200)
    world.pod_of(name, 1)["metadata"]["creationTimestamp"] = format_time(world.now - 150)
    return world


@scene(("HostRestartedAlone", None, S0))
def host_restarted_alone_without_kubernetes() -> World:
    world = World(kubernetes=False)
    name = world.add()
    world.gang("train", name, age=3 * HOUR)
    world.host(name, 2)["start_time_ms"] = (world.now - HOUR) * 1000
    return world
