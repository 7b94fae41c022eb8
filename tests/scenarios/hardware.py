"""Nodes, chips and Slice objects that say something is wrong, or only seem to."""

from __future__ import annotations

from typing import Any

from fleet.times import format_time
from tests.scenarios.scene import scene
from tests.scenarios.world import HOUR, World

S0 = "v6e-16-group-0"
SCHEDULED = "cloud.google.com/scheduled-maintenance-time"


@scene(("RuntimeFault", "MegascaleHangDetected", S0), statuses={f"ml/train/{S0}": ("broken",)})
def megascale_hang() -> World:
    world = World()
    name = world.add()
    world.gang("train", name)
    for index in range(4):
        world.condition(world.node_of(name, index), "MegascaleHangDetected")
    return world


@scene(("RuntimeFault", "SliceErrorDetected", "ICI link"))
def slice_error() -> World:
    world = World()
    name = world.add()
    world.condition(world.node_of(name, 1), "SliceErrorDetected", "ICI link down on tray 1")
    world.condition(world.node_of(name, 2), "MegascaleHangDetected")
    return world


@scene()
def a_fault_condition_that_is_false() -> World:
    world = World()
    name = world.add()
    world.condition(world.node_of(name, 1), "SliceErrorDetected")
    world.node_of(name, 1)["status"]["conditions"][-1]["status"] = "False"
    return world


@scene(("SliceIncomplete", "RayletDead", S0), ("RuntimeFault", "MegascaleHangDetected", S0))
def a_hang_behind_a_lost_host() -> World:
    world = World()
    name = world.add()
    world.gang("train", name)
    world.lose_host(name, 2)
    world.condition(world.node_of(name, 0), "MegascaleHangDetected")
    return world


@scene(("HostMaintenance", None, S0))
def maintenance_under_way() -> World:
    world = World()
    name = world.add()
    world.gang("train", name)
    world.node_of(name, 3)["metadata"]["labels"]["cloud.google.com/active-node-maintenance"] = (
        "ONGOING"
    )
    return world


@scene(("HostMaintenance", None, "scheduled"))
def maintenance_within_the_hour() -> World:
    world = World()
    name = world.add()
    world.node_of(name, 3)["metadata"]["labels"][SCHEDULED] = str(int(world.now + 1800))
    return world


@scene()
def maintenance_next_week_is_only_worth_knowing() -> World:
    world = World()
    name = world.add()
    world.node_of(name, 3)["metadata"]["labels"][SCHEDULED] = str(int(world.now + 7 * 24 * HOUR))
    return world


@scene(("HostMaintenance", None, "terminated"))
def a_spot_node_is_about_to_be_taken() -> World:
    world = World()
    name = world.add()
    world.node_of(name, 0)["spec"] = {
        "taints": [
            {
                "key": "cloud.google.com/impending-node-termination",
                "effect": "NoSchedule",
                "timeAdded": format_time(world.now - 20),
            }
        ]
    }
    return world


@scene(("ChipCountMismatch", None, "node-v6e-16-group-0-pod-1"))
def a_node_lost_a_chip() -> World:
    world = World()
    name = world.add()
    world.node_of(name, 1)["status"]["allocatable"]["google.com/tpu"] = "3"
    return world


@scene(("ChipCountMismatch", None, "TPU is 8"))
def ray_counts_eight_on_four_chips() -> World:
    world = World()
    name = world.add()
    world.host(name, 1)["resources_total"]["TPU"] = 8.0
    return world


@scene(("ChipCountMismatch", None, "pod-0"))
def a_pod_asks_for_half_of_its_node() -> World:
    world = World()
    name = world.add("v5e-8")
    world.pod_of(name, 0)["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"] = "4"
    world.host(name, 0)["resources_total"]["TPU"] = 4.0
    world.spec("v5e-8-group")["template"]["spec"]["containers"][0]["resources"]["limits"][
        "google.com/tpu"
    ] = "4"
    world.spec("v5e-8-group")["numOfHosts"] = 2
    world.spec("v5e-8-group")["replicas"] = 0
    return _only_count(world)


def _only_count(world: World) -> World:
    """The pod stays, its group is one host again: only the chips disagree."""
    world.groups_spec.clear()
    world.groups_spec.append({"groupName": "v5e-8-group", "replicas": 1, "numOfHosts": 1})
    pod = world.pods[0]
    pod["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = "2x2"
    world.ray_nodes[-1]["labels"]["ray.io/tpu-topology"] = "2x2"
    world.ray_nodes[-1]["labels"]["ray.io/tpu-pod-type"] = "v5litepod-4"
    world.ray_nodes[-1]["resources_total"] = {"TPU": 4.0, "TPU-v5litepod-4-head": 1.0}
    return world


@scene(("PhantomTpu", None, "gpu-worker"))
def a_gpu_taken_for_a_tpu() -> World:
    world = World()
    world.add()
    phantom(world)
    return world


def phantom(world: World, **limits: str) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "metadata": {
            "name": "gpu-worker",
            "namespace": "ml",
            "labels": {"ray.io/cluster": "train", "ray.io/group": "gpus"},
            "creationTimestamp": format_time(world.now - HOUR),
        },
        "spec": {
            "nodeName": "gpu-node",
            "containers": [{"name": "ray-worker", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Running", "podIP": "10.7.0.9"},
    }
    world.pods.append(pod)
    world.nodes.append(
        {
            "metadata": {"name": "gpu-node", "labels": {}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
    world.ray_nodes.append(
        {
            "node_id": "ray-gpu",
            "node_ip": "10.7.0.9",
            "state": "ALIVE",
            "labels": {},
            "resources_total": {"TPU": 8.0, "GPU": 8.0},
            "start_time_ms": (world.now - HOUR) * 1000,
        }
    )
    return pod


def dynamic(world: World, reason: str, *, ago: float = 900, message: str = "") -> str:
    name = world.add("v7x-32")
    for index in range(4):
        world.node_of(name, index)["metadata"]["labels"]["cloud.google.com/gke-tpu-slice"] = (
            "slice-a"
        )
    world.slice_objects.append(
        {
            "metadata": {"name": "slice-a"},
            "spec": {"type": "tpu7x", "topology": "2x2x4"},
            "status": {
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True" if reason == "ACTIVE" else "False",
                        "reason": reason,
                        "message": message,
                        "lastTransitionTime": format_time(world.now - ago),
                    }
                ]
            },
        }
    )
    return name


@scene(("DynamicSliceDegraded", None, "FAILED"), statuses={"ml/train/v7x-32-group-0": ("broken",)})
def a_slice_object_failed_in_use() -> World:
    world = World()
    name = dynamic(world, "FAILED", message="OCS switch error")
    world.gang("train", name, pod_type="v7x-32")
    return world


@scene(
    ("DynamicSliceDegraded", None, "ACTIVE_DEGRADED"),
    statuses={"ml/train/v7x-32-group-0": ("idle",)},
)
def a_slice_object_degraded() -> World:
    world = World()
    dynamic(world, "ACTIVE_DEGRADED")
    return world


@scene(("DynamicSliceDegraded", None, "UNHEALTHY"))
def a_partition_is_unhealthy() -> World:
    world = World()
    name = dynamic(world, "ACTIVE")
    world.node_of(name, 2)["metadata"]["labels"][
        "cloud.google.com/gke-tpu-partition-4x4x4-state"
    ] = "UNHEALTHY"
    return world


@scene()
def a_slice_object_is_active() -> World:
    world = World()
    name = dynamic(world, "ACTIVE")
    world.node_of(name, 2)["metadata"]["labels"][
        "cloud.google.com/gke-tpu-partition-4x4x4-state"
    ] = "HEALTHY"
    return world


@scene()
def a_slice_object_activates() -> World:
    world = World()
    dynamic(world, "ACTIVATING", ago=100)
    return world


@scene(("SourceDown", None, "nodes"), unknown=("HostMaintenance", "RuntimeFault"))
def nodes_cannot_be_listed() -> World:
    world = World()
    world.add()
    world.drop.add("kubernetes:nodes")
    return world


@scene(("DynamicSliceDegraded", None, "slice-a"))
def a_slice_object_that_failed_before_any_host_came() -> World:
    world = World()
    dynamic(world, "FAILED")
    for node in world.nodes:
        node["metadata"]["labels"].pop("cloud.google.com/gke-tpu-slice")
    return world
