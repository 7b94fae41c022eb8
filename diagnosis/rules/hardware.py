"""What Kubernetes nodes say of a slice's hosts: faults of the runtime, and maintenance."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Severity
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    slice_subject,
)
from diagnosis.rules.slices import title
from diagnosis.view import View, host_name, names_of, shorten
from fleet.model import ClusterView, Host, Slice
from fleet.observation import Condition, Node
from fleet.pods import (
    labels_of,
)
from fleet.times import format_duration, number, parse_time

FAULTS = ("SliceErrorDetected", "MegascaleHangDetected")
"""Node conditions of the device plugin; a slice's error explains a hang, so it comes first."""

ONGOING_LABEL = "cloud.google.com/active-node-maintenance"
SCHEDULED_LABEL = "cloud.google.com/scheduled-maintenance-time"
LATEST_LABEL = "cloud.google.com/scheduled-maintenance-time-latest"
LEAVING_TAINTS = frozenset(
    {
        "cloud.google.com/impending-node-termination",
        "cloud.google.com/maintenance-window-started",
        "node.kubernetes.io/out-of-service",
    }
)


def host_links(item: Slice, hosts: list[Host]) -> Links:
    """What a finding about these hosts of a slice touches."""
    cluster = f"{item.namespace}/{item.cluster}"
    return Links(
        cluster=cluster,
        slices=(item.id,),
        groups=item.held_by,
        worker_groups=(f"{cluster}/{item.group}",) if item.group else (),
        hosts=tuple(f"{item.id}|{host.key}" for host in hosts),
    )


def node_condition(node: Node, kind: str) -> Condition | None:
    """A node's condition of one kind, where it has it."""
    for item in (node.status.conditions if node.status else None) or ():
        if item.type == kind:
            return item
    return None


def judge_runtime(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``RuntimeFault``: a node of the slice says MegascaleHangDetected or SliceErrorDetected.

    Facts: gke_tpu 0.2 and 4.3 (written by the device plugin, removed 30 min after the last
    heartbeat, never set False).
    Must not flag: a condition whose status is not True.
    """
    for item in view.slices_of(cluster):
        for kind in FAULTS:
            found = [
                (host, condition)
                for host in item.hosts
                if host.node is not None
                and (condition := node_condition(host.node, kind)) is not None
                and condition.status == "True"
            ]
            if not found:
                continue
            message = next((c.message for _, c in found if c.message), "")
            times = [at for _, c in found if (at := parse_time(c.last_transition_time)) is not None]
            since = min(times, default=None)
            told = f": {shorten(message)}" if message else ""
            what = (
                "its TPU runtime reports an error of the slice"
                if kind == "SliceErrorDetected"
                else "its TPU runtime hangs in communication between slices"
            )
            hosts = [host for host, _ in found]
            yield hit(
                "RuntimeFault",
                slice_subject(item),
                f"{title(item)}: {what} ({kind} on {names_of(host_name(h) for h in hosts)}){told}.",
                severity="critical",
                cause=kind,
                evidence=[
                    kube_evidence(
                        "node",
                        host.node_name or "?",
                        f"condition {kind}",
                        f"{c.status} since {c.last_transition_time or '?'}"
                        + (f": {c.message}" if c.message else ""),
                    )
                    for host, c in found[:6]
                ],
                actions=_runtime_actions(view, cluster, item, hosts),
                since=since,
                links=host_links(item, hosts),
                effect=f"slice {item.name} reports {kind}",
            )
            break


def _runtime_actions(
    view: View, cluster: ClusterView, item: Slice, hosts: list[Host]
) -> list[Action]:
    steps: list[Action] = []
    if hosts[0].node_name:
        steps.append(
            look("Read the node's conditions.", commands.describe_node(view, hosts[0].node_name))
        )
    if hosts[0].pod_name:
        steps.append(
            look(
                "See what the chips do.", commands.tpu_info(view, item.namespace, hosts[0].pod_name)
            )
        )
        steps.append(
            look("Read the pod's log.", commands.logs(view, item.namespace, hosts[0].pod_name))
        )
    steps.append(
        look(
            "See where each process stands.",
            commands.ray_list(view, cluster, "actors", "state=ALIVE"),
        )
    )
    steps.append(
        fix(
            "Restart the job from its last checkpoint; if the error comes back on the same nodes, "
            "delete the slice's pods and have the nodes repaired (kills the job on this slice).",
            commands.delete_slice_pods(view, item),
        )
    )
    return steps


def _maintenance(view: View, node: Node) -> tuple[float, str, str, str] | None:
    """Seconds until it starts (0 = under way), and which field says so with what value."""
    labels = labels_of(node)
    for taint in (node.spec.taints if node.spec else None) or ():
        if taint.key in LEAVING_TAINTS:
            return 0.0, "taint", taint.key or "", taint.value or taint.effect or ""
    if labels.get(ONGOING_LABEL, "").upper() == "ONGOING":
        return 0.0, "label", ONGOING_LABEL, labels[ONGOING_LABEL]
    planned = number(labels.get(SCHEDULED_LABEL))
    if planned is None or planned <= 0:
        return None
    latest = number(labels.get(LATEST_LABEL)) or planned
    ahead = planned - view.now
    if ahead < 0 and view.now - max(planned, latest) > view.thresholds.maintenance_soon:
        # Long past and nothing under way: it was done, the label was left behind.
        return None
    return max(ahead, 0.0), "label", SCHEDULED_LABEL, labels[SCHEDULED_LABEL] or ""


def judge_maintenance(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``HostMaintenance``: a host is under, or scheduled for, maintenance or termination.

    Facts: gke_tpu 2.1 (labels ``scheduled-maintenance-time`` in epoch seconds,
    ``active-node-maintenance``; taints on impending termination).
    Must not flag: a time long past with nothing under way; nodes of no slice.
    """
    for item in view.slices_of(cluster):
        found = [
            (plan, host)
            for host in item.hosts
            if host.node is not None and (plan := _maintenance(view, host.node)) is not None
        ]
        if not found:
            continue
        found.sort(key=lambda pair: (pair[0][0], pair[1].key))
        ahead = found[0][0][0]
        severity: Severity = "warning" if ahead <= view.thresholds.maintenance_soon else "info"
        hosts = [host for _, host in found]
        when = (
            "under maintenance or about to be terminated"
            if ahead <= 0
            else f"scheduled for maintenance in {format_duration(ahead)}"
        )
        use = [group.label for group in view.holders_of(item)]
        hurt = f"; {names_of(use)} will be interrupted" if use else ""
        yield hit(
            "HostMaintenance",
            slice_subject(item),
            f"{title(item)}: {names_of(host_name(h) for h in hosts)} "
            f"{'is' if len(hosts) == 1 else 'are'} {when}{hurt}.",
            severity=severity,
            evidence=[
                kube_evidence("node", host.node_name or "?", f"{kind} {key}", value)
                for (_, kind, key, value), host in found[:8]
            ],
            actions=[
                look("See the plans of all nodes.", commands.list_nodes(view)),
                look(
                    "Read the node's taints and conditions.",
                    commands.describe_node(view, hosts[0].node_name or "?"),
                ),
                fix(
                    "Save a checkpoint and move the job to another slice before it starts; the "
                    "whole slice goes down with one host."
                ),
            ],
            since=_taint_time(found[0][1].node),
            links=host_links(item, hosts),
            effect=f"a host of {item.name} is {when}",
        )


def _taint_time(node: Node | None) -> float | None:
    times = [
        at
        for taint in ((node.spec.taints if node and node.spec else None) or ())
        if taint.key in LEAVING_TAINTS and (at := parse_time(taint.time_added)) is not None
    ]
    return min(times, default=None)
