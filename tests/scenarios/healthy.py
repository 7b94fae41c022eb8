"""Nothing is wrong: every one of these must be silent."""

from __future__ import annotations

from fleet.times import format_time
from tests.scenarios.scene import scene
from tests.scenarios.world import HOUR, SHAPES, World

RUNNING = {"ml/train/v6e-16-group-0": ("running",)}


@scene(statuses={"ml/train/v6e-16-group-0": ("idle",)})
def idle() -> World:
    world = World()
    world.add()
    return world


@scene(statuses=RUNNING)
def running() -> World:
    world = World()
    world.gang("train", world.add())
    world.duty("v6e-16-group-0", [97, 96, 98, 97], tensorcore_utilization=60)
    return world


@scene(statuses={"-/default/v6e-16-group-0": ("running",)})
def running_without_kubernetes() -> World:
    world = World(kubernetes=False)
    world.gang("train", world.add())
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("running",), "ml/train/v6e-16-group-1": ("running",)})
def multislice() -> World:
    world = World()
    world.gang("two", world.add(), world.add())
    return world


@scene(statuses=RUNNING)
def one_bundle_a_chip() -> World:
    world = World()
    name = world.add()
    nodes = [node for node in world.nodes_of_slice(name) for _ in range(4)]
    identity = world.group("fine", nodes, chips=1.0)
    for index, node in enumerate(nodes):
        world.worker(identity, index, node)["required_resources"] = {
            f"TPU_group_{index}_{identity}": 1.0
        }
    return world


@scene()
def every_shape_runs() -> World:
    world = World()
    for shape in SHAPES:
        name = world.add(shape)
        world.gang(f"train-{shape}", name, pod_type=str(SHAPES[shape].get("pod_type", "v6e-16")))
    return world


@scene()
def every_shape_legacy() -> World:
    world = World()
    for shape in SHAPES:
        world.add(shape, regime="legacy")
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("shared",)})
def a_real_subslice() -> World:
    world = World()
    name = world.add()
    identity = world.group("half", [f"ray-{name}-0", f"ray-{name}-1"])
    for index in range(2):
        world.worker(identity, index, f"ray-{name}-{index}")
    return world


@scene()
def a_subslice_named_by_worker() -> World:
    world = World()
    name = world.add()
    identity = world.group("part", [f"ray-{name}-0", f"ray-{name}-3"])
    for bundle, index in zip(world.groups[-1]["bundles"], (0, 3), strict=True):
        bundle["label_selector"] = {
            "ray.io/tpu-slice-name": name,
            "ray.io/tpu-worker-id": str(index),
        }
        world.worker(identity, bundle["bundle_id"]["bundle_index"], bundle["node_id"])
    return world


@scene()
def one_chip_of_one_host() -> World:
    world = World()
    name = world.add()
    identity = world.group("notebook", [f"ray-{name}-2"], chips=1.0)
    world.worker(identity, 0, f"ray-{name}-2")
    return world


@scene()
def data_parallel_over_single_hosts() -> World:
    world = World()
    nodes = [f"ray-{world.add('v5e-8')}-0" for _ in range(4)]
    identity = world.group("replicas", nodes[:3], chips=4.0)
    for index, node in enumerate(nodes[:3]):
        world.worker(identity, index, node)
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("running",)})
def actors_without_a_group() -> World:
    world = World()
    for node in world.nodes_of_slice(world.add()):
        world.actor(node, None)
    return world


@scene(statuses={"ml/train/v6e-16-group-1": ("forming",)})
def scaling_up() -> World:
    world = World()
    world.add()
    name = world.add(age=240.0)
    for index in (2, 3):
        world.without_ray_node(f"ray-{name}-{index}")
        world.not_ready(f"{name}-pod-{index}")
        world.pod_of(name, index)["status"]["containerStatuses"][0] |= {
            "ready": False,
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("forming",)})
def scaling_up_with_pods_that_wait_for_nodes_and_a_group_that_waits_for_them() -> World:
    world = World()
    name = world.add(age=300.0)
    for index in range(4):
        world.without_ray_node(f"ray-{name}-{index}")
        world.pending(
            f"{name}-pod-{index}", "0/3 nodes are available: 3 Insufficient google.com/tpu."
        )
        world.event(
            "Pod", f"{name}-pod-{index}", "TriggeredScaleUp", "pod triggered scale-up", ago=200
        )
    world.head_group(None, age=280.0)
    return world


@scene()
def a_failed_scale_up_that_was_tried_again() -> World:
    world = World()
    name = world.add(age=300.0)
    for index in range(4):
        world.without_ray_node(f"ray-{name}-{index}")
        world.pending(f"{name}-pod-{index}")
        world.event("Pod", f"{name}-pod-{index}", "FailedScaleUp", "GCE out of resources", ago=200)
        world.event(
            "Pod", f"{name}-pod-{index}", "TriggeredScaleUp", "pod triggered scale-up", ago=90
        )
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("forming",)})
def gated_by_kueue_for_hours() -> World:
    world = World()
    name = world.add(age=5 * HOUR)
    for index in range(4):
        world.without_ray_node(f"ray-{name}-{index}")
        world.pending(f"{name}-pod-{index}", "gated")
        world.pod_of(name, index)["spec"]["schedulingGates"] = [
            {"name": "kueue.x-k8s.io/admission"}
        ]
    return world


@scene()
def suspended_cluster() -> World:
    world = World(ray=False)
    world.groups_spec.append(
        {"groupName": "v6e-16-group", "replicas": 2, "numOfHosts": 4, "template": {"spec": {}}}
    )
    world.ray_clusters[0]["spec"]["suspend"] = True
    world.ray_source = {"status": "suspended"}
    world.pods.clear()
    world.nodes.clear()
    return world


@scene()
def scaled_down_pods_all_terminating() -> World:
    world = World()
    world.add()
    name = world.add()
    for index in range(4):
        world.pod_of(name, index)["metadata"]["deletionTimestamp"] = format_time(world.now - 20)
        if index < 2:
            world.die(f"ray-{name}-{index}", ago=10)
    world.spec("v6e-16-group")["replicas"] = 1
    return world


@scene()
def slice_gone_with_only_dead_nodes_left() -> World:
    world = World(kubernetes=False)
    world.add()
    name = world.add()
    for index in range(4):
        world.die(f"ray-{name}-{index}", ago=1000 + index)
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("forming",)})
def rolling_restart_of_a_whole_slice() -> World:
    world = World()
    name = world.add(age=6 * HOUR)
    for index in range(4):
        world.die(f"ray-{name}-{index}", ago=200)
        world.without_pod(f"{name}-pod-{index}")
        world.ray_node(f"ray-{name}-{index}")["node_id"] = f"old-{index}"
    world.spec("v6e-16-group")["replicas"] = 0
    world.add(name=name, age=150.0, suffix="")
    world.ray_nodes = [node for node in world.ray_nodes if node["node_id"] != f"ray-{name}-3"]
    world.not_ready(f"{name}-pod-3")
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("idle",)})
def a_slice_that_was_made_anew_and_kept_its_name() -> World:
    world = World()
    name = world.add(age=6 * HOUR)
    for index in range(4):
        world.die(f"ray-{name}-{index}", ago=2 * HOUR)
        world.without_pod(f"{name}-pod-{index}")
        world.ray_node(f"ray-{name}-{index}")["node_id"] = f"old-{index}"
    world.spec("v6e-16-group")["replicas"] = 0
    world.add(name=name, age=2 * HOUR - 60)
    return world


@scene()
def gang_that_starts() -> World:
    world = World()
    world.gang("train", world.add(), age=100.0, actors=2)
    return world


@scene()
def gang_that_was_started_again_in_its_group() -> World:
    world = World()
    name = world.add()
    identity = world.gang("train", name, age=3 * HOUR)
    for actor in world.actors_of(identity):
        world.kill(actor, ago=HOUR, cause="WORKER_DIED")
    for index, node in enumerate(reversed(world.nodes_of_slice(name))):
        world.worker(identity, index, node, ago=HOUR - 60)
    return world


@scene()
def gang_that_ended_as_a_whole() -> World:
    world = World()
    identity = world.gang("train", world.add(), age=3 * HOUR)
    for actor in world.actors_of(identity):
        world.kill(actor, ago=60, cause="WORKER_DIED")
    return world


@scene()
def gang_of_which_some_were_killed_on_purpose() -> World:
    world = World()
    identity = world.gang("train", world.add())
    world.kill(world.actors_of(identity)[1], ago=5, cause="RAY_KILL")
    world.kill(world.actors_of(identity)[2], ago=5, cause="RAY_KILL")
    return world


@scene()
def failed_tasks_that_were_tried_again() -> World:
    world = World()
    name = world.add()
    identity = world.gang("tasks", name, actors=0)
    for index, node in enumerate(reversed(world.nodes_of_slice(name))):
        resources = {f"TPU_group_{index}_{identity}": 4.0}
        common = {
            "task_id": f"rank-{index}",
            "name": "train",
            "type": "NORMAL_TASK",
            "job_id": "01000000",
            "placement_group_id": identity,
            "required_resources": resources,
            "node_id": node,
        }
        started = (world.now - HOUR) * 1000
        world.tasks.append(
            {**common, "attempt_number": 0, "state": "FAILED", "start_time_ms": started}
        )
        world.tasks.append(
            {**common, "attempt_number": 1, "state": "RUNNING", "start_time_ms": started + 60_000}
        )
    return world


@scene()
def removed_groups_hold_nothing() -> World:
    world = World()
    name = world.add()
    world.group("old", [f"ray-{name}-0", f"ray-{name}-3"], state="REMOVED")
    world.group("older", [None], state="REMOVED", attempts=5_000_000)
    return world


@scene(statuses={"ml/train/v6e-16-group-0": ("running",)})
def a_high_old_counter_of_attempts() -> World:
    world = World()
    world.gang("train", world.add())
    for group in world.groups:
        group["stats"]["scheduling_attempt"] = 1_804_695
    return world


@scene()
def a_short_wait() -> World:
    world = World()
    world.gang("train", world.add())
    world.head_group(None, age=90.0)
    return world


@scene()
def a_fresh_head_reservation() -> World:
    world = World()
    name = world.add()
    world.head_group(name, age=30.0)
    return world


@scene()
def a_young_reservation() -> World:
    world = World()
    world.gang("train", world.add(), age=300.0, actors=0)
    return world


@scene()
def a_reservation_between_two_jobs() -> World:
    world = World()
    name = world.add()
    identity = world.gang("train", name, age=3 * HOUR, actors=0)
    world.tasks.append(
        {
            "task_id": "done",
            "name": "train",
            "type": "NORMAL_TASK",
            "state": "FINISHED",
            "job_id": "01000000",
            "placement_group_id": identity,
            "required_resources": {f"TPU_group_0_{identity}": 4.0},
            "node_id": f"ray-{name}-0",
            "start_time_ms": (world.now - HOUR) * 1000,
            "end_time_ms": (world.now - 300) * 1000,
        }
    )
    return world


@scene()
def a_group_for_cpus_waits() -> World:
    world = World()
    world.add()
    world.group("cpu-only", [None], state="PENDING", resources={"CPU": 500.0}, age=2 * HOUR)
    return world


@scene()
def two_clusters_in_maintenance_long_past() -> World:
    world = World()
    name = world.add()
    world.node_of(name, 1)["metadata"]["labels"]["cloud.google.com/scheduled-maintenance-time"] = (
        str(int(world.now - 5 * HOUR))
    )
    return world


@scene()
def a_node_that_has_just_come_offers_no_chips_yet() -> World:
    world = World()
    name = world.add(age=60.0)
    for index in range(4):
        world.node_of(name, index)["status"]["allocatable"] = {"cpu": "100"}
        world.node_of(name, index)["metadata"]["creationTimestamp"] = format_time(world.now - 50)
    return world


@scene()
def head_restarted_ten_seconds_ago() -> World:
    world = World()
    name = world.add()
    world.ray_nodes[0]["start_time_ms"] = (world.now - 10) * 1000
    world.ray_nodes[0]["node_id"] = "new-head"
    world.ray_nodes.append(
        {
            **world.ray_nodes[0],
            "node_id": "old-head",
            "start_time_ms": (world.now - 8 * HOUR) * 1000,
        }
    )
    world.group("train", [f"ray-{name}-0", None, None, None], state="RESCHEDULING")
    return world


@scene()
def wants_a_slice_that_forms() -> World:
    world = World()
    name = world.add(age=200.0)
    world.without_ray_node(f"ray-{name}-1")
    world.not_ready(f"{name}-pod-1")
    world.waiting("eager", selector={"ray.io/tpu-slice-name": name}, age=180.0)
    return world


@scene()
def multislice_told_right() -> World:
    world = World()
    names = [world.add(), world.add()]
    for index, name in enumerate(names):
        for host in range(4):
            world.env(world.pod_of(name, host), "MEGASCALE_NUM_SLICES", "2")
            world.env(world.pod_of(name, host), "MEGASCALE_SLICE_ID", str(index))
    world.gang("two", *names)
    return world


@scene()
def logical_devices_on_v7x() -> World:
    world = World()
    name = world.add("v7x-32")
    for index in range(4):
        pod = world.pod_of(name, index)
        extra = {"name": "second", "resources": {"limits": {"google.com/tpu": "2"}}}
        pod["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"] = "2"
        pod["spec"]["containers"].append(extra)
    return world


@scene()
def chips_pause_in_one_look() -> list[World]:
    looks = []
    for minute, duty in enumerate((96, 0, 95)):
        world = World()
        world.now += minute * 60
        name = world.add()
        world.gang("train", name)
        world.duty(name, [duty] * 4)
        looks.append(world)
    return looks


@scene()
def chips_do_nothing_while_the_program_compiles() -> World:
    world = World()
    name = world.add()
    world.gang("train", name, age=300.0)
    world.duty(name, [0, 0, 0, 0])
    return world


@scene()
def an_idle_inference_server() -> list[World]:
    looks = []
    for minute in range(0, 16, 3):
        world = World()
        world.now += minute * 60
        name = world.add()
        identity = world.gang("serve", name, actors=0, age=HOUR)
        for index, node in enumerate(reversed(world.nodes_of_slice(name))):
            world.worker(identity, index, node, running=False)
        world.duty(name, [0, 0, 0, 0])
        looks.append(world)
    return looks


@scene()
def a_blip_of_one_look() -> list[World]:
    looks = []
    for number in range(4):
        world = World()
        world.now += number * 10
        name = world.add()
        if number == 2:
            world.without_ray_node(f"ray-{name}-1")
        looks.append(world)
    return looks


@scene()
def a_blip_in_the_last_look() -> list[World]:
    looks = []
    for number in range(3):
        world = World()
        world.now += number * 10
        name = world.add()
        if number == 2:
            world.without_ray_node(f"ray-{name}-1")
        looks.append(world)
    return looks
