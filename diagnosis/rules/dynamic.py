"""``DynamicSliceDegraded``: what the Slice objects of TPU7x say."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Severity, Subject
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    slice_subject,
)
from diagnosis.rules.hardware import host_links
from diagnosis.rules.slices import title
from diagnosis.view import View, names_of, shorten
from fleet.model import ClusterView, Host, Slice
from fleet.observation import SliceObject
from fleet.pods import (
    labels_of,
)
from fleet.times import format_time, parse_time

PARTITION_STATE = "cloud.google.com/gke-tpu-partition-4x4x4-state"
SICK_PARTITIONS = frozenset({"DEGRADED", "UNHEALTHY", "INCOMPLETE"})
SICK_SLICES = frozenset({"ACTIVE_DEGRADED", "FAILED", "INCOMPLETE", "SliceCreationFailed"})
GRAVE = frozenset({"FAILED", "UNHEALTHY", "SliceCreationFailed"})


def judge_dynamic(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``DynamicSliceDegraded``: the Slice object or its partitions are not ACTIVE/HEALTHY.

    Facts: gke_tpu 2.1 (Slice of ``accelerator.gke.io/v1beta1``, condition Ready with a reason;
    label ``gke-tpu-partition-4x4x4-state``), 3 (PROVISION_ONLY pools have no ICI until ACTIVE).
    Must not flag: slices without a Slice object; ACTIVATING within the grace; DEACTIVATING (it is
    on its way out); partitions that are UNSET (not known yet).
    """
    for item in view.slices_of(cluster):
        state = _slice_state(view, item.slice_object)
        partitions = [
            (host, label)
            for host in item.hosts
            if host.node is not None
            and (label := labels_of(host.node).get(PARTITION_STATE, "")) in SICK_PARTITIONS
        ]
        if item.slice_object is None and not (partitions and _is_dynamic(item)):
            continue
        if state is None and not partitions:
            continue
        yield _degraded(view, cluster, item, state, partitions)


def judge_unused_slices(view: View) -> Iterator[Outcome]:
    """``DynamicSliceDegraded`` for Slice objects on which no Ray host lies (yet): never in use."""
    used = {
        item.slice_object.metadata.name
        for item in view.fleet.slices
        if item.slice_object is not None and item.slice_object.metadata is not None
    }
    for found in view.fleet.slice_objects:
        name = found.metadata.name if found.metadata is not None else None
        state = _slice_state(view, found)
        if name is None or name in used or state is None:
            continue
        told = f" ({shorten(state[1])})" if state[1] else ""
        yield hit(
            "DynamicSliceDegraded",
            Subject(kind="slice", id=f"-/-/{name}", name=name),
            f"Slice object {name} is {state[0]}{told}; no Ray host lies on it.",
            severity="warning",
            evidence=[
                kube_evidence(
                    "slice", name, "condition Ready, reason", f"{state[0]} {state[1]}".strip()
                ),
                kube_evidence("slice", name, "since", format_time(state[2])),
            ],
            actions=[
                look("See all Slices.", commands.kubectl(view, "get", "slice", "-A")),
                look("Read its conditions.", commands.kubectl(view, "describe", "slice", name)),
                fix(
                    "Delete the Slice and make it anew; nothing runs on it, so it costs nothing.",
                    commands.kubectl(view, "delete", "slice", name),
                ),
            ],
            since=state[2],
            links=Links(),
        )


def _is_dynamic(item: Slice) -> bool:
    return any(
        labels_of(host.node).get("cloud.google.com/gke-tpu-slice")
        for host in item.hosts
        if host.node is not None
    )


def _slice_state(view: View, found: SliceObject | None) -> tuple[str, str, float | None] | None:
    """Reason, message and time of a Slice that is not ACTIVE; ``None`` when it is, or is coming."""
    if found is None or (found.metadata is not None and found.metadata.deletion_timestamp):
        return None
    for item in (found.status.conditions if found.status else None) or ():
        if item.type != "Ready":
            continue
        reason = item.reason or ""
        at = parse_time(item.last_transition_time)
        if reason in SICK_SLICES:
            return reason, item.message or "", at
        coming = reason in ("ACTIVATING", "SliceNotCreated")
        if coming and at is not None and view.now - at > view.thresholds.slice_startup_grace:
            return reason, item.message or "", at
    return None


def _degraded(
    view: View,
    cluster: ClusterView,
    item: Slice,
    state: tuple[str, str, float | None] | None,
    partitions: list[tuple[Host, str]],
) -> Outcome:
    worst = {label for _, label in partitions} | ({state[0]} if state else set())
    used = bool(item.held_by or item.workers)
    severity: Severity = "critical" if used and worst & GRAVE else "warning"
    object_name = (
        item.slice_object.metadata.name
        if item.slice_object is not None and item.slice_object.metadata is not None
        else None
    ) or item.name
    told = []
    if state is not None:
        told.append(
            f"its Slice {object_name} is {state[0]}"
            + (f" ({shorten(state[1])})" if state[1] else "")
        )
    if partitions:
        labels = sorted({label for _, label in partitions})
        told.append(f"partitions of {len(partitions)} of its hosts are {names_of(labels)}")
    rows = []
    if state is not None:
        rows.append(
            kube_evidence(
                "slice", object_name, "condition Ready, reason", f"{state[0]} {state[1]}".strip()
            )
        )
        rows.append(kube_evidence("slice", object_name, "since", format_time(state[2])))
    rows += [
        kube_evidence("node", host.node_name or "?", f"label {PARTITION_STATE}", label)
        for host, label in partitions[:6]
    ]
    use = ", which is in use" if used else ""
    return hit(
        "DynamicSliceDegraded",
        slice_subject(item),
        f"{title(item)}{use}: {'; '.join(told)}.",
        severity=severity,
        evidence=rows,
        actions=[
            look("See all Slices.", commands.kubectl(view, "get", "slice", "-A")),
            look(
                "Read this one's conditions.",
                commands.kubectl(view, "describe", "slice", object_name),
            ),
            fix(
                "Move the job to another slice. A Slice that has failed has to be deleted and made "
                "anew (kills what runs on it).",
                commands.kubectl(view, "delete", "slice", object_name),
            ),
        ],
        since=state[2] if state else None,
        links=host_links(item, [host for host, _ in partitions]),
        effect=f"slice {item.name}: {'; '.join(told)}",
    )
