"""Placement groups that lie where they cannot work: split, on part of a slice, on a lost host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence
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
from diagnosis.view import View, capacity, cluster_id, multi_host, names_of, ray_tpus
from fleet.joining import SLICE_NAME_LABEL, WORKER_ID_LABEL
from fleet.model import Bundle, ClusterView, PlacementGroup, Slice
from fleet.times import format_duration, format_time
from fleet.topology import is_subslice


def group_links(view: View, group: PlacementGroup, *slices: str) -> Links:
    """What a placement group touches: its slices, those it asks for, and their worker groups."""
    cluster = cluster_id(group)
    ids = list(dict.fromkeys((*slices, *group.slices)))
    for name in group.wanted_slices:
        ids += [item.id for item in view.slices_named(view.clusters[cluster], name)]
    worker_groups = [
        f"{cluster}/{item.group}"
        for slice_id in ids
        if (item := view.slices.get(slice_id)) is not None and item.group
    ]
    return Links(
        cluster=cluster,
        slices=tuple(dict.fromkeys(ids)),
        groups=(group.key,),
        worker_groups=tuple(dict.fromkeys(worker_groups)),
    )


def who(group: PlacementGroup) -> str:
    """``Placement group train-a (ml/train)``."""
    where = f" ({cluster_id(group)})" if group.namespace != "-" else ""
    return f"Placement group {group.label}{where}"


def bundle_evidence(
    view: View, cluster: ClusterView, group: PlacementGroup, bundles: list[Bundle]
) -> list[Evidence]:
    """Where bundles lie, the first twelve."""
    rows = []
    for bundle in bundles[:12]:
        item = view.slices.get(bundle.slice_id or "")
        host = next((h for h in item.hosts if h.key == bundle.host_key), None) if item else None
        place = (
            f"{item.name} worker {host.worker_id}"
            if item is not None and host is not None
            else (bundle.node_id or "not placed")
        )
        rows.append(
            ray_evidence(
                cluster, f"placement group {group.label}", f"bundles[{bundle.index}]", place
            )
        )
    return rows


def _tpu_bundles(group: PlacementGroup) -> list[Bundle]:
    return [bundle for bundle in group.bundles if bundle.chips > 0]


def remove_actions(
    view: View, cluster: ClusterView, group: PlacementGroup, cost: str
) -> list[Action]:
    """Look at a group, then remove it; with what that costs."""
    return [
        look(
            "See where its bundles lie.",
            commands.ray_list(view, cluster, "placement-groups", f"placement_group_id={group.id}"),
        ),
        fix(cost, commands.remove_group(view, cluster, group.id)),
    ]


# --- PlacementSplit -------------------------------------------------------------------------


def judge_split(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``PlacementSplit``: CREATED over two or more slices without filling each of them.

    Facts: ray_2_60 "Failures reproduced" 1 (Ray calls it CREATED/FINISHED and reports nothing).
    Must not flag: a multislice that fills each slice; groups over single hosts, which have no ICI
    partner to lose (data parallel work); sub-slices that selectors name worker by worker; a group
    of which a bundle is not seen on any host.
    """
    for group in view.groups_of(cluster):
        if group.state != "CREATED" or group.chips <= 0:
            continue
        bundles = _tpu_bundles(group)
        held: dict[str, float] = defaultdict(float)
        for bundle in bundles:
            if bundle.slice_id is not None:
                held[bundle.slice_id] += bundle.chips
        slices = [view.slices[key] for key in sorted(held) if key in view.slices]
        if len(bundles) > 1 and any(bundle.slice_id is None for bundle in bundles):
            yield unknown(
                "PlacementSplit",
                group_subject(group),
                "some of its bundles lie on hosts that cannot be seen",
            )
            continue
        if len(slices) < 2:
            continue
        partly = []
        blind = False
        for item in slices:
            whole = capacity(item)
            if whole is None:
                blind = True
            elif held[item.id] < whole and multi_host(item):
                partly.append(item)
        if not partly:
            if blind:
                yield unknown("PlacementSplit", group_subject(group), "a slice's size is not known")
            continue
        if _by_worker(bundles) and all(_subslice_name(item, bundles) for item in partly):
            continue
        yield _split(view, cluster, group, slices, held, partly)


def _by_worker(bundles: list[Bundle]) -> bool:
    return all(WORKER_ID_LABEL in bundle.selector for bundle in bundles)


def _split(
    view: View,
    cluster: ClusterView,
    group: PlacementGroup,
    slices: list[Slice],
    held: dict[str, float],
    partly: list[Slice],
) -> Outcome:
    parts = "; ".join(
        f"{held[item.id]:g} of {capacity(item) or 0:g} TPUs of {item.name}" for item in slices
    )
    alive = sum(worker.alive for worker in group.workers)
    hang = "its collectives can never finish" if alive else "its collectives could never finish"
    selector = any(SLICE_NAME_LABEL in bundle.selector for bundle in group.bundles)
    why = (
        "" if selector else " It asks for no slice, so Ray put its bundles wherever TPUs were free."
    )
    return hit(
        "PlacementSplit",
        group_subject(group),
        f"{who(group)} is CREATED but split over {len(slices)} slices ({parts}): no ICI joins "
        f"them, {hang}.{why}",
        severity="critical",
        evidence=[
            ray_evidence(cluster, f"placement group {group.label}", "state", group.state),
            *bundle_evidence(view, cluster, group, _tpu_bundles(group)),
        ],
        actions=[
            *remove_actions(
                view,
                cluster,
                group,
                "Remove the group (kills its job) and reserve whole slices with "
                "ray.util.tpu.slice_placement_group instead.",
            ),
        ],
        since=group.created_at or group.requested_at,
        affects=[
            f"slice {item.name} cannot be used as a whole while {group.label} holds part of it"
            for item in partly
        ],
        links=group_links(view, group),
        effect=f"placement group {group.label} is split over {len(slices)} slices",
    )


# --- PlacementSubset ------------------------------------------------------------------------


def _subslice_name(item: Slice, bundles: list[Bundle]) -> str | None:
    if item.topology is None:
        return None
    keys = {bundle.host_key for bundle in bundles if bundle.slice_id == item.id}
    hosts = [host for host in item.hosts if host.key in keys]
    places = {host.coordinates for host in hosts if host.coordinates is not None}
    if len(places) != len(keys):
        return None
    measured = all(host.layout == "measured" for host in hosts)
    found = is_subslice(item.topology, places, measured=measured)
    if found is None and not measured and item.topology.dimensions == 2:
        # Where worker ids sit is a guess (gke_tpu 0.1), so a 2x4 that lies across is one as well.
        bx, by, _ = item.topology.host_bounds
        if bx == by:
            found = is_subslice(item.topology, {(y, x, z) for x, y, z in places})
    return found


def judge_subset(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``PlacementSubset``: several hosts of a slice that are none of its sub-slices.

    Facts: ray_2_60 "New in 2.60" (sub-slices), gke_tpu 2.4 (geometry), 0.1 (worker ids are no
    coordinates, so what either numbering calls a sub-slice counts as one).
    Must not flag: sub-slices; groups whose selectors name workers; all or some chips of a single
    host, which can work alone; a whole slice; groups over several slices (``PlacementSplit``).
    """
    for group in view.groups_of(cluster):
        if group.state != "CREATED" or group.chips <= 0:
            continue
        bundles = _tpu_bundles(group)
        if len(group.slices) != 1 or any(bundle.slice_id is None for bundle in bundles):
            continue
        item = view.slices.get(group.slices[0])
        if item is None or not multi_host(item):
            continue
        per_host: dict[str, float] = defaultdict(float)
        for bundle in bundles:
            per_host[bundle.host_key or ""] += bundle.chips
        whole = capacity(item)
        if len(per_host) < 2 or (whole is not None and sum(per_host.values()) >= whole):
            continue
        if _by_worker(bundles) or group.role == "subslice":
            continue
        if item.topology is None or whole is None:
            yield unknown("PlacementSubset", group_subject(group), "its slice's shape is not known")
            continue
        full = {host.key for host in item.hosts if per_host.get(host.key, 0.0) >= ray_tpus(host)}
        if set(per_host) <= full and _subslice_name(item, bundles) is not None:
            continue
        workers = names_of(
            (str(host.worker_id) for host in item.hosts if host.key in per_host), limit=8
        )
        yield hit(
            "PlacementSubset",
            group_subject(group),
            f"{who(group)} holds {sum(per_host.values()):g} of {whole:g} TPUs of slice {item.name} "
            f"(workers {workers}), which is none of its sub-slices: the rest of the slice cannot "
            "be used as one.",
            severity="warning",
            evidence=[
                ray_evidence(cluster, f"slice {item.name}", "topology", item.topology_name),
                *bundle_evidence(view, cluster, group, bundles),
            ],
            actions=remove_actions(
                view,
                cluster,
                group,
                "Remove the group (kills its job) and ask for a whole slice "
                "(slice_placement_group) or a real part (subslice_placement_group).",
            ),
            since=group.created_at or group.requested_at,
            links=group_links(view, group),
            effect=f"placement group {group.label} holds an odd part of {item.name}",
        )


# --- PlacementHostLost ----------------------------------------------------------------------


def judge_host_lost(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``PlacementHostLost``: RESCHEDULING, because a host that the group held is gone.

    Facts: ray_2_60 "Failures reproduced" 3 (the other hosts' actors stay ALIVE and wait).
    Must not flag: PENDING groups, which never had a host; groups without TPUs.
    """
    for group in view.groups_of(cluster):
        if group.state != "RESCHEDULING" or (group.chips <= 0 and group.role != "head"):
            continue
        lost = [bundle for bundle in group.bundles if bundle.host_key is None]
        alive = sum(worker.alive for worker in group.workers)
        names = list(group.wanted_slices) or [
            view.slices[key].name for key in group.slices if key in view.slices
        ]
        on = f" of slice {names_of(names)}" if names else ""
        waiting = f"; {alive} of its workers still run and wait" if alive else ""
        since = view.now - group.pending_seconds if group.pending_seconds is not None else None
        yield hit(
            "PlacementHostLost",
            group_subject(group),
            f"{who(group)} lost {len(lost) or 'one or more'} of the {len(group.bundles)} hosts"
            f"{on} that it held and is being placed again{waiting}.",
            severity="critical",
            evidence=[
                ray_evidence(cluster, f"placement group {group.label}", "state", group.state),
                ray_evidence(
                    cluster,
                    f"placement group {group.label}",
                    "stats.scheduling_state",
                    group.scheduling_state,
                ),
                ray_evidence(
                    cluster,
                    f"placement group {group.label}",
                    "stats.scheduling_attempt",
                    group.attempts,
                ),
                *(
                    (
                        ray_evidence(
                            cluster,
                            f"placement group {group.label}",
                            "waits since",
                            f"{format_time(since)} ({format_duration(group.pending_seconds)})",
                        ),
                    )
                    if since is not None
                    else ()
                ),
                *bundle_evidence(view, cluster, group, lost),
            ],
            actions=[
                look(
                    "See which nodes died.",
                    commands.ray_list(view, cluster, "nodes", "state=DEAD"),
                ),
                *remove_actions(
                    view,
                    cluster,
                    group,
                    "A host with the same slice name ends the wait. Else remove the group, which "
                    "kills what is left of its job and lets others be scheduled.",
                ),
            ],
            since=since,
            links=group_links(view, group),
            effect=f"placement group {group.label} lost a host and waits",
        )
