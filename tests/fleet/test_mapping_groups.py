"""Placement groups, who works in them, and who holds a slice."""

from __future__ import annotations

import pytest

from fleet.observation import Truncation
from tests.fleet.scene import NOW, Scene

ALL = [f"ray-v6e-group-0-{n}" for n in range(4)]
BY_NAME = {"ray.io/tpu-slice-name": "v6e-group-0"}


def two_slices() -> Scene:
    scene = Scene()
    scene.slice("v6e-group-0")
    scene.slice("v6e-group-1")
    return scene


@pytest.mark.parametrize(
    ("nodes", "chips", "role"),
    [
        (ALL, 4.0, "slice"),
        ([node for node in ALL for _ in range(4)], 1.0, "slice"),
        (ALL + [f"ray-v6e-group-1-{n}" for n in range(4)], 4.0, "multislice"),
        (ALL[:2], 4.0, "subslice"),
        (ALL[:1], 4.0, "subslice"),
        ([ALL[0], ALL[3]], 4.0, "other"),
        ([*ALL, "ray-v6e-group-1-0"], 4.0, "other"),
        ([*ALL[:2], "ray-v6e-group-1-0"], 4.0, "other"),
    ],
)
def test_the_role_follows_from_where_the_bundles_lie(
    nodes: list[str], chips: float, role: str
) -> None:
    scene = two_slices()
    scene.group("g", list(nodes), chips=chips)
    assert scene.fleet().placement_groups[0].role == role


def test_head_reservations_and_groups_without_tpus() -> None:
    scene = two_slices()
    scene.group("", [ALL[0]], resources={"TPU-v6e-16-head": 1.0})
    scene.group("cpu", [None], resources={"CPU": 1.0}, state="PENDING")
    head, cpu = scene.fleet().placement_groups
    assert (head.role, head.wanted_pod_type) == ("head", "v6e-16")
    assert (cpu.role, cpu.waiting) == ("other", True)
    assert cpu.pending_seconds == pytest.approx(3600)
    (first, second) = scene.fleet().slices
    assert first.head_held_by == (head.key,)
    assert second.head_held_by == ()
    assert first.holding == "free", "a head reservation alone takes no chips"


def test_a_waiting_group_is_what_its_selectors_ask_for() -> None:
    scene = two_slices()
    scene.group("whole", [None] * 4, state="PENDING", selector=BY_NAME)
    scene.group("gone", [None] * 4, state="PENDING", selector={"ray.io/tpu-slice-name": "gone-7"})
    scene.group("naive", [None] * 4, state="PENDING")
    whole, gone, naive = scene.fleet().placement_groups
    assert (whole.role, whole.wanted_slices, whole.slices) == ("slice", ("v6e-group-0",), ())
    assert (gone.role, gone.wanted_slices) == ("slice", ("gone-7",))
    assert naive.role == "other"
    assert len(whole.unplaced) == 4


def test_removed_groups_hold_nothing() -> None:
    scene = two_slices()
    scene.group("old", list(ALL), state="REMOVED")
    fleet = scene.fleet()
    assert fleet.placement_groups == ()
    assert fleet.slices[0].holding == "free"


def test_a_group_that_lost_a_host_waits_since_the_host_died() -> None:
    scene = two_slices()
    scene.die(ALL[2], ago=77)
    scene.group("train", [ALL[0], ALL[1], None, ALL[3]], state="RESCHEDULING", selector=BY_NAME)
    group = scene.fleet().placement_groups[0]
    assert group.role == "slice"
    assert group.pending_seconds == pytest.approx(77)
    assert [bundle.index for bundle in group.unplaced] == [2]


def test_holdings() -> None:
    scene = two_slices()
    first = scene.group("train", list(ALL))
    scene.group("half", ["ray-v6e-group-1-0", "ray-v6e-group-1-1"])
    for index, node in enumerate(ALL):
        scene.actor(node, first, index=index)
    one, two = scene.fleet().slices
    assert (one.holding, len(one.workers)) == ("whole", 4)
    assert (two.holding, len(two.workers)) == ("part", 0)
    scene.group("other-half", ["ray-v6e-group-1-2", "ray-v6e-group-1-3"])
    assert scene.fleet().slices[1].holding == "several"


def test_a_gang_without_a_placement_group_holds_its_slice_too() -> None:
    scene = two_slices()
    for node in ALL:
        scene.actor(node, None)
    item = scene.fleet().slices[0]
    assert item.holding == "whole"
    assert len(item.workers) == 4


def test_workers_know_bundle_host_and_fate() -> None:
    scene = two_slices()
    group = scene.group("train", list(ALL))
    scene.actor(ALL[2], group, index=3)
    died = scene.actor(ALL[1], group, index=1, state="DEAD")
    died["death_cause"] = {
        "actor_died_error_context": {
            "reason": "NODE_DIED",
            "error_message": "The actor died because its node has died.\nmore",
        }
    }
    killed = scene.actor(ALL[0], group, index=0, state="DEAD")
    killed["death_cause"] = {"actor_died_error_context": {"reason": "RAY_KILL"}}
    scene.tasks.append(
        {
            "task_id": "t1",
            "name": "TrainWorker.run",
            "state": "RUNNING",
            "actor_id": "actor-0",
            "start_time_ms": (NOW - 50) * 1000,
        }
    )
    workers = {worker.id: worker for worker in scene.fleet().placement_groups[0].workers}
    alive = workers["actor-0"]
    assert (alive.alive, alive.bundle_index) == (True, 3)
    assert alive.slice_id == "ml/train/v6e-group-0"
    assert alive.running_task == "TrainWorker.run"
    assert alive.since == pytest.approx(NOW - 50)
    assert workers["actor-1"].dead
    assert not workers["actor-1"].on_purpose
    assert workers["actor-1"].death == "The actor died because its node has died."
    assert workers["actor-2"].on_purpose


def test_what_cannot_be_seen_is_never_free() -> None:
    scene = two_slices()
    scene.ray_source = {
        "status": "degraded",
        "complete": False,
        "truncated": (Truncation(part="placement_groups", total=20000, rows=10000),),
    }
    item = scene.fleet().slices[0]
    assert item.holding == "unknown"
    assert item.blind
    group = scene.group("train", list(ALL))
    for index, node in enumerate(ALL):
        scene.actor(node, group, index=index)
    item = scene.fleet().slices[0]
    assert item.holding == "whole"
    assert not item.blind, "more rows could not take this back"


def test_samples_are_joined_by_node_id_or_unambiguous_ip() -> None:
    import msgspec

    from fleet.mapping import build_fleet
    from fleet.observation import TpuSample

    scene = two_slices()
    observation = scene.observation()
    samples = (
        TpuSample(metric="duty_cycle", value=90.0, chip="0", ray_node_id=ALL[0]),
        TpuSample(metric="duty_cycle", value=70.0, chip="1", ray_node_id=ALL[0]),
        TpuSample(metric="duty_cycle", value=10.0, node_ip="10.0.0.2"),
    )
    ray = msgspec.structs.replace(observation.ray[0], tpu_samples=samples)
    fleet = build_fleet(msgspec.structs.replace(observation, ray=(ray,)))
    assert fleet.tpu_use[f"ml/train/{ALL[0]}"].duty_cycle == pytest.approx(0.8)
    assert fleet.tpu_use[f"ml/train/{ALL[1]}"].duty_cycle == pytest.approx(0.1)
