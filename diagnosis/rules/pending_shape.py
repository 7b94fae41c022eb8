"""Why a group that wants a slice of some shape waits."""

from __future__ import annotations

from diagnosis.rules.base import (
    ray_evidence,
)
from diagnosis.rules.scheduler import same_pod_type
from diagnosis.rules.survey import (
    MANY,
    Reason,
    Survey,
    coming,
    incomplete,
    unexplained,
    whole_enough,
)
from diagnosis.view import View, names_of, shorten
from fleet.groups import HEAD_RESOURCE
from fleet.joining import POD_TYPE_LABEL
from fleet.model import ClusterView, PlacementGroup, Slice, WorkerGroup


def wanted_shape(survey: Survey, group: PlacementGroup) -> Reason | None:
    """Why no slice of the shape can be reserved; ``None`` while one is coming."""
    asked = next((bundle.head_resource for bundle in group.bundles if bundle.head_resource), None)
    key = (group.wanted_pod_type, asked)
    if key not in survey.verdicts:
        survey.verdicts[key] = _shape(survey, group, *key)
    return survey.verdicts[key]


def _shape(
    survey: Survey, group: PlacementGroup, wanted: str | None, asked: str | None
) -> Reason | None:
    """Why no slice of a shape can be reserved; the same for every group that wants it."""
    cluster = survey.cluster
    candidates = survey.of_shape(wanted)
    spelled = _other_spelling(wanted, asked, survey.heads, candidates)
    if spelled is not None:
        return Reason(
            cause="ResourceNameMismatch",
            text=f"it asks for {asked or wanted}, but the hosts of that shape offer {spelled}",
            evidence=(ray_evidence(cluster, "nodes", "resources_total", spelled),),
            slices=tuple(item.id for item in candidates[:MANY]),
        )
    if not candidates:
        return _none_of_shape(survey.view, cluster, wanted)
    if coming(candidates):
        return None
    for item in candidates:
        leaked = survey.leaks(item)
        if leaked:
            return Reason(
                cause="HeadHeld",
                text=f"slice {item.name} is free, but its head is held by a leaked reservation "
                f"({leaked[0].label})",
                evidence=(
                    ray_evidence(
                        cluster, f"placement group {leaked[0].label}", "holds", asked or wanted
                    ),
                ),
                slices=(item.id,),
                blockers=tuple(leaked),
            )
    broken = [item for item in candidates if not whole_enough(item) and not item.held_by]
    if broken:
        return incomplete(cluster, broken[:MANY])
    free = [item for item in candidates if not (item.held_by or item.head_held_by or item.workers)]
    if not free:
        return _busy(survey, candidates, wanted)
    if asked is not None and not any(host.offers_head for item in free for host in item.hosts):
        return Reason(
            cause="NoSuchSlice",
            text=f"slice {free[0].name} has that shape, but none of its hosts offers {asked}",
            evidence=(ray_evidence(cluster, f"slice {free[0].name}", asked, "not offered"),),
            slices=tuple(item.id for item in free[:MANY]),
        )
    return unexplained(cluster, group)


def _busy(survey: Survey, busy: list[Slice], wanted: str | None) -> Reason:
    groups = survey.view.groups
    holders = {
        holder.key: holder
        for item in busy
        for key in (*item.held_by, *item.head_held_by)
        if (holder := groups.get(key)) is not None and holder.chips > 0
    }
    labels = [holder.label for _, holder in sorted(holders.items())]
    by = f" (by {names_of(labels)})" if labels else ""
    return Reason(
        cause="AllSlicesBusy",
        text=f"all {len(busy)} slices of shape {wanted} are held{by}"
        if len(busy) != 1
        else f"the only slice of shape {wanted} ({busy[0].name}) is held{by}",
        evidence=tuple(
            ray_evidence(
                survey.cluster,
                f"slice {item.name}",
                "held by",
                names_of(
                    groups[key].label if key in groups else key
                    for key in (item.held_by or item.head_held_by)
                ),
            )
            for item in busy[:8]
        ),
        slices=tuple(item.id for item in busy[:MANY]),
    )


def _other_spelling(
    wanted: str | None, asked: str | None, offered: set[str], of_shape: list[Slice]
) -> str | None:
    """What the hosts call the shape, where the group calls it otherwise."""
    if asked is not None:
        if asked in offered:
            return None
        for name in sorted(offered):
            found = HEAD_RESOURCE.match(name)
            if found and same_pod_type(found["pod_type"], wanted):
                return name
        return None
    labels = {
        label
        for item in of_shape
        for host in item.hosts
        for label in (
            ((host.ray_node.labels if host.ray_node else None) or {}).get(POD_TYPE_LABEL),
        )
        if label
    }
    if wanted in labels:
        return None
    return next((label for label in sorted(labels) if same_pod_type(label, wanted)), None)


def _none_of_shape(view: View, cluster: ClusterView, wanted: str | None) -> Reason | None:
    groups = [item for item in view.worker_groups_of(cluster) if _worker_group_is_of(item, wanted)]
    failed = [item for item in groups if scale_up_words(view, item)]
    if failed:
        words = scale_up_words(view, failed[0]) or ""
        return Reason(
            cause="ScaleUpFailed",
            text=f"no slice of shape {wanted} exists, and the cloud could not add one to worker "
            f"group {failed[0].name} ({shorten(words, 160)})",
            worker_groups=tuple(item.id for item in failed),
        )
    have = sorted({item.pod_type for item in view.slices_of(cluster) if item.pod_type})
    has = f"; it has {names_of(have)}" if have else ""
    can = [item.name for item in groups]
    grow = (
        f". Worker group {names_of(can)} could make one, but has none"
        if can
        else ", and no worker group makes that shape"
        if cluster.has_kubernetes
        else ""
    )
    return Reason(
        cause="NoSuchSlice",
        text=f"the cluster has no slice of shape {wanted}{has}{grow}",
        evidence=(ray_evidence(cluster, "nodes", "pod types", ", ".join(have) or "none"),),
        worker_groups=tuple(item.id for item in groups),
    )


def _worker_group_is_of(item: WorkerGroup, wanted: str | None) -> bool:
    from fleet.topology import TopologyError, pod_type_of

    if item.generation is None or item.topology_name is None:
        return False
    try:
        made = pod_type_of(item.generation, item.topology_name)
    except TopologyError:
        return False
    return same_pod_type(made, wanted)


def scale_up_words(view: View, group: WorkerGroup) -> str | None:
    """The autoscaler's words where its newest word on any waiting pod of the group is a failure."""
    from diagnosis.rules.scaleup import failure_of

    found = failure_of(view, group)
    return found.message if found is not None else None
