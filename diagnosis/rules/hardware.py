"""What nodes and Slice objects say of the hardware: faults, maintenance, chips that do not add up."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Severity, Subject
from diagnosis.rules.base import (
    Links,
    Outcome,
    cluster_subject,
    fix,
    hit,
    kube_evidence,
    look,
    node_subject,
    pod_subject,
    ray_evidence,
    slice_subject,
    unknown,
)
from diagnosis.rules.slices import title
from diagnosis.view import View, host_name, names_of, shorten
from fleet.joining import ray_tpu
from fleet.model import ClusterView, Host, Slice
from fleet.observation import Condition, Node, SliceObject
from fleet.pods import (
    ACCELERATOR_LABEL,
    CHIPS_PER_NODE_LABEL,
    TPU_RESOURCE,
    created_at,
    labels_of,
    node_ready,
    phase,
    pod_tpu_chips,
    terminating,
    tpu_containers,
)
from fleet.times import format_duration, format_time, number, parse_time

REGISTRATION_SECONDS = 120.0
"""A Ready node may offer 0 chips for some 30 s until the device plugin registers (gke_tpu 3)."""

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

PARTITION_STATE = "cloud.google.com/gke-tpu-partition-4x4x4-state"
SICK_PARTITIONS = frozenset({"DEGRADED", "UNHEALTHY", "INCOMPLETE"})
SICK_SLICES = frozenset({"ACTIVE_DEGRADED", "FAILED", "INCOMPLETE", "SliceCreationFailed"})
GRAVE = frozenset({"FAILED", "UNHEALTHY", "SliceCreationFailed"})


def _links(item: Slice, hosts: list[Host]) -> Links:
    cluster = f"{item.namespace}/{item.cluster}"
    return Links(
        cluster=cluster,
        slices=(item.id,),
        groups=item.held_by,
        worker_groups=(f"{cluster}/{item.group}",) if item.group else (),
        hosts=tuple(f"{item.id}|{host.key}" for host in hosts),
    )


def _condition(node: Node, kind: str) -> Condition | None:
    for item in (node.status.conditions if node.status else None) or ():
        if item.type == kind:
            return item
    return None


# --- RuntimeFault ---------------------------------------------------------------------------


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
                and (condition := _condition(host.node, kind)) is not None
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
                links=_links(item, hosts),
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


# --- HostMaintenance ------------------------------------------------------------------------


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
            links=_links(item, hosts),
            effect=f"a host of {item.name} is {when}",
        )


def _taint_time(node: Node | None) -> float | None:
    times = [
        at
        for taint in ((node.spec.taints if node and node.spec else None) or ())
        if taint.key in LEAVING_TAINTS and (at := parse_time(taint.time_added)) is not None
    ]
    return min(times, default=None)


# --- ChipCountMismatch ----------------------------------------------------------------------


def judge_chips(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``ChipCountMismatch``: Ray's TPUs, the pod's request, the node's allocatable and label differ.

    Facts: gke_tpu R23, R22 (tpu7x counted as 8 devices), 3 (allocatable is 0 for some 30 s until
    the device plugin registers; a lost device lowers it), 1.5 (the pod's limit sets Ray's count).
    Must not flag: a node that has just come or is not Ready; a terminating pod; Ray's count where
    several containers of a pod share its chips; pods of v7x that ask for part of a node.
    """
    for item in view.slices_of(cluster):
        alike: dict[tuple[str, tuple[tuple[str, str, float], ...]], list[Host]] = {}
        for host in item.hosts:
            if host.state == "missing" or (host.pod is not None and terminating(host.pod)):
                continue
            found = _chip_counts(view, host)
            if found is not None:
                alike.setdefault((found[0], tuple(found[1])), []).append(host)
        for (kind, counts), hosts in alike.items():
            # The same numbers on several hosts of one slice are one mistake.
            yield _mismatch(view, cluster, item, hosts, kind, counts)


def _chip_counts(view: View, host: Host) -> tuple[str, list[tuple[str, str, float]]] | None:
    """Whether the node or the pod is at fault, and the counts that do not agree."""
    counts: list[tuple[str, str, float]] = []
    node, pod = host.node, host.pod
    labels = labels_of(node) if node is not None else {}
    label = number(labels.get(CHIPS_PER_NODE_LABEL))
    allocatable = None
    if node is not None and node.status is not None and node.status.allocatable is not None:
        allocatable = number(node.status.allocatable.get(TPU_RESOURCE)) or 0.0
    asked = pod_tpu_chips(pod) if pod is not None else None
    counted = ray_tpu(host.ray_node) if host.ray_node is not None else None
    if label is not None:
        counts.append(("node", f"label {CHIPS_PER_NODE_LABEL}", label))
    if allocatable is not None:
        counts.append(("node", f"allocatable {TPU_RESOURCE}", allocatable))
    if asked is not None:
        counts.append(("pod", f"limits {TPU_RESOURCE}", float(asked)))
    if counted is not None:
        counts.append(("ray", "resources_total TPU", counted))
    if (
        node is not None
        and label is not None
        and allocatable is not None
        and allocatable != label
        and node_ready(node) is True
        and _older(view, node)
    ):
        return "node", counts
    v7x = labels.get(ACCELERATOR_LABEL, "").startswith("tpu7")
    if asked is not None and label is not None and asked != label and not (v7x and asked < label):
        return "pod", counts
    base = float(asked) if asked is not None else label
    if base is not None and counted is not None and counted != base:
        # One container's limit sets Ray's count; several share the pod's chips.
        return ("pod", counts) if pod is None or len(tpu_containers(pod)) <= 1 else None
    return None


def _older(view: View, node: Node) -> bool:
    made = created_at(node)
    ready = _condition(node, "Ready")
    since = parse_time(ready.last_transition_time) if ready is not None else None
    newest = max((at for at in (made, since) if at is not None), default=None)
    return newest is None or view.now - newest > REGISTRATION_SECONDS


def _mismatch(
    view: View,
    cluster: ClusterView,
    item: Slice,
    hosts: list[Host],
    kind: str,
    counts: tuple[tuple[str, str, float], ...],
) -> Outcome:
    host = hosts[0]
    subject: Subject
    if kind == "pod" and host.pod is not None:
        subject = pod_subject(cluster, host.pod)
    else:
        subject = node_subject(cluster, host.node_name or host.key)
    words = {"node": "the node's", "pod": "the pod's", "ray": "Ray's"}
    parts = ", ".join(f"{words[side]} {field} is {value:g}" for side, field, value in counts)
    rows: list[Evidence] = []
    for one in hosts[:4]:
        for side, field, value in counts:
            if side == "node":
                rows.append(kube_evidence("node", one.node_name or "?", field, value))
            elif side == "pod":
                rows.append(kube_evidence("pod", one.pod_name or "?", field, value))
            else:
                name = f"node {(one.ray_node_id or '?')[:12]}"
                rows.append(ray_evidence(cluster, name, field, value))
    who = names_of(host_name(one) for one in hosts)
    thing_name = host.node_name if kind == "node" else host.pod_name
    thing = f" ({thing_name})" if thing_name and len(hosts) == 1 else ""
    return hit(
        "ChipCountMismatch",
        subject,
        f"{who[:1].upper()}{who[1:]}{thing} of slice {item.name} ({cluster.id}): {parts}. These "
        "should be equal.",
        severity="warning",
        evidence=rows,
        actions=_count_steps(view, cluster, item, host, kind),
        links=_links(item, hosts),
        effect=f"chip counts of {who} of {item.name} do not agree",
    )


def _count_steps(
    view: View, cluster: ClusterView, item: Slice, host: Host, kind: str
) -> list[Action]:
    steps: list[Action] = []
    if host.node_name:
        steps.append(
            look(
                "Read what the node offers.",
                commands.kubectl(
                    view, "get", "node", host.node_name, "-o", "jsonpath={.status.allocatable}"
                ),
            )
        )
    if host.pod_name:
        steps.append(
            look(
                "Read what the pod asks for.",
                commands.describe_pod(view, item.namespace, host.pod_name),
            )
        )
    steps.append(
        look("Read what Ray counts.", commands.ray_list(view, cluster, "nodes", "state=ALIVE"))
    )
    steps.append(
        fix("A chip is lost: have the node repaired; the whole slice goes down with it.")
        if kind == "node"
        else fix(
            "Ask for all chips of the node in google.com/tpu, and leave TPU out of "
            "rayStartParams (or make both equal); then delete the slice's pods (kills its job).",
            commands.delete_slice_pods(view, item),
        )
    )
    return steps


# --- PhantomTpu -----------------------------------------------------------------------------


def judge_phantom(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``PhantomTpu``: Ray counts TPUs on a host whose pod has none.

    Facts: gke_tpu R22 (``/dev/vfio`` or ``/dev/accel`` of a GPU or other device taken for a TPU).
    Must not flag: hosts whose pod asks for google.com/tpu, or whose node has the accelerator label;
    Ray nodes of no known pod.
    """
    for stray in view.phantoms_of(cluster):
        pod, node = stray.pod, stray.node
        if pod is None or pod_tpu_chips(pod) is not None or phase(pod) in ("Failed", "Succeeded"):
            continue
        if any(key.startswith("ray.io/tpu-") for key in node.labels or {}):
            continue
        bound = pod.spec.node_name if pod.spec else None
        kube_node = view.fleet.nodes.get(bound or "")
        if kube_node is None and "nodes" not in view.fleet.kubernetes_parts:
            yield unknown(
                "PhantomTpu", pod_subject(cluster, pod), "its Kubernetes node is not seen"
            )
            continue
        if kube_node is not None and labels_of(kube_node).get(ACCELERATOR_LABEL):
            continue
        counted = ray_tpu(node)
        name = pod.metadata.name if pod.metadata else "?"
        yield hit(
            "PhantomTpu",
            pod_subject(cluster, pod),
            f"Ray counts {counted:g} TPUs on pod {name} ({cluster.id}), which asks for none and "
            f"runs on node {bound or '?'} that has none: TPU work placed there fails.",
            severity="warning",
            evidence=[
                ray_evidence(
                    cluster, f"node {(node.node_id or '?')[:12]}", "resources_total TPU", counted
                ),
                kube_evidence("pod", name or "?", f"limits {TPU_RESOURCE}", None),
                kube_evidence("node", bound or "?", f"label {ACCELERATOR_LABEL}", None),
            ],
            actions=[
                look(
                    "Read what Ray counts.",
                    commands.ray_list(view, cluster, "nodes", "state=ALIVE"),
                ),
                look(
                    "Read what the pod asks for.",
                    commands.describe_pod(view, cluster.namespace, name or "?"),
                ),
                fix(
                    'Set TPU to 0 in the group\'s rayStartParams (resources: \'"{\\"TPU\\": 0}"\'); '
                    "its pods are made anew (kills what runs on them).",
                    commands.edit_cluster(view, cluster),
                ),
            ],
            links=Links(cluster=cluster.id, hosts=(f"pod|{name}",)),
            effect=f"Ray counts TPUs on pod {name} that has none",
        )


# --- DynamicSliceDegraded -------------------------------------------------------------------


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
        links=_links(item, [host for host, _ in partitions]),
        effect=f"slice {item.name}: {'; '.join(told)}",
    )


__all__ = [
    "cluster_subject",
    "judge_chips",
    "judge_dynamic",
    "judge_maintenance",
    "judge_phantom",
    "judge_runtime",
]
