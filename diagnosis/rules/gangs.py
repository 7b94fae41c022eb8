"""Gangs of which a member died, or some never started."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    group_subject,
    hit,
    look,
    ray_evidence,
    unknown,
)
from diagnosis.rules.members import (
    hosts_of,
    on_multi_host,
    place_label,
    place_of,
    tpu_workers,
    worker_name,
)
from diagnosis.rules.placement import group_links, who
from diagnosis.view import View, names_of, shorten
from fleet.model import ClusterView, PlacementGroup, Worker
from fleet.times import format_duration, format_time

ENDED_JOBS = frozenset({"SUCCEEDED", "STOPPED", "FAILED"})


def dead_members(group: PlacementGroup) -> tuple[list[Worker], list[Worker]]:
    """Members that died with nobody in their place, and those that still run.

    A dead worker does not count when it was stopped on purpose, when a live one sits in its place
    (same bundle, or same name), or when it ended before any of the present ones began (an earlier
    gang in the same group).
    """
    members = tpu_workers(group)
    alive = [worker for worker in members if worker.alive]
    if not alive:
        return [], []
    bundles = {worker.bundle_index for worker in alive if worker.bundle_index is not None}
    names = {worker.name for worker in alive if worker.name and worker.kind == "actor"}
    same_name = len(names) == len([worker for worker in alive if worker.kind == "actor"])
    starts = [worker.since for worker in alive]
    first = min((start for start in starts if start is not None), default=None)
    if None in starts:
        first = None
    dead = []
    for worker in members:
        if not worker.dead or worker.on_purpose or worker.finished:
            continue
        if worker.bundle_index is not None and worker.bundle_index in bundles:
            continue
        if same_name and worker.kind == "actor" and worker.name in names:
            continue
        if first is not None and worker.ended is not None and worker.ended <= first:
            continue
        dead.append(worker)
    failed = _failed_ranks(alive)
    return dead + failed, [worker for worker in alive if worker not in failed]


def _failed_ranks(alive: list[Worker]) -> list[Worker]:
    """Living actors whose task failed while their peers still run the same one."""
    running = {worker.running_task for worker in alive if worker.running_task is not None}
    return [worker for worker in alive if worker.failed_task in running and worker.failed_task]


def judge_member_dead(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``GangMemberDead``: some of a gang's workers died or failed while others still run.

    Facts: ray_2_60 "Failures reproduced" 3 (the actors on the other hosts stay ALIVE and RUNNING),
    gke_tpu R32 (actors survive a preemption, the job is stuck).
    Must not flag: a gang that ended as a whole; actors that were killed on purpose; a member that
    was started again; failed tasks of a job that is over; helpers without TPUs beside TPU workers.
    """
    for group in view.groups_of(cluster):
        if group.chips <= 0:
            continue
        job = view.fleet.job_status.get(f"{cluster.id}/{group.job_id}") if group.job_id else None
        if job in ENDED_JOBS and not group.detached:
            continue
        dead, alive = dead_members(group)
        if not dead or not alive:
            continue
        first = dead[0]
        said = first.death or first.failure
        death = f" ({shorten(said, 160)})" if said else ""
        ended = [end for worker in dead if (end := worker.ended or worker.failed_at) is not None]
        verb = "died" if first.dead else "failed"
        where = [place for worker in dead if (place := place_of(group, worker)) is not None]
        links = group_links(view, group)
        yield hit(
            "GangMemberDead",
            group_subject(group),
            f"{who(group)}: {names_of(worker_name(worker) for worker in dead)} {verb}{death}; "
            f"{len(alive)} others still run and wait for {'it' if len(dead) == 1 else 'them'} "
            "for ever.",
            severity="critical",
            evidence=[
                *(
                    ray_evidence(
                        cluster,
                        worker_name(worker),
                        "death_cause" if worker.kind == "actor" else "error_message",
                        f"{worker.state}: {worker.death or worker.failure or 'no reason given'}",
                    )
                    for worker in dead[:6]
                ),
                ray_evidence(
                    cluster, f"placement group {group.label}", "workers still running", len(alive)
                ),
                *(
                    (ray_evidence(cluster, worker_name(first), "ended", format_time(max(ended))),)
                    if ended
                    else ()
                ),
            ],
            actions=_dead_actions(view, cluster, group, dead),
            since=min(ended, default=None),
            links=Links(
                cluster=links.cluster,
                slices=links.slices,
                groups=links.groups,
                worker_groups=links.worker_groups,
                hosts=tuple(where),
            ),
            effect=f"placement group {group.label}: {names_of(worker_name(w) for w in dead)} died, "
            f"{len(alive)} others wait",
        )


def _dead_actions(
    view: View, cluster: ClusterView, group: PlacementGroup, dead: list[Worker]
) -> list[Action]:
    actors = any(worker.kind == "actor" for worker in dead)
    steps = [
        look(
            "Read why they died.",
            commands.ray_list(
                view, cluster, "actors", "state=DEAD", f"placement_group_id={group.id}"
            )
            if actors
            else commands.ray_list(view, cluster, "tasks", "state=FAILED"),
        ),
    ]
    if actors and dead[0].id:
        steps.append(
            look(
                "Read the last lines of the first one.",
                commands.on_head(
                    view, cluster, "ray", "logs", "actor", "--id", dead[0].id, "--tail", "100"
                ),
            )
        )
    steps.append(_restart(view, cluster, group))
    return steps


def _restart(view: View, cluster: ClusterView, group: PlacementGroup) -> Action:
    return fix(
        "Stop the job and start it again from its last checkpoint: the survivors cannot go on "
        "alone. If the driver is gone, remove the group, which kills the survivors and frees the "
        "slice.",
        commands.remove_group(view, cluster, group.id),
    )


def judge_incomplete_gang(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``GangIncomplete``: workers run on some hosts of the group, the others never started.

    Facts: gke_tpu R24 ("Did you run your code on all TPU hosts?"), R25 (vLLM starts fewer actors
    than hosts), R26 (a RayJob's tasks end up on one host).
    Must not flag: a gang within its start-up grace; hosts whose worker has finished (shut-down) or
    died (``GangMemberDead``); groups over single hosts only; a group on a single host.
    """
    grace = view.thresholds.gang_startup_grace
    for group in view.groups_of(cluster):
        if group.state != "CREATED" or group.chips <= 0 or not on_multi_host(view, group):
            continue
        hosts = hosts_of(group)
        workers = tpu_workers(group)
        alive = [worker for worker in workers if worker.alive]
        if len(hosts) < 2 or not alive:
            continue
        covered = {place for worker in alive if (place := place_of(group, worker)) is not None}
        covered |= _others_there(view, group)
        if not covered or any(place_of(group, worker) is None for worker in alive):
            yield unknown(
                "GangIncomplete",
                group_subject(group),
                "some of its workers run on hosts that cannot be seen",
            )
            continue
        ended = {
            place
            for worker in workers
            if (worker.finished or worker.dead) and (place := place_of(group, worker)) is not None
        }
        empty = [place for place in hosts if place not in covered and place not in ended]
        if not empty or len(covered & set(hosts)) >= len(hosts):
            continue
        begun = _begun(alive, group)
        if begun is None:
            yield unknown(
                "GangIncomplete", group_subject(group), "when its workers started is not known"
            )
            continue
        if view.now - begun <= grace:
            continue
        pending = [
            worker
            for worker in workers
            if not worker.alive and not worker.dead and not worker.finished
        ]
        told = f"; {names_of(f'{worker_name(w)} is {w.state}' for w in pending)}" if pending else ""
        running = len([place for place in hosts if place in covered])
        yield hit(
            "GangIncomplete",
            group_subject(group),
            f"{who(group)} has workers on {running} of its {len(hosts)} hosts for "
            f"{format_duration(view.now - begun)}: none ever started on "
            f"{names_of((place_label(view, place) for place in empty), limit=4)}{told}. The TPU "
            "runtime waits for all of them.",
            severity="critical",
            evidence=[
                ray_evidence(
                    cluster,
                    f"placement group {group.label}",
                    "hosts with workers",
                    f"{running} of {len(hosts)}",
                ),
                *(
                    ray_evidence(cluster, worker_name(worker), "state", worker.state)
                    for worker in (*pending[:4], *alive[:4])
                ),
                *(
                    ray_evidence(cluster, place_label(view, place), "workers of the group", 0)
                    for place in empty[:8]
                ),
            ],
            actions=[
                look(
                    "See the group's actors and where they run.",
                    commands.ray_list(view, cluster, "actors", f"placement_group_id={group.id}"),
                ),
                look("See what Ray cannot place.", commands.ray_status(view, cluster)),
                fix(
                    "Start one worker for every host of the slice (one a bundle), all in one go; "
                    "the ones that run have to be restarted with them. If nobody owns the job, "
                    "remove the group, which kills what runs.",
                    commands.remove_group(view, cluster, group.id),
                ),
            ],
            since=begun,
            dated=True,
            links=group_links(view, group),
            effect=f"placement group {group.label} has workers on {running} of {len(hosts)} hosts",
        )


def _others_there(view: View, group: PlacementGroup) -> set[str]:
    """Hosts on which the same job runs TPU workers outside the group."""
    found = set()
    for key in group.slices:
        item = view.slices.get(key)
        for worker in item.workers if item else ():
            if worker.alive and worker.group_id is None and worker.job_id == group.job_id:
                found.add(f"{worker.slice_id}|{worker.host_key}")
    return found


def _begun(alive: list[Worker], group: PlacementGroup) -> float | None:
    """When the newest of the running workers started; the group's own start where none tells."""
    starts = [worker.since for worker in alive if worker.since is not None]
    return max(starts, default=group.created_at or group.requested_at)
