"""Gangs: incomplete, with dead members, stalled, with a straggler; and those that ended well."""

from __future__ import annotations

from typing import Any

from tests.scenarios.independent.payloads import HOUR, MINUTE, NOW, World
from tests.scenarios.independent.registry import bare, fleet, scene, silent

S0, S1 = "ml/train/v6e-group-0", "ml/train/v6e-group-1"


# --- GangIncomplete -----------------------------------------------------------------------------


@scene(
    ("GangIncomplete", None, "train"), exit=1, each=["one", "three", "tasks", "bare", "multislice"]
)
def gang_incomplete(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    if how == "multislice":
        cluster.gang("train", *slices, workers=6)
        return world
    count = 1 if how == "one" else 3
    cluster.gang("train", slices[0], workers=count, work="task" if how == "tasks" else "actor")
    return world


@scene(("GangIncomplete", None, "train"), exit=1, each=["PENDING_CREATION", "DEPENDENCIES_UNREADY"])
def gang_whose_rest_is_still_being_created(state: str) -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0], workers=2)
    for index in (2, 3):
        cluster.actor(group, index, state=state, with_task=False, node="")
    return world


@silent(statuses={S0: "reserved"}, each=["none-yet", "two"])
def gang_that_starts(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0], workers=0 if how == "none-yet" else 2, age=3 * MINUTE)
    return world


@silent(may="GangIncomplete")
def group_is_old_but_its_actors_are_young() -> World:
    """The driver made its actors two minutes ago on a group it holds for hours: still starting."""
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0], workers=0)
    for index in range(2):
        cluster.actor(group, index, age=2 * MINUTE)
    return world


# --- GangMemberDead -----------------------------------------------------------------------------


def dead(cluster: Any, index: int, reason: str = "WORKER_DIED", message: str = "") -> None:
    cluster.kill(cluster.actors[index], reason, message)


@scene(
    ("GangMemberDead", None, "train"),
    may="GangIncomplete",
    exit=1,
    each=["worker-died", "oom", "two", "bare", "unnamed-reason", "creation-failed"],
)
def gang_member_dead(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    cluster.gang("train", slices[0])
    if how == "oom":
        dead(cluster, 1, "OUT_OF_MEMORY", "The actor's worker was killed: out of memory")
    elif how == "two":
        dead(cluster, 1)
        dead(cluster, 2)
    elif how == "creation-failed":
        dead(cluster, 1)
        cluster.actors[1]["death_cause"] = {
            "creation_task_failure_context": {"error_message": "RuntimeError in __init__"}
        }
    elif how == "unnamed-reason":
        dead(cluster, 1)
        cluster.actors[1]["death_cause"] = None
    else:
        dead(cluster, 1)
    return world


@scene(("GangMemberDead", None, "train"), may="GangIncomplete", exit=1)
def gang_task_failed() -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0], work="task")
    task = cluster.tasks[2]
    task |= {
        "state": "FAILED",
        "error_type": "WORKER_DIED",
        "error_message": "Worker exit",
        "end_time_ms": int((NOW - 20 * MINUTE) * 1000),
    }
    return world


@scene(("GangMemberDead", None, "train"), may="GangIncomplete", exit=1)
def gang_member_dead_in_multislice() -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", *slices)
    dead(cluster, 5)
    return world


@scene(("GangMemberDead", None, None), may="GangIncomplete", exit=1)
def gang_member_dead_unnamed_group() -> World:
    world, cluster, slices = fleet()
    cluster.gang("", slices[0])
    dead(cluster, 0)
    return world


@silent(each=["SUCCEEDED", "FAILED", "STOPPED"], may="ReservationIdle", never="GangMemberDead")
def job_over_and_group_remains(status: str) -> World:
    """All actors ended with their owner; the (detached) group is still there."""
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    group["is_detached"] = True
    cluster.end(group, status=status, removed=False)
    return world


@silent(may="ReservationIdle", never="GangMemberDead", each=["WORKER_DIED", "NODE_DIED"])
def whole_gang_dead(reason: str) -> World:
    """Nobody is left to wait: the group rests, it does not hang."""
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    for index in range(4):
        dead(cluster, index, reason)
    return world


@silent(statuses={S0: "running"})
def former_workers_of_a_restarted_gang() -> World:
    """The trainer killed its first set of workers and made a second one in the same group."""
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    for index in range(4):
        dead(cluster, index)
    for index in range(4):
        cluster.actor(group, index, age=15 * MINUTE)
    return world


@silent(statuses={S0: "running"})
def one_worker_restarted_in_place() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    dead(cluster, 1)
    cluster.actor(group, 1, age=15 * MINUTE)
    return world


@silent(statuses={S0: "running"})
def helper_actor_finished() -> World:
    """A set-up actor that held no TPU and ended on purpose."""
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    helper = cluster.actor(
        group,
        0,
        state="DEAD",
        death={
            "actor_died_error_context": {
                "error_message": "The actor is dead because all references to the actor were removed.",
                "reason": "OUT_OF_SCOPE",
                "never_started": False,
            }
        },
    )
    helper["class_name"] = "DataPrep"
    helper["required_resources"] = {f"CPU_group_{group['placement_group_id']}": 1.0}
    return world


@silent(statuses={S0: "running"})
def finished_tasks_beside_running_ones() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    for index in range(4):
        cluster.task(group, index, state="FINISHED")
    return world


# --- GangStalled, GangStraggler -----------------------------------------------------------------


@scene(("GangStalled", None, "train"), exit=1, each=["zero", "half-percent", "bare", "multislice"])
def gang_stalled(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    over = slices if how == "multislice" else slices[:1]
    cluster.gang("train", *over, duty=0.5 if how == "half-percent" else 0.0)
    return world


@scene(("GangStraggler", None, "train"), exit=0, each=["idle-host", "half", "busy-host", "bare"])
def gang_straggler(how: str) -> World:
    world, cluster, slices = bare() if how == "bare" else fleet()
    cluster.gang("train", slices[0])
    for host in slices[0].hosts:
        odd = host.worker == 2
        usual, strange = {
            "idle-host": (97, 0),
            "half": (97, 30),
            "busy-host": (3, 100),
            "bare": (97, 0),
        }[how]
        cluster.duty(host, strange if odd else usual)
    return world


@silent(may="GangStraggler")
def one_host_has_no_series() -> World:
    """Peers have the series: a straggler (4.1), or a scrape that switched itself off."""
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    for host in slices[0].hosts[:3]:
        cluster.duty(host, 97.0)
    return world


@silent(each=["even", "jitter", "no-metrics", "young", "one-slice-of-metrics"])
def gang_at_work(how: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0], age=4 * MINUTE if how == "young" else 2 * HOUR)
    if how == "no-metrics":
        return world
    for host in slices[0].hosts:
        value = {
            "even": 97.0,
            "jitter": 88.0 + 3 * host.worker,
            "young": 0.0,
            "one-slice-of-metrics": 96.0,
        }[how]
        cluster.duty(host, value)
    return world


@silent(each=["idle", "reserved"], may="ReservationIdle")
def chips_idle_and_no_gang(how: str) -> World:
    world, cluster, slices = fleet()
    if how == "reserved":
        cluster.gang("train", slices[0], workers=0, age=5 * MINUTE)
    for host in slices[0].hosts:
        cluster.duty(host, 0.0)
    return world
