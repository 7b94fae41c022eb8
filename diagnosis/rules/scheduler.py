"""Ray's scheduler caught in a loop, and head reservations that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Severity
from diagnosis.rules.base import (
    Links,
    Outcome,
    cluster_subject,
    fix,
    hit,
    look,
    ray_evidence,
    slice_subject,
)
from diagnosis.rules.placement import group_links
from diagnosis.view import View, names_of
from fleet.model import ClusterView, PlacementGroup, Slice
from fleet.times import format_duration, format_time
from fleet.topology import split_pod_type

# --- SchedulerLivelock ----------------------------------------------------------------------


def retry_rate(view: View, group: PlacementGroup) -> float | None:
    """Scheduling attempts a second of a waiting group; ``None`` when it cannot be told.

    From two looks where there were two and the count has moved (a count that stands still says
    nothing: Ray's snapshot may be the same one); in a single look the attempts over the time it has
    waited (for a RESCHEDULING group since it lost its host, as the counter starts with the group
    but barely moves while it is CREATED).
    """
    if group.attempts is None:
        return None
    before = view.attempts_before(group)
    if before is not None and view.now > before.at and group.attempts > before.count:
        return (group.attempts - before.count) / (view.now - before.at)
    if group.pending_seconds is None:
        return None
    return group.attempts / max(group.pending_seconds, 1.0)


def livelocked(view: View, cluster: ClusterView) -> list[tuple[PlacementGroup, float]]:
    """Groups that the scheduler retries without delay, fastest first."""
    found = []
    for group in view.groups_of(cluster):
        if not group.waiting or (group.attempts or 0) <= view.thresholds.livelock_attempts:
            continue
        rate = retry_rate(view, group)
        if rate is not None and rate > view.thresholds.livelock_rate_per_second:
            found.append((group, rate))
    return sorted(found, key=lambda item: (-item[1], item[0].key))


def judge_livelock(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``SchedulerLivelock``: a group is retried without delay and starves all others.

    Facts: ray_2_60 "Failures reproduced" 3 (239,073,180 attempts in 13 min, every other group
    QUEUED with 0 attempts; a host with the same slice name ends it, another does not).
    Must not flag: a group that is CREATED, however high its old counter; a long wait with Ray's
    back-off of one attempt a second.
    """
    spinning = livelocked(view, cluster)
    if not spinning:
        return
    group, rate = spinning[0]
    keys = {item.key for item, _ in spinning}
    starved = [item for item in view.groups_of(cluster) if item.waiting and item.key not in keys]
    slices = list(group.wanted_slices) or [
        view.slices[key].name for key in group.slices if key in view.slices
    ]
    why = (
        f" since it lost a host of {names_of(slices)}"
        if group.state == "RESCHEDULING" and slices
        else ""
    )
    behind = (
        f"; {len(starved)} other {'group waits' if len(starved) == 1 else 'groups wait'} behind it"
        if starved
        else "; no other placement group of this cluster can be scheduled"
    )
    since = view.now - group.pending_seconds if group.pending_seconds is not None else None
    thing = f"placement group {group.label}"
    links = group_links(view, group)
    yield hit(
        "SchedulerLivelock",
        cluster_subject(cluster),
        f"The scheduler of Ray cluster {cluster.id} is caught in a loop: it has retried placement "
        f"group {group.label} {group.attempts or 0:,} times without delay{why}{behind}.",
        severity="critical",
        evidence=[
            ray_evidence(cluster, thing, "state", group.state),
            ray_evidence(cluster, thing, "stats.scheduling_state", group.scheduling_state),
            ray_evidence(cluster, thing, "stats.scheduling_attempt", group.attempts),
            ray_evidence(cluster, thing, "attempts a second", f"{rate:,.0f}"),
            *(
                (ray_evidence(cluster, thing, "waits since", format_time(since)),)
                if since is not None
                else ()
            ),
            *(
                ray_evidence(
                    cluster,
                    f"placement group {item.label}",
                    "stats",
                    f"{item.state}, {item.scheduling_state or '?'}, {item.attempts or 0} attempts",
                )
                for item in starved[:5]
            ),
            *(
                ray_evidence(
                    cluster,
                    f"placement group {item.label}",
                    "attempts a second",
                    f"{speed:,.0f}",
                )
                for item, speed in spinning[1:4]
            ),
        ],
        actions=[
            look(
                "See the groups and their counters of attempts.",
                commands.ray_list(view, cluster, "placement-groups", "state!=CREATED"),
            ),
            look(
                "See which nodes died.",
                commands.ray_list(view, cluster, "nodes", "state=DEAD"),
            ),
            fix(
                f"Bring back a host of slice {names_of(slices)}"
                " under the same slice name: that ends the loop within seconds and keeps the group."
                if slices
                else "Give the cluster the hosts that the group asks for.",
            ),
            fix(
                f"Or remove {group.label}: the others are scheduled at once, and what is left of "
                "its own job is killed.",
                commands.remove_group(view, cluster, group.id),
            ),
        ],
        since=since,
        affects=[
            f"placement group {item.label} has waited for {format_duration(item.pending_seconds)}"
            for item in starved
        ],
        links=Links(
            cluster=cluster.id,
            slices=links.slices,
            groups=tuple(sorted(keys)),
            worker_groups=links.worker_groups,
        ),
        effect=f"the scheduler retries {group.label} without delay",
    )


# --- HeadReservationLeaked ------------------------------------------------------------------


def leak_of(view: View, item: Slice) -> list[PlacementGroup]:
    """Groups that hold only this slice's head while nobody holds or waits for the slice.

    Empty where something still uses it, and within the first two minutes of the reservation.
    """
    if not item.head_held_by or item.held_by or view.waiting_for(item):
        return []
    if any(worker.alive and worker.chips > 0 for worker in item.workers):
        return []
    found = []
    for key in item.head_held_by:
        group = view.groups.get(key)
        if group is None or group.chips > 0:
            continue
        begun = group.created_at or group.requested_at
        if begun is None or view.now - begun > view.thresholds.head_leak:
            found.append(group)
    return found


def same_pod_type(left: str | None, right: str | None) -> bool:
    """Whether two pod types name one shape, whatever their spelling."""
    if not left or not right:
        return False
    if left == right:
        return True
    first, second = split_pod_type(left), split_pod_type(right)
    return first is not None and first == second


def judge_leak(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``HeadReservationLeaked``: a slice's head is held, and no group holds or waits for the slice.

    Facts: ray_2_60 "Failures reproduced" 4 (head groups outlive their use unless released),
    gke_tpu R19.
    Must not flag: the head group beside its worker group on the same slice, which is normal; a
    reservation younger than two minutes; a slice on which actors take TPUs without a group.
    """
    heads = [group for group in view.groups_of(cluster) if group.waiting and group.role == "head"]
    of_shape: dict[str | None, list[PlacementGroup]] = {}
    for item in view.slices_of(cluster):
        leaked = leak_of(view, item)
        if not leaked:
            continue
        group = leaked[0]
        begun = group.created_at or group.requested_at
        mark = view.mark("HeadReservationLeaked", cluster.id, item.id, first=begun)
        if mark is not None and view.now - mark.since < view.thresholds.head_leak:
            # The worker group was removed a moment ago; its owner may be about to let go.
            continue
        if item.pod_type not in of_shape:
            of_shape[item.pod_type] = [
                other for other in heads if same_pod_type(other.wanted_pod_type, item.pod_type)
            ]
        wanting = of_shape[item.pod_type]
        severity: Severity = "critical" if wanting else "warning"
        ago = f" for {format_duration(view.now - begun)}" if begun is not None else ""
        names = names_of((other.label for other in wanting[:4]), total=len(wanting))
        blocked = (
            f"; {names} cannot get a slice because of it" if wanting else ": nobody can reserve it"
        )
        thing = f"placement group {group.label}"
        yield hit(
            "HeadReservationLeaked",
            slice_subject(item),
            f"Slice {item.name} ({cluster.id}) is free, but its head has been held{ago} by "
            f"placement group {group.label}, and no group holds or waits for the slice{blocked}.",
            severity=severity,
            evidence=[
                ray_evidence(cluster, thing, "state", group.state),
                ray_evidence(
                    cluster,
                    thing,
                    "bundles",
                    ", ".join(bundle.head_resource or "?" for bundle in group.bundles),
                ),
                ray_evidence(cluster, thing, "creator_job_id", group.job_id),
                ray_evidence(cluster, f"slice {item.name}", "held by", "no placement group"),
                *(
                    ray_evidence(
                        cluster,
                        f"placement group {other.label}",
                        "stats.scheduling_state",
                        f"{other.state}, {other.scheduling_state or '?'}",
                    )
                    for other in wanting[:4]
                ),
            ],
            actions=[
                look(
                    "See all placement groups: no worker group may be on the slice.",
                    commands.ray_list(view, cluster, "placement-groups", "state!=REMOVED"),
                ),
                look(
                    "See whether the job that made it still runs.",
                    commands.ray_list(
                        view,
                        cluster,
                        "jobs",
                        *((f"job_id={group.job_id}",) if group.job_id else ()),
                    ),
                ),
                fix(
                    "Remove the reservation. It costs nothing: no worker is in it. In the program, "
                    "call release_head_pgs() or shutdown() on the slice placement group.",
                    commands.remove_group(view, cluster, group.id),
                ),
            ],
            since=begun,
            affects=[
                f"placement group {other.label} waits for such a head" for other in wanting[:16]
            ],
            links=Links(
                cluster=cluster.id,
                slices=(item.id,),
                groups=tuple(other.key for other in (*leaked, *wanting[:16])),
            ),
            effect=f"the head of {item.name} is held by a leaked reservation",
        )
