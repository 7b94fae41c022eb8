"""Placement groups that are split, wait for good or bad reasons, or hold what nobody uses."""

from __future__ import annotations

from tests.scenarios.scene import scene
from tests.scenarios.world import HOUR, World

S0, S1 = "v6e-16-group-0", "v6e-16-group-1"
NAME = "ray.io/tpu-slice-name"


@scene(("PlacementSplit", None, "naive"), statuses={f"ml/train/{S0}": ("shared",)})
def split_over_two_slices() -> World:
    world = World()
    first, second = world.add(), world.add()
    nodes = [f"ray-{first}-0", f"ray-{first}-2", f"ray-{second}-1", f"ray-{second}-3"]
    identity = world.group("naive", list(nodes))
    for index, node in enumerate(nodes):
        world.worker(identity, index, node)
    return world


@scene(("PlacementSplit", None, "greedy"))
def one_slice_filled_and_part_of_another() -> World:
    world = World()
    first, second = world.add(), world.add()
    world.group("greedy", [*world.nodes_of_slice(first), f"ray-{second}-0"])
    return world


@scene(("PlacementSplit", None, "naive"))
def split_over_bare_ray() -> World:
    world = World(kubernetes=False)
    first, second = world.add("v5p-16"), world.add("v5p-16")
    world.group("naive", [f"ray-{first}-0", f"ray-{second}-0"])
    return world


@scene(unknown=("PlacementSplit",), may=("SourceTruncated",))
def split_that_cannot_be_seen() -> World:
    world = World()
    first, second = world.add(), world.add()
    nodes = [*world.nodes_of_slice(first), *world.nodes_of_slice(second)]
    world.gang("two", first, second, actors=8)
    world.without_ray_node(nodes[5])
    world.truncate("nodes", 200, 100)
    return world


@scene(("PlacementSubset", None, "odd"))
def a_diagonal_of_a_slice() -> World:
    world = World()
    name = world.add()
    identity = world.group("odd", [f"ray-{name}-0", f"ray-{name}-3"])
    for index, host in enumerate((0, 3)):
        world.worker(identity, index, f"ray-{name}-{host}")
    return world


@scene(("PlacementSubset", None, "quarter"))
def one_chip_of_each_host() -> World:
    world = World()
    name = world.add()
    world.group("quarter", world.nodes_of_slice(name), chips=1.0)
    return world


@scene(("PlacementPending", "Squatter", "wants"), may=("PlacementSubset",))
def a_squatter_on_a_reserved_slice() -> World:
    world = World()
    name = world.add()
    world.group("squatter", [f"ray-{name}-0", f"ray-{name}-3"], selector={NAME: name})
    world.head_group(name, age=1800)
    world.waiting("wants", selector={NAME: name})
    return world


@scene(("PlacementPending", "Squatter", "loner"))
def actors_without_a_group_squat() -> World:
    world = World()
    name = world.add()
    world.actor(f"ray-{name}-1", None)["name"] = "loner"
    world.head_group(name, age=1800)
    world.waiting("wants", selector={NAME: name})
    return world


@scene(("PlacementPending", "AllSlicesBusy", None))
def all_slices_busy() -> World:
    world = World()
    world.gang("a", world.add())
    world.gang("b", world.add())
    world.head_group(None, age=900)
    return world


@scene(("PlacementPending", "AllSlicesBusy", "greedy"))
def no_free_hosts_for_a_plain_group() -> World:
    world = World()
    world.gang("a", world.add())
    world.waiting("greedy", 2)
    return world


@scene(("PlacementPending", "NoSuchSlice", "v6e-64"))
def no_slice_of_that_shape() -> World:
    world = World()
    world.add()
    world.head_group(None, pod_type="v6e-64", age=900)
    return world


@scene(("PlacementPending", "NoSuchSlice", "greedy"))
def more_chips_than_the_cluster_has() -> World:
    world = World()
    world.add()
    world.waiting("greedy", 9)
    return world


@scene(("PlacementPending", "SliceGone", "gone-slice"))
def waits_for_a_slice_that_is_gone() -> World:
    world = World()
    world.add()
    world.waiting("orphan", selector={NAME: "gone-slice"})
    return world


@scene(("PlacementPending", "BundleTooLarge", "8 TPUs"))
def eight_chip_bundle_on_four_chip_hosts() -> World:
    world = World()
    world.add("v6e-8-two-hosts")
    world.waiting("big", 1, chips=8.0)
    return world


@scene(("PlacementPending", "ResourceNameMismatch", "TPU-v5litepod-16-head"))
def the_head_has_another_spelling() -> World:
    world = World()
    world.add("v5e-16")
    world.head_group(None, pod_type="v5e-16", age=900)
    return world


@scene(("HeadReservationLeaked", None, S0), statuses={f"ml/train/{S1}": ("running",)})
def head_leaked_and_another_waits() -> World:
    world = World()
    world.head_group(world.add(), age=1800)
    world.gang("ok", world.add())
    world.head_group(None, age=600)
    return world


@scene(("HeadReservationLeaked", None, S0))
def head_leaked_and_nobody_waits() -> World:
    world = World()
    world.head_group(world.add(), age=1800)
    return world


@scene()
def head_held_beside_actors_without_a_group() -> World:
    world = World()
    name = world.add()
    world.head_group(name, age=1800)
    for node in world.nodes_of_slice(name):
        world.actor(node, None)
    return world


@scene(("SchedulerLivelock", None, "spins"))
def a_livelock_and_nothing_else() -> World:
    """The host came back under another name: the slice is whole, the loop goes on."""
    world = World()
    world.add()
    world.waiting("spins", selector={NAME: S0}, age=800, attempts=80_000_000)
    world.waiting("cpu", 1, chips=0.0, age=700, attempts=0, resources={"CPU": 1.0})
    world.waiting("other", 4, age=600, attempts=0)
    return world


@scene(
    ("SchedulerLivelock", None, "spins"),
    ("PlacementPending", "Squatter", "wants"),
    may=("PlacementSubset",),
)
def a_livelock_does_not_hide_a_squatter() -> World:
    world = World()
    world.add()
    second = world.add()
    world.waiting("spins", selector={NAME: S0}, age=800, attempts=80_000_000)
    world.group("squatter", [f"ray-{second}-0", f"ray-{second}-3"])
    world.waiting("wants", selector={NAME: second}, age=HOUR, attempts=26)
    return world


@scene(("SliceIncomplete", None, "wants waits for it"))
def waits_for_an_incomplete_slice() -> World:
    world = World()
    name = world.add()
    world.die(f"ray-{name}-2", ago=300)
    world.waiting("wants", selector={NAME: name})
    return world


@scene(("ScaleUpFailed", None, "v6e-16-group"), ("PlacementPending", "ScaleUpFailed", "wants"))
def waits_for_what_the_cloud_does_not_give() -> World:
    world = World()
    name = world.add(age=300)
    for index in range(4):
        world.pending(f"{name}-pod-{index}")
        world.without_ray_node(f"ray-{name}-{index}")
    world.event("Pod", f"{name}-pod-0", "FailedScaleUp", "GCE out of resources", ago=60)
    world.waiting("wants", selector={NAME: name})
    return world


@scene(("PlacementHostLost", None, "lonely"))
def a_host_lost_outside_any_known_slice() -> World:
    world = World(kubernetes=False)
    world.add()
    world.group("lonely", ["gone-node", f"ray-{S0}-1"], state="RESCHEDULING", age=HOUR)
    world.groups[-1]["bundles"][0]["node_id"] = ""
    return world


@scene(unknown=("PlacementPending",), may=("SourceTruncated",))
def a_wait_whose_reason_cannot_be_seen() -> World:
    world = World()
    world.add()
    world.head_group(None, age=900)
    world.truncate("nodes", 500, 100)
    return world


@scene(("PlacementHostLost", None, "train"), may=("GangMemberDead",))
def the_host_is_back_and_the_group_still_waits() -> World:
    world = World()
    name = world.add()
    world.gang("train", name)
    world.lose_host(name, 1, ago=300)
    node = world.host(name, 1)
    world.ray_nodes.append(
        {
            **node,
            "node_id": "fresh",
            "state": "ALIVE",
            "start_time_ms": (world.now - 200) * 1000,
            "end_time_ms": 0,
        }
    )
    return world
