"""``PlacementPending``: why a TPU group waits. One cause a group, the one that has to go first."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Severity
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
from diagnosis.rules.pending_any import any_host
from diagnosis.rules.pending_named import named_slices
from diagnosis.rules.pending_shape import wanted_shape
from diagnosis.rules.placement import group_links, who
from diagnosis.rules.scheduler import livelocked
from diagnosis.rules.survey import (
    Reason,
    Survey,
)
from diagnosis.view import View, names_of
from fleet.model import ClusterView, PlacementGroup
from fleet.times import format_duration

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
                "it waits, but why is not known: Ray's lists of nodes and groups are not complete",
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
            reason = named_slices(survey.view, survey.cluster, group)
        elif group.role == "head" or group.wanted_pod_type:
            reason = wanted_shape(survey, group)
        else:
            reason = any_host(survey, group)
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
            named=tuple(
                item.id for name in group.wanted_slices for item in view.slices_named(cluster, name)
            ),
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
