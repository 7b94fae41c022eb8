"""``AffinityDeadlock``: pods that wait for a label which no pod carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator

from diagnosis import commands
from diagnosis.rules.base import (
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    worker_group_subject,
)
from diagnosis.rules.pods import current, worker_group_links
from diagnosis.view import View
from fleet.model import ClusterView
from fleet.observation import AffinityTerm, LabelSelectorRequirement, Pod
from fleet.pods import (
    created_at,
    labels_of,
    node_name,
    pod_name,
    pod_namespace,
)


def judge_affinity(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``AffinityDeadlock``: required pod affinity on a label that the pods do not carry.

    Facts: gke_tpu R6 (webhook 1.3.0/1.3.1 with KubeRay's host indexing), 1.3.
    Must not flag: pods that are already on a node; affinity to a label that the pod itself or
    another pod on a node carries; anti-affinity; gated pods.
    """
    # Only the keys: whether a required value fits is the scheduler's business, not ours.
    placed = {
        frozenset(labels_of(pod))
        for group in view.fleet.worker_groups
        for pod in group.pods
        if node_name(pod) is not None
    }
    for group in view.worker_groups_of(cluster):
        if group.suspended:
            continue
        stuck: dict[str, list[Pod]] = defaultdict(list)
        for pod in current(group.pods):
            if node_name(pod) is not None or (pod.spec and pod.spec.scheduling_gates):
                continue
            key = _impossible(pod, placed)
            if key is not None:
                stuck[key].append(pod)
        if not stuck:
            continue
        key = sorted(stuck)[0]
        pods = stuck[key]
        started = [start for pod in pods if (start := created_at(pod)) is not None]
        yield hit(
            "AffinityDeadlock",
            worker_group_subject(group),
            f"{len(pods)} pods of worker group {group.name} ({cluster.id}) must be placed beside "
            f"pods with the label {key}, which no pod carries: they can never be scheduled.",
            severity="critical",
            evidence=[
                *(
                    kube_evidence("pod", pod_name(pod), "required podAffinity key", key)
                    for pod in pods[:4]
                ),
                kube_evidence(
                    "pod", pod_name(pods[0]), "labels", ", ".join(sorted(labels_of(pods[0])))
                ),
            ],
            actions=[
                look(
                    "See the pods with the labels in question.", commands.list_pods(view, cluster)
                ),
                look(
                    "Read why it is not scheduled.",
                    commands.describe_pod(view, pod_namespace(pods[0]), pod_name(pods[0])),
                ),
                fix(
                    "Upgrade the TPU webhook to 1.3.2 or newer, then delete the pods so that they "
                    "are made anew (they run nothing).",
                    commands.delete_pods(
                        view, pod_namespace(pods[0]), sorted(pod_name(pod) for pod in pods)[:32]
                    ),
                ),
            ],
            since=min(started, default=None),
            links=worker_group_links(view, cluster, group),
            effect=f"pods of worker group {group.name} can never be scheduled",
        )


def _impossible(pod: Pod, placed: set[frozenset[str]]) -> str | None:
    """The label key of a required term that neither the pod nor any placed pod fulfils."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec and pod.spec.affinity else None
    terms = (
        affinity.required_during_scheduling_ignored_during_execution if affinity else None
    ) or ()
    own = labels_of(pod)
    for term in terms:
        key = _unmet(term, own)
        if key is not None and not any(_unmet(term, labels) is None for labels in placed):
            return key
    return None


def _unmet(term: AffinityTerm, labels: Container[str]) -> str | None:
    """The key of the first requirement for which a pod lacks the label itself."""
    selector = term.label_selector
    if selector is None:
        return None
    for key in sorted(selector.match_labels or {}):
        if key not in labels:
            return key
    for item in selector.match_expressions or ():
        if _requires_key(item) and item.key not in labels:
            return item.key
    return None


def _requires_key(item: LabelSelectorRequirement) -> bool:
    return item.operator in ("In", "Exists") and bool(item.key)
