"""Gangs that hang, and reservations that do nothing."""

from __future__ import annotations

from tests.scenarios.scene import scene
from tests.scenarios.world import HOUR, World

S0 = "v6e-16-group-0"


@scene(("GangMemberDead", None, "train"))
def an_actor_died_by_itself() -> World:
    world = World()
    identity = world.gang("train", world.add())
    world.kill(world.actors_of(identity)[1], ago=400, cause="WORKER_DIED")
    return world


@scene(("GangMemberDead", None, "train"), may=("HostRestartedAlone",))
def a_host_came_back_and_the_actor_did_not() -> World:
    world = World()
    name = world.add()
    identity = world.gang("train", name)
    world.kill(world.actors_of(identity)[0], ago=200)
    world.ray_nodes.append(
        {
            **world.host(name, 3),
            "node_id": "old",
            "state": "DEAD",
            "end_time_ms": (world.now - 200) * 1000,
        }
    )
    world.host(name, 3)["start_time_ms"] = (world.now - 150) * 1000
    return world


@scene(("GangMemberDead", None, "rank 1 failed"))
def a_lone_task_failed() -> World:
    world = World()
    name = world.add()
    identity = world.gang("tasks", name, actors=0)
    for index, node in enumerate(reversed(world.nodes_of_slice(name))):
        world.tasks.append(
            {
                "task_id": f"rank-{index}",
                "name": "train",
                "type": "NORMAL_TASK",
                "job_id": "01000000",
                "placement_group_id": identity,
                "required_resources": {f"TPU_group_{index}_{identity}": 4.0},
                "node_id": node,
                "attempt_number": 0,
                "state": "RUNNING" if index != 1 else "FAILED",
                "error_message": None if index != 1 else "rank 1 failed",
                "start_time_ms": (world.now - HOUR) * 1000,
                "end_time_ms": None if index != 1 else (world.now - 300) * 1000,
            }
        )
    return world


@scene(("GangIncomplete", None, "train"), statuses={f"ml/train/{S0}": ("reserved",)})
def workers_on_one_of_four_hosts() -> World:
    world = World()
    world.gang("train", world.add(), actors=1, age=HOUR)
    return world


@scene(("GangIncomplete", None, "train"))
def one_of_two_slices_was_never_started() -> World:
    world = World()
    world.gang("train", world.add(), world.add(), actors=4, age=HOUR)
    return world


@scene()
def a_gang_whose_others_have_finished() -> World:
    world = World()
    name = world.add()
    identity = world.gang("train", name, actors=2, age=HOUR)
    nodes = list(reversed(world.nodes_of_slice(name)))
    for index in (2, 3):
        actor = world.worker(identity, index, nodes[index], running=False)
        world.kill(actor, ago=30, cause="RAY_KILL")
    return world


@scene(unknown=("GangIncomplete", "GangMemberDead"), may=("SourceDown",))
def tasks_are_missing() -> World:
    world = World()
    world.gang("train", world.add(), actors=1, age=HOUR)
    world.drop.add("ray:tasks")
    return world


@scene(("ReservationIdle", None, "forgotten"), statuses={f"ml/train/{S0}": ("reserved",)})
def reservation_idle_for_an_hour() -> World:
    world = World()
    world.gang("forgotten", world.add(), actors=0, age=HOUR)
    return world


def stalled(duty: list[float], *, minutes: range, **more: float) -> list[World]:
    looks = []
    for minute in minutes:
        world = World()
        world.now += minute * 60
        name = world.add()
        world.gang("train", name, age=2 * HOUR)
        world.duty(name, duty, tensorcore_utilization=0, **more)
        looks.append(world)
    return looks


@scene(("GangStalled", None, "train"))
def chips_do_nothing_for_a_quarter_of_an_hour() -> list[World]:
    return stalled([0, 0, 0.4, 0], minutes=range(0, 18, 3))


@scene()
def chips_rest_for_five_minutes() -> list[World]:
    return stalled([0, 0, 0, 0], minutes=range(6))


@scene(unknown=("GangStalled",))
def zeros_that_mean_no_data() -> list[World]:
    return stalled([0, 0, 0, 0], minutes=range(0, 18, 3), memory_total=0.0)


@scene(("GangStraggler", None, "worker 2"))
def one_host_does_nothing() -> list[World]:
    return stalled([96, 97, 2, 95], minutes=range(0, 6))


@scene(("GangStraggler", None, "worker 2"))
def one_host_differs_in_a_single_look() -> list[World]:
    return stalled([96, 97, 2, 95], minutes=range(1))


@scene(("GangMemberDead", None, "train"))
def a_stall_behind_a_dead_member_is_no_second_finding() -> list[World]:
    looks = stalled([0, 0, 0, 0], minutes=range(0, 18, 3))
    for world in looks:
        actor = world.actors_of(world.groups[-1]["placement_group_id"])[0]
        world.kill(actor, ago=1500, cause="WORKER_DIED")
    return looks


@scene(("GangMemberDead", None, "ValueError"))
def the_task_of_one_rank_failed_and_its_actor_lives() -> World:
    world = World()
    world.gang("train", world.add())
    world.tasks[1] |= {
        "state": "FAILED",
        "error_type": "TASK_EXECUTION_EXCEPTION",
        "error_message": "ValueError: shapes differ",
        "end_time_ms": (world.now - 300) * 1000,
    }
    return world


@scene(("GangMemberDead", None, "train"))
def a_helper_in_the_same_bundle_does_not_stand_in_for_a_dead_rank() -> World:
    world = World()
    name = world.add()
    identity = world.gang("train", name)
    world.kill(world.actors_of(identity)[2], ago=400, cause="WORKER_DIED")
    helper = world.worker(identity, 2, f"ray-{name}-1")
    helper["required_resources"] = {f"CPU_group_2_{identity}": 1.0}
    return world


@scene(("ReservationIdle", None, "PENDING_CREATION"))
def actors_that_are_never_placed() -> World:
    world = World()
    name = world.add()
    identity = world.gang("train", name, actors=0, age=HOUR)
    for index in range(4):
        world.actor(None, identity, index=index, state="PENDING_CREATION")
    return world
