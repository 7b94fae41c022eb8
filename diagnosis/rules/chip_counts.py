"""Chips that do not add up: counts that differ, and TPUs where there are none."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Subject
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    node_subject,
    pod_subject,
    ray_evidence,
    unknown,
)
from diagnosis.rules.hardware import host_links, node_condition
from diagnosis.view import View, host_name, names_of
from fleet.joining import ray_tpu
from fleet.model import ClusterView, Host, Slice
from fleet.observation import Node
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
from fleet.times import number, parse_time

REGISTRATION_SECONDS = 120.0
"""A Ready node may offer 0 chips for some 30 s until the device plugin registers (gke_tpu 3)."""


def judge_chips(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``ChipCountMismatch``: counts of Ray, of the pod and of the node differ.

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
    ready = node_condition(node, "Ready")
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
        links=host_links(item, hosts),
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
                    "Set TPU to 0 in the resources of the group's rayStartParams; "
                    "its pods are made anew (kills what runs on them).",
                    commands.edit_cluster(view, cluster),
                ),
            ],
            links=Links(cluster=cluster.id, hosts=(f"pod|{name}",)),
            effect=f"Ray counts TPUs on pod {name} that has none",
        )
