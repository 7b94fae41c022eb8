"""Why a group that names a slice waits."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.finding import Evidence
from diagnosis.rules.base import (
    ray_evidence,
)
from diagnosis.rules.survey import (
    Reason,
    coming,
    incomplete,
    unexplained,
    whole_enough,
)
from diagnosis.view import View, names_of
from fleet.model import ClusterView, PlacementGroup, Slice


def named_slices(view: View, cluster: ClusterView, group: PlacementGroup) -> Reason | None:
    """Why none of the slices that it names takes it; ``None`` while one is coming."""
    reasons: list[Reason] = []
    coming = False
    for name in group.wanted_slices:
        named = view.slices_named(cluster, name)
        if not named:
            reasons.append(_gone(cluster, group, name))
            continue
        found = _one_slice(view, cluster, group, named)
        if found is None:
            coming = True
        else:
            reasons.append(found)
    if not reasons:
        return None if coming else unexplained(cluster, group)
    order = ("SliceGone", "ScaleUpFailed", "SliceIncomplete", "Squatter")
    reasons.sort(key=lambda item: order.index(item.cause) if item.cause in order else len(order))
    if reasons[0].cause is None and coming:
        return None
    return reasons[0]


def _gone(cluster: ClusterView, group: PlacementGroup, name: str) -> Reason:
    return Reason(
        cause="SliceGone",
        text=f"it asks for slice {name}, which has no live host",
        evidence=(
            ray_evidence(
                cluster,
                f"placement group {group.label}",
                "label_selector[ray.io/tpu-slice-name]",
                name,
            ),
            ray_evidence(cluster, f"slice {name}", "live hosts", 0),
        ),
    )


def _one_slice(
    view: View, cluster: ClusterView, group: PlacementGroup, named: Sequence[Slice]
) -> Reason | None:
    """Why one slice that the group names does not take it; ``None`` while it is coming."""
    if coming(named):
        return None
    broken = [item for item in named if not whole_enough(item)]
    if broken:
        return incomplete(cluster, broken)
    others = [
        holder for item in named for holder in view.holders_of(item) if holder.key != group.key
    ]
    if others:
        return _squatter(view, cluster, group, named, others)
    loose = [
        worker
        for item in named
        for worker in item.workers
        if worker.alive and worker.chips > 0 and worker.group_id is None
    ]
    if loose:
        item = named[0]
        return Reason(
            cause="Squatter",
            text=f"{len(loose)} {'actor' if loose[0].kind == 'actor' else 'task'}"
            f"{'' if len(loose) == 1 else 's'} outside any placement group "
            f"({names_of(worker.name or worker.id[:12] for worker in loose)}) take TPUs of slice "
            f"{item.name}",
            evidence=tuple(
                ray_evidence(
                    cluster, f"{worker.kind} {worker.name or worker.id}", "TPU", worker.chips
                )
                for worker in loose[:4]
            ),
            slices=tuple(one.id for one in named),
        )
    return unexplained(cluster, group)


def _squatter(
    view: View,
    cluster: ClusterView,
    group: PlacementGroup,
    named: Sequence[Slice],
    others: list[PlacementGroup],
) -> Reason:
    ids = {item.id for item in named}
    unique = {holder.key: holder for holder in others}
    holders = [unique[key] for key in sorted(unique)]
    evidence: list[Evidence] = []
    told = []
    for holder in holders:
        hosts = {bundle.host_key for bundle in holder.bundles if bundle.slice_id in ids}
        told.append(f"{holder.label} holds {len(hosts)} of its hosts")
        evidence.append(
            ray_evidence(
                cluster,
                f"placement group {holder.label}",
                "bundles on it",
                len([bundle for bundle in holder.bundles if bundle.slice_id in ids]),
            )
        )
    heads = [
        key
        for item in named
        for key in item.head_held_by
        if key in view.groups and key not in unique
    ]
    reserved = ", which it has reserved" if heads else ""
    item = named[0]
    return Reason(
        cause="Squatter",
        text=f"it needs all of slice {item.name}{reserved}, but {names_of(told)}",
        evidence=tuple(evidence),
        slices=tuple(ids),
        blockers=tuple(holders),
    )
