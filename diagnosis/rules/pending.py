"""``PlacementPending``: why a TPU group waits. One cause a group, the one that has to go first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Severity
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
from diagnosis.rules.placement import group_links, who
from diagnosis.rules.scheduler import leak_of, livelocked, same_pod_type
from diagnosis.view import View, cluster_id, names_of, ray_tpus, shorten
from fleet.groups import HEAD_RESOURCE
from fleet.joining import POD_TYPE_LABEL, RAY_TOPOLOGY_LABEL, SLICE_NAME_LABEL
from fleet.model import ClusterView, PlacementGroup, Slice, WorkerGroup
from fleet.times import format_duration, number

HOPELESS = frozenset(
    {
        "Squatter",
        "SliceGone",
        "BundleTooLarge",
        "HeadHeld",
        "BehindLivelock",
        "ResourceNameMismatch",
    }
)
"""Causes that waiting cannot end (contract section 4)."""

MANY = 16
"""Slices that one finding names at most; a fleet has thousands."""

COMMON_RESOURCES = frozenset({"CPU", "GPU", "TPU", "memory", "object_store_memory"})


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a group waits. ``cause`` is ``None`` where no cause of the contract fits."""

    cause: str | None
    text: str
    evidence: tuple[Evidence, ...] = ()
    slices: tuple[str, ...] = ()
    worker_groups: tuple[str, ...] = ()
    blockers: tuple[PlacementGroup, ...] = ()


class Survey:
    """What one Ray cluster has to offer, counted once however many groups wait."""

    def __init__(self, view: View, cluster: ClusterView) -> None:
        """Walk over the cluster's hosts and groups once."""
        self.view = view
        self.cluster = cluster
        self.slices = view.slices_of(cluster)
        strays = [
            number((stray.node.resources_total or {}).get("TPU")) or 0.0
            for stray in view.stray_nodes_of(cluster)
        ]
        offers = [ray_tpus(host) for item in self.slices for host in item.hosts]
        made = [float(item.chips_per_pod or 0) for item in view.worker_groups_of(cluster)]
        self.largest = max((*offers, *strays, *made), default=0.0)
        self.stray_tpus = sum(strays)
        self.heads = {
            name
            for item in self.slices
            for host in item.hosts
            if host.offers_head and host.ray_node is not None
            for name in host.ray_node.resources_total or {}
            if HEAD_RESOURCE.match(name)
        }
        self.resources = {
            name
            for node in cluster.nodes_by_id.values()
            if node.state == "ALIVE"
            for name in node.resources_total or {}
        }
        self.slice_labels = {
            label
            for node in cluster.nodes_by_id.values()
            for label in ((node.labels or {}).get(SLICE_NAME_LABEL),)
            if label
        }
        self.holders = [
            other for other in view.groups_of(cluster) if other.chips > 0 and other.slices
        ]
        self.held = sum(
            bundle.chips
            for other in view.groups_of(cluster)
            for bundle in other.bundles
            if bundle.host_key is not None
        ) + sum(
            worker.chips
            for item in self.slices
            for worker in item.workers
            if worker.group_id is None and worker.alive
        )
        self._of_shape: dict[str | None, list[Slice]] = {}
        self._on_its_way: dict[frozenset[str], bool] = {}
        self._tpus: dict[frozenset[str], float] = {}
        self._leaks: dict[str, list[PlacementGroup]] = {}
        self.verdicts: dict[tuple[str | None, str | None], Reason | None] = {}

    def of_shape(self, wanted: str | None) -> list[Slice]:
        """Slices of a pod type, whatever its spelling."""
        if wanted not in self._of_shape:
            self._of_shape[wanted] = [
                item for item in self.slices if same_pod_type(item.pod_type, wanted)
            ]
        return self._of_shape[wanted]

    def of_topologies(self, topologies: frozenset[str]) -> Sequence[Slice]:
        """Slices of some topologies; all where none is named."""
        if not topologies:
            return self.slices
        return [item for item in self.slices if item.topology_name in topologies]

    def coming(self, topologies: frozenset[str]) -> bool:
        """Whether a slice of one of these topologies is on its way."""
        if topologies not in self._on_its_way:
            self._on_its_way[topologies] = _coming(self.of_topologies(topologies))
        return self._on_its_way[topologies]

    def tpus(self, topologies: frozenset[str]) -> float:
        """TPUs of all ready hosts of these topologies."""
        if topologies not in self._tpus:
            total = sum(
                ray_tpus(host)
                for item in self.of_topologies(topologies)
                for host in item.hosts
                if host.state == "ready"
            )
            self._tpus[topologies] = total + (0.0 if topologies else self.stray_tpus)
        return self._tpus[topologies]

    def leaks(self, item: Slice) -> list[PlacementGroup]:
        """Leaked reservations of a slice's head."""
        if item.id not in self._leaks:
            self._leaks[item.id] = leak_of(self.view, item)
        return self._leaks[item.id]


def judge_pending(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``PlacementPending``: a TPU group has waited longer than two minutes.

    Facts: ray_2_60 "Failures reproduced" 2, 3 and 5; gke_tpu R19 (leaked heads), R20 (an 8-chip
    bundle on 4-chip hosts), R21 (``TPU-v5e-16-head`` against ``TPU-v5litepod-16-head``).
    Must not flag: a wait while a slice of the wanted shape is forming within its grace; groups
    without TPUs; RESCHEDULING groups (``PlacementHostLost``); Kueue's gated slices.
    """
    spinning = livelocked(view, cluster)
    looping = {group.key for group, _ in spinning}
    survey: Survey | None = None
    for group in view.groups_of(cluster):
        if group.state not in ("PENDING", "PREPARED") or group.key in looping:
            continue
        if group.chips <= 0 and group.role != "head":
            continue
        if group.pending_seconds is None:
            yield unknown(
                "PlacementPending", group_subject(group), "when it was asked for is not known"
            )
            continue
        if group.pending_seconds <= view.thresholds.placement_pending:
            continue
        if "nodes" not in cluster.ray_parts or "placement_groups" not in cluster.ray_parts:
            yield unknown(
                "PlacementPending",
                group_subject(group),
                "it waits, but Ray's lists of nodes and groups are not complete, so why is not known",
            )
            continue
        survey = survey or Survey(view, cluster)
        reason = _reason(survey, group, spinning[0][0] if spinning else None)
        if reason is not None:
            yield _pending(view, cluster, group, reason)


def _reason(survey: Survey, group: PlacementGroup, loop: PlacementGroup | None) -> Reason | None:
    """The dominant cause; ``None`` where the wait is as it should be (a slice is coming)."""
    untried = group.scheduling_state == "QUEUED" or not group.attempts
    if loop is not None and untried:
        return _behind(survey.cluster, loop)
    reason = _too_large(survey, group)
    if reason is None:
        if group.wanted_slices:
            reason = _named_slices(survey.view, survey.cluster, group)
        elif group.role == "head" or group.wanted_pod_type:
            reason = _pod_type(survey, group)
        else:
            reason = _any_host(survey, group)
    if reason is None:
        return None
    if loop is not None and reason.cause not in HOPELESS:
        return _behind(survey.cluster, loop)
    return reason


def _behind(cluster: ClusterView, loop: PlacementGroup) -> Reason:
    return Reason(
        cause="BehindLivelock",
        text=f"the scheduler is caught in a loop over placement group {loop.label} and never gets "
        "to it",
        evidence=(
            ray_evidence(
                cluster, f"placement group {loop.label}", "stats.scheduling_attempt", loop.attempts
            ),
        ),
    )


def _too_large(survey: Survey, group: PlacementGroup) -> Reason | None:
    biggest = max((bundle.chips for bundle in group.bundles), default=0.0)
    if biggest <= 0 or survey.largest <= 0 or biggest <= survey.largest:
        return None
    return Reason(
        cause="BundleTooLarge",
        text=f"one bundle asks for {biggest:g} TPUs, and the biggest host has {survey.largest:g}",
        evidence=(
            ray_evidence(
                survey.cluster,
                f"placement group {group.label}",
                "bundles.unit_resources.TPU",
                biggest,
            ),
            ray_evidence(survey.cluster, "nodes", "largest resources_total.TPU", survey.largest),
        ),
    )


# --- groups that name a slice ---------------------------------------------------------------


def _named_slices(view: View, cluster: ClusterView, group: PlacementGroup) -> Reason | None:
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
        return None if coming else _unexplained(cluster, group)
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
    if _coming(named):
        return None
    broken = [item for item in named if not _whole_enough(item)]
    if broken:
        return _incomplete(cluster, broken)
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
    return _unexplained(cluster, group)


def _coming(slices: Sequence[Slice]) -> bool:
    """Whether one of these slices is on its way: young, or held back on purpose, and not refused."""
    return any(
        item.forming and not any(host.problem == "ScaleUpFailed" for host in item.hosts)
        for item in slices
    )


def _whole_enough(item: Slice) -> bool:
    return item.hosts_expected is None or item.hosts_alive >= item.hosts_expected


def _incomplete(cluster: ClusterView, broken: Sequence[Slice]) -> Reason:
    failed = any(host.problem == "ScaleUpFailed" for item in broken for host in item.hosts)
    gone = all(item.hosts_alive == 0 and not any(h.pod for h in item.hosts) for item in broken)
    item = broken[0]
    if gone:
        return Reason(
            cause="SliceGone",
            text=f"it needs slice {item.name}, which has no live host",
            evidence=(ray_evidence(cluster, f"slice {item.name}", "live hosts", 0),),
            slices=tuple(one.id for one in broken),
        )
    cluster_key = cluster_id(item)
    return Reason(
        cause="ScaleUpFailed" if failed else "SliceIncomplete",
        text=(
            f"slice {item.name} has {item.hosts_alive} of {item.hosts_expected} hosts"
            + (", and the cloud could not add the rest" if failed else "")
        ),
        evidence=(
            ray_evidence(
                cluster,
                f"slice {item.name}",
                "live hosts",
                f"{item.hosts_alive} of {item.hosts_expected}",
            ),
        ),
        slices=tuple(one.id for one in broken),
        worker_groups=tuple(f"{cluster_key}/{one.group}" for one in broken if one.group),
    )


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


def _unexplained(cluster: ClusterView, group: PlacementGroup) -> Reason:
    wants: Counter[str] = Counter()
    for bundle in group.bundles:
        for name, amount in bundle.resources.items():
            wants[name] += 1 if amount else 0
    return Reason(
        cause=None,
        text="the TPUs that it asks for look free, so look at the other resources in its bundles "
        f"({', '.join(sorted(wants)) or 'none'}) and at its selectors",
        evidence=(
            ray_evidence(
                cluster,
                f"placement group {group.label}",
                "stats.scheduling_state",
                group.scheduling_state,
            ),
        ),
    )


# --- groups that want a shape ---------------------------------------------------------------


def _pod_type(survey: Survey, group: PlacementGroup) -> Reason | None:
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
    if _coming(candidates):
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
    broken = [item for item in candidates if not _whole_enough(item) and not item.held_by]
    if broken:
        return _incomplete(cluster, broken[:MANY])
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
    return _unexplained(cluster, group)


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


# --- groups that take any host --------------------------------------------------------------


def _any_host(survey: Survey, group: PlacementGroup) -> Reason | None:
    cluster = survey.cluster
    topologies = frozenset(
        bundle.selector[RAY_TOPOLOGY_LABEL]
        for bundle in group.bundles
        if RAY_TOPOLOGY_LABEL in bundle.selector
    )
    if survey.coming(topologies):
        return None
    odd = _unknown_resource(survey, group)
    if odd is not None:
        return odd
    total = survey.tpus(topologies)
    thing = f"placement group {group.label}"
    if total < group.chips:
        broken = [item for item in survey.of_topologies(topologies) if not _whole_enough(item)]
        if broken:
            return _incomplete(cluster, broken[:MANY])
        return Reason(
            cause="NoSuchSlice",
            text=f"it asks for {group.chips:g} TPUs in {len(group.bundles)} bundles, and the "
            f"cluster has {total:g} TPUs"
            + (f" of topology {names_of(sorted(topologies))}" if topologies else ""),
            evidence=(
                ray_evidence(cluster, thing, "TPUs", group.chips),
                ray_evidence(cluster, "nodes", "TPUs", total),
            ),
        )
    own = sum(bundle.chips for bundle in group.bundles if bundle.host_key is not None)
    held = survey.held - own
    if held <= 0 or total - held >= group.chips:
        return _unexplained(cluster, group)
    labels = [other.label for other in survey.holders[: MANY + 1] if other.key != group.key]
    return Reason(
        cause="AllSlicesBusy",
        text=f"it asks for {group.chips:g} TPUs, and {held:g} of {total:g} are held"
        + (f" (by {names_of(labels)})" if labels else ""),
        evidence=(
            ray_evidence(cluster, thing, "TPUs", group.chips),
            ray_evidence(cluster, "nodes", "TPUs held", f"{held:g} of {total:g}"),
        ),
    )


def _unknown_resource(survey: Survey, group: PlacementGroup) -> Reason | None:
    """A resource that no live host offers, such as the name of a slice that is gone."""
    wanted = {
        name
        for bundle in group.bundles
        for name, amount in bundle.resources.items()
        if amount > 0 and name not in COMMON_RESOURCES and not HEAD_RESOURCE.match(name)
    }
    missing = sorted(wanted - survey.resources)
    if not missing:
        return None
    name = missing[0]
    near = next(
        (item for item in sorted(survey.resources) if _spelled(item) == _spelled(name)), None
    )
    gone = near is None and name in survey.slice_labels
    return Reason(
        cause="SliceGone" if gone else "ResourceNameMismatch",
        text=f"it asks for resource {name}, which no live host offers"
        + (f" (they offer {near})" if near else ""),
        evidence=(
            ray_evidence(
                survey.cluster, f"placement group {group.label}", "bundles.unit_resources", name
            ),
        ),
    )


def _spelled(name: str) -> str:
    return name.lower().replace("-", "_")


# --- the finding ----------------------------------------------------------------------------


def _pending(view: View, cluster: ClusterView, group: PlacementGroup, reason: Reason) -> Outcome:
    severity: Severity = "critical" if reason.cause in HOPELESS else "warning"
    links = group_links(view, group, *reason.slices)
    thing = f"placement group {group.label}"
    since = view.now - (group.pending_seconds or 0.0)
    return hit(
        "PlacementPending",
        group_subject(group),
        f"{who(group)} has waited for {format_duration(group.pending_seconds)}: {reason.text}.",
        severity=severity,
        cause=reason.cause,
        evidence=[
            ray_evidence(cluster, thing, "state", group.state),
            ray_evidence(cluster, thing, "stats.scheduling_state", group.scheduling_state),
            ray_evidence(cluster, thing, "stats.scheduling_attempt", group.attempts),
            ray_evidence(cluster, thing, "asks for", _demand(group)),
            *reason.evidence,
        ],
        actions=_actions(view, cluster, group, reason),
        since=since,
        links=Links(
            cluster=links.cluster,
            slices=links.slices,
            groups=links.groups,
            worker_groups=tuple(dict.fromkeys((*links.worker_groups, *reason.worker_groups))),
        ),
        effect=f"placement group {group.label} has waited for "
        f"{format_duration(group.pending_seconds)}",
    )


def _demand(group: PlacementGroup) -> str:
    if group.role == "head":
        return (
            next((b.head_resource for b in group.bundles if b.head_resource), "a head") or "a head"
        )
    named = f" of slice {names_of(group.wanted_slices)}" if group.wanted_slices else ""
    return f"{group.chips:g} TPUs in {len(group.bundles)} bundles{named}"


def _actions(
    view: View, cluster: ClusterView, group: PlacementGroup, reason: Reason
) -> list[Action]:
    steps: list[Action] = [
        look(
            "See all live placement groups and where they lie.",
            commands.ray_list(view, cluster, "placement-groups", "state!=REMOVED"),
        )
    ]
    if reason.cause in ("NoSuchSlice", "ResourceNameMismatch", "BundleTooLarge", "SliceGone"):
        steps.append(
            look(
                "See which hosts offer what.",
                commands.ray_list(view, cluster, "nodes", "state=ALIVE"),
            )
        )
    else:
        steps.append(
            look("See what is used and what is asked for.", commands.ray_status(view, cluster))
        )
    if reason.cause in ("ScaleUpFailed",) and cluster.has_kubernetes:
        steps.append(
            look(
                "Read why the cloud gave no nodes.",
                commands.events_of(view, cluster.namespace, "FailedScaleUp"),
            )
        )
    steps.append(_fix(view, cluster, group, reason))
    return steps


def _fix(view: View, cluster: ClusterView, group: PlacementGroup, reason: Reason) -> Action:
    drop = commands.remove_group(view, cluster, group.id)
    blocker = reason.blockers[0] if reason.blockers else None
    match reason.cause:
        case "Squatter" if blocker is not None:
            return fix(
                f"Decide who goes. Removing {blocker.label} kills its job and lets "
                f"{group.label} start at once.",
                commands.remove_group(view, cluster, blocker.id),
            )
        case "Squatter":
            return fix("Stop the job whose workers take TPUs of the slice (kills that job).")
        case "HeadHeld" if blocker is not None:
            return fix(
                "Remove the leaked reservation. It costs nothing: no worker is in it.",
                commands.remove_group(view, cluster, blocker.id),
            )
        case "SliceGone":
            return fix(
                "That slice will not come back under its name by waiting: remove the group and "
                "reserve anew (it runs nothing yet).",
                drop,
            )
        case "BundleTooLarge":
            return fix(
                "Ask for what one host has; with slice_placement_group pass chips_per_vm. Removing "
                "the group costs nothing: it runs nothing yet.",
                drop,
            )
        case "ResourceNameMismatch":
            return fix(
                "Ask for the name that the hosts offer. Removing the group costs nothing: it runs "
                "nothing yet.",
                drop,
            )
        case "AllSlicesBusy":
            return fix(
                "Wait for a slice, add one (replicas of its worker group), or stop a job that "
                "matters less (which kills it)."
            )
        case "NoSuchSlice":
            return fix("Add a worker group of that shape, or ask for a shape that is there.")
        case "BehindLivelock":
            return fix("End the loop first: see the finding SchedulerLivelock.")
        case "ScaleUpFailed" | "SliceIncomplete":
            return fix("Repair the slice first: see its finding. The group goes on by itself.")
        case _:
            return fix(
                "Correct what the bundles ask for; removing the group costs nothing, it runs "
                "nothing yet.",
                drop,
            )
