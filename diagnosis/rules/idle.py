"""``ReservationIdle``: a whole slice is held and nothing runs on it."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.rules.base import (
    Outcome,
    group_subject,
    hit,
    look,
    ray_evidence,
    unknown,
)
from diagnosis.rules.members import (
    worker_name,
)
from diagnosis.rules.placement import group_links, remove_actions, who
from diagnosis.view import View, capacity, names_of
from fleet.model import ClusterView, PlacementGroup, Slice, Worker
from fleet.times import format_duration, format_time


def judge_idle(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``ReservationIdle``: a whole slice is held, and no actor or task is on it for 15 min.

    Must not flag: a reservation that is young; one whose last worker ended a moment ago; one on
    which the job runs workers outside the group; a group that lost a host (``PlacementHostLost``).
    """
    limit = view.thresholds.reservation_idle
    for group in view.groups_of(cluster):
        if group.state != "CREATED" or group.role not in ("slice", "multislice"):
            continue
        slices = [item for key in group.slices if (item := view.slices.get(key)) is not None]
        if not slices or not _holds_whole(group, slices):
            continue
        if any(worker.alive for worker in group.workers) or any(
            worker.alive for item in slices for worker in item.workers
        ):
            continue
        pending = [worker for worker in group.workers if not worker.dead and not worker.finished]
        if not {"actors", "tasks"} <= cluster.ray_parts:
            yield unknown(
                "ReservationIdle", group_subject(group), "Ray's actors and tasks are not complete"
            )
            continue
        idle_since = _idle_since(group, pending)
        mark = view.mark("ReservationIdle", cluster.id, group.key, first=idle_since)
        if mark is not None and (idle_since is None or mark.since > idle_since):
            idle_since = mark.since
        if idle_since is None:
            yield unknown(
                "ReservationIdle", group_subject(group), "when its last worker ended is not known"
            )
            continue
        idle = view.now - idle_since
        if idle <= limit:
            continue
        told = f"; {names_of(f'{worker_name(w)} is {w.state}' for w in pending)}" if pending else ""
        yield hit(
            "ReservationIdle",
            group_subject(group),
            f"{who(group)} holds {names_of(f'slice {item.name}' for item in slices)} as a whole, "
            f"and no actor or task has been on it for {format_duration(idle)}{told}.",
            severity="warning",
            evidence=[
                ray_evidence(cluster, f"placement group {group.label}", "state", group.state),
                ray_evidence(cluster, f"placement group {group.label}", "TPUs", group.chips),
                ray_evidence(cluster, f"placement group {group.label}", "live workers", 0),
                ray_evidence(
                    cluster, f"placement group {group.label}", "idle since", format_time(idle_since)
                ),
                ray_evidence(
                    cluster,
                    f"job {group.job_id or '?'}",
                    "status",
                    view.fleet.job_status.get(f"{cluster.id}/{group.job_id}"),
                ),
            ],
            actions=[
                look(
                    "See the job that holds it.",
                    commands.ray_list(
                        view,
                        cluster,
                        "jobs",
                        *((f"job_id={group.job_id}",) if group.job_id else ()),
                    ),
                ),
                *remove_actions(
                    view,
                    cluster,
                    group,
                    "Remove the group if nobody needs it: nothing runs in it now, and its driver "
                    "fails when it comes back to use it.",
                ),
            ],
            since=idle_since,
            links=group_links(view, group),
            effect=f"placement group {group.label} holds a slice and does nothing",
        )


def _holds_whole(group: PlacementGroup, slices: list[Slice]) -> bool:
    for item in slices:
        whole = capacity(item)
        held = sum(b.chips for b in group.bundles if b.slice_id == item.id)
        if whole is None or held < whole:
            return False
    return True


def _idle_since(group: PlacementGroup, pending: list[Worker]) -> float | None:
    """When the group became idle by Ray's word: its creation, or its last worker's end."""
    begun = group.created_at or group.requested_at
    ends = [worker.ended for worker in group.workers if worker not in pending]
    known = [end for end in ends if end is not None]
    if ends and not known:
        # An actor's death has no date in Ray's API: only its tasks, or looks, can tell.
        return None
    return max([*known, *([begun] if begun is not None else [])], default=None)
