"""``WebhookDown``: pods are not created because the TPU webhook does not answer."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.rules.base import (
    Links,
    Outcome,
    cluster_subject,
    fix,
    hit,
    kube_evidence,
    look,
)
from diagnosis.rules.replicas import CREATE_FAILED, CREATED, pod_drift
from diagnosis.view import View, shorten
from fleet.model import ClusterView
from fleet.observation import Event
from fleet.pods import event_time
from fleet.times import format_time

CALL_FAILED = "failed calling webhook"


def _no_answer(text: str) -> bool:
    """Whether a call to the TPU webhook failed; other webhooks (Kueue's) are not ours to name."""
    _, found, rest = text.partition(CALL_FAILED)
    return bool(found) and ("tpu" in rest.lower() or "ray" in rest.lower())


def judge_webhook(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``WebhookDown``: pods are not created because the TPU webhook does not answer.

    Facts: gke_tpu R10 (``failed calling webhook "kuberay-tpu-webhook.ray-system.svc"``, no
    endpoints, x509), 1.1 (no failurePolicy means Fail: every KubeRay pod is refused).
    Must not flag: a webhook that answers and refuses; a failure after which pods were created.
    """
    events = view.events("RayCluster", cluster.namespace, cluster.cluster)
    newest_failure: Event | None = None
    made = None
    first = None
    for event in events:
        at = event_time(event)
        if event.reason in CREATE_FAILED and _no_answer(event.message or ""):
            newest_failure = event
            first = at if first is None else first
        elif event.reason in CREATED and at is not None:
            made = at if made is None else max(made, at)
    condition = next(
        (
            (kind, reason, message)
            for kind, status, reason, message in cluster.conditions
            if kind == "ReplicaFailure" and status == "True" and _no_answer(message)
        ),
        None,
    )
    failed_at = event_time(newest_failure) if newest_failure is not None else None
    over = made is not None and failed_at is not None and made > failed_at
    if condition is None and (newest_failure is None or over or _complete(view, cluster)):
        return
    words = condition[2] if condition else (newest_failure.message or "") if newest_failure else ""
    rows = []
    if condition is not None:
        rows.append(
            kube_evidence(
                "raycluster", cluster.cluster, f"condition ReplicaFailure ({condition[1]})", words
            )
        )
    if newest_failure is not None:
        rows.append(
            kube_evidence(
                "raycluster",
                cluster.cluster,
                f"event {newest_failure.reason}",
                newest_failure.message,
            )
        )
        rows.append(
            kube_evidence("raycluster", cluster.cluster, "event last seen", format_time(failed_at))
        )
    yield hit(
        "WebhookDown",
        cluster_subject(cluster),
        f"KubeRay cannot create pods of {cluster.id}: the TPU webhook does not answer "
        f"({shorten(_tail(words), 180)}).",
        severity="critical",
        evidence=rows,
        actions=[
            look("See whether the webhook runs and has endpoints.", commands.webhook_state(view)),
            look("Read its log.", commands.webhook_logs(view)),
            look("Read the RayCluster's events.", commands.describe_cluster(view, cluster)),
            fix(
                "Restart it (running pods are not touched); if the certificate is at fault, renew "
                "the Secret kuberay-tpu-webhook-certs first.",
                commands.restart_webhook(view),
            ),
        ],
        since=first if not over else None,
        links=Links(
            cluster=cluster.id,
            slices=tuple(
                item.id
                for item in view.slices_of(cluster)
                if any(host.problem == "PodMissing" for host in item.hosts)
            ),
            worker_groups=tuple(
                group.id
                for group in view.worker_groups_of(cluster)
                if pod_drift(group) not in (None, 0)
            ),
        ),
        effect="the TPU webhook does not answer",
    )


def _tail(words: str) -> str:
    place = words.find(CALL_FAILED)
    return words[place:] if place >= 0 else words


def _complete(view: View, cluster: ClusterView) -> bool:
    """Whether every declared pod exists, so whatever failed has been made up for."""
    groups = view.worker_groups_of(cluster)
    return bool(groups) and all(pod_drift(group) == 0 for group in groups)
