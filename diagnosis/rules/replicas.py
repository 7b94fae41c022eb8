"""``ReplicaDrift``: a worker group that has other pods than its spec asks for, or never settles."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    unknown,
    worker_group_subject,
)
from diagnosis.rules.pods import current
from diagnosis.view import View, names_of, shorten
from fleet.model import ClusterView, WorkerGroup
from fleet.pods import REPLICA_NAME_LABEL, created_at, event_time, labels_of, pod_name
from fleet.times import format_duration, format_time

CREATE_FAILED = frozenset({"FailedToCreateWorkerPod", "FailedToCreateHeadPod", "FailedCreate"})
CREATED = frozenset({"CreatedWorkerPod", "CreatedHeadPod"})


CHURN_TIMES = 3
"""A replica that was made anew this often within the grace is not just unlucky (R33)."""


def desired_pods(group: WorkerGroup) -> tuple[int, ...]:
    """Pods that the spec asks for: replicas times hosts, and the same within the bounds.

    KubeRay keeps replicas within minReplicas and maxReplicas, so both count as what was asked for.
    Empty when the spec does not say.
    """
    spec = group.spec
    if spec is None or spec.replicas is None:
        return ()
    bounded = max(spec.replicas, spec.min_replicas or 0)
    if spec.max_replicas is not None:
        bounded = min(bounded, max(spec.max_replicas, 0))
    hosts = max(1 if spec.num_of_hosts is None else spec.num_of_hosts, 0)
    return tuple(dict.fromkeys(max(count, 0) * hosts for count in (spec.replicas, bounded)))


def pod_drift(group: WorkerGroup) -> int | None:
    """Pods too many (or, negative, too few); ``None`` when the spec does not say."""
    wanted = desired_pods(group)
    if not wanted:
        return None
    return min((len(group.pods) - count for count in wanted), key=abs)


def _churn(view: View, cluster: ClusterView, group: WorkerGroup) -> Outcome | None:
    """Replicas that are made and deleted again and again (facts/gke_tpu.md R33).

    Told by places of a slice that changed hands three times within the grace (over several looks),
    or by KubeRay's events on incomplete groups.
    """
    horizon = view.now - view.thresholds.replica_drift_grace
    worst: tuple[int, float, str] | None = None
    for item in view.slices_of_worker_group(group):
        for host in item.hosts:
            seat = view.seats.get(f"{item.id}|{host.worker_id}")
            recent = [at for at in (seat.changes if seat is not None else ()) if at > horizon]
            if len(recent) >= CHURN_TIMES:
                worst = max(worst or (0, 0.0, ""), (len(recent), recent[0], item.name))
    events = [
        event
        for event in view.events("RayCluster", cluster.namespace, cluster.cluster)
        if event.reason == "DeletedWorkerPod"
        and "incomplete multi-host group" in (event.message or "")
        and f"-{group.name}-" in (event.message or "")
        and (event_time(event) or 0.0) > horizon
    ]
    deletions = sum(max(event.count or 1, 1) for event in events)
    per_replica = max(1, (group.spec.num_of_hosts if group.spec is not None else None) or 1)
    if worst is None and deletions <= CHURN_TIMES * per_replica:
        return None
    text = (
        f"slice {worst[2]} was made anew {worst[0]} times in {format_duration(view.now - worst[1])}"
        if worst is not None
        else f"KubeRay deleted {deletions} pods of replicas that did not become whole within "
        f"{format_duration(view.thresholds.replica_drift_grace)}"
    )
    return hit(
        "ReplicaDrift",
        worker_group_subject(group),
        f"Worker group {group.name} ({cluster.id}) never settles: {text}. Something keeps one of "
        "its hosts from coming up, and KubeRay starts all of them again.",
        severity="warning",
        evidence=[
            kube_evidence("worker group", group.name, "made anew", text),
            *(
                kube_evidence("raycluster", cluster.cluster, f"event {event.reason}", event.message)
                for event in events[-4:]
            ),
        ],
        actions=[
            look("See the pods as they are now.", commands.list_pods(view, cluster)),
            look("Read what KubeRay did last.", commands.describe_cluster(view, cluster)),
            look("Read the webhook's log.", commands.webhook_logs(view)),
            fix(
                "Find what fails for the host that never comes up (admission, capacity, image), or "
                "set replicas to 0 until it is found.",
                commands.edit_cluster(view, cluster),
            ),
        ],
        since=worst[1] if worst is not None else None,
        links=Links(cluster=cluster.id, worker_groups=(group.id,)),
        effect=f"worker group {group.name} never settles",
    )


def _create_failure(view: View, cluster: ClusterView) -> str | None:
    """KubeRay's words on why it could not create a worker pod, where that is its newest word."""
    for kind, status, _, message in cluster.conditions:
        if kind == "ReplicaFailure" and status == "True" and message:
            return message
    words = None
    for event in view.events("RayCluster", cluster.namespace, cluster.cluster):
        if event.reason in CREATE_FAILED:
            words = event.message
        elif event.reason in CREATED:
            words = None
    return words


def judge_drift(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``ReplicaDrift``: pods differ from replicas x hosts, or pods of an older labelling are left.

    Facts: gke_tpu R7 (an upgrade to KubeRay 1.6 ignores pods without a replica name and makes a
    second set), R12 and R15 (autoscaler v2 and numOfHosts), R13, R16 (do not trust the status).
    Must not flag: a change that is under way (pods younger than the grace); pods on their way out;
    suspended groups; failed pods that KubeRay is about to replace.
    """
    grace = view.thresholds.replica_drift_grace
    for group in view.worker_groups_of(cluster):
        if group.suspended:
            continue
        churn = _churn(view, cluster, group)
        if churn is not None:
            yield churn
            continue
        pods = current(group.pods)
        orphans = [
            pod for pod in pods if group.multi_host and not labels_of(pod).get(REPLICA_NAME_LABEL)
        ]
        mixed = bool(orphans) and len(orphans) < len(pods)
        drift = pod_drift(group)
        if drift is None and not mixed:
            if group.spec is None or pods:
                yield unknown(
                    "ReplicaDrift",
                    worker_group_subject(group),
                    "the spec does not say how many replicas",
                )
            continue
        if not drift and not mixed:
            continue
        starts = [start for pod in pods if (start := created_at(pod)) is not None]
        newest = max(starts, default=None)
        refused = _create_failure(view, cluster) if (drift or 0) < 0 else None
        if newest is None and refused is None and view.memory is None:
            # Nothing says since when: the replicas may have been asked for a second ago.
            yield unknown(
                "ReplicaDrift",
                worker_group_subject(group),
                "it has no pods yet, and one look cannot tell for how long",
            )
            continue
        mark = view.mark("ReplicaDrift", cluster.id, group.id, first=newest)
        if newest is not None and view.now - newest <= grace and not mixed:
            continue
        if mark is not None and view.now - mark.since <= grace and refused is None and not mixed:
            continue
        wanted = len(group.pods) - (drift or 0)
        if mixed:
            text = (
                f"{len(orphans)} of its {len(pods)} pods carry no {REPLICA_NAME_LABEL}: they are "
                "left over from before an upgrade of KubeRay, which ignores them"
            )
        elif (drift or 0) > 0:
            text = f"it has {len(group.pods)} pods and should have {wanted}"
        else:
            text = f"it has {len(group.pods)} of {wanted} pods"
            text += (
                f", because KubeRay cannot create them ({shorten(refused, 160)})" if refused else ""
            )
        left = (
            (group.spec.scale_strategy.workers_to_delete or ())
            if group.spec is not None and group.spec.scale_strategy is not None
            else ()
        )
        yield hit(
            "ReplicaDrift",
            worker_group_subject(group),
            f"Worker group {group.name} ({cluster.id}) does not match its spec: {text}"
            + (
                f"; {len(left)} are marked for deletion and still there"
                if left and (drift or 0) > 0
                else ""
            )
            + ".",
            severity="warning",
            evidence=[
                kube_evidence(
                    "raycluster",
                    cluster.cluster,
                    f"{group.name}.replicas x numOfHosts",
                    f"{group.spec.replicas} x {group.spec.num_of_hosts or 1}"
                    if group.spec
                    else None,
                ),
                kube_evidence("worker group", group.name, "pods", len(group.pods)),
                kube_evidence("worker group", group.name, "newest pod", format_time(newest)),
                *(
                    kube_evidence("pod", pod_name(pod), f"label {REPLICA_NAME_LABEL}", None)
                    for pod in (orphans[:6] if mixed else ())
                ),
            ],
            actions=[
                look("See the pods and their indices.", commands.list_pods(view, cluster)),
                look("Read what KubeRay did last.", commands.describe_cluster(view, cluster)),
                look(
                    "Read the autoscaler's log.",
                    commands.kubectl(
                        view,
                        "logs",
                        "-l",
                        f"ray.io/cluster={cluster.cluster},ray.io/node-type=head",
                        "-c",
                        "autoscaler",
                        "--tail",
                        "100",
                        namespace=cluster.namespace,
                    ),
                ),
                fix(
                    "Delete the left-over pods "
                    f"{names_of(sorted(pod_name(pod) for pod in orphans))} "
                    "(kills what runs on them).",
                    commands.delete_pods(
                        view, cluster.namespace, sorted(pod_name(pod) for pod in orphans)[:32]
                    ),
                )
                if mixed
                else fix(
                    "Set replicas to the number of slices that you want (not of pods); surplus "
                    "slices are deleted with what runs on them.",
                    commands.edit_cluster(view, cluster),
                ),
            ],
            since=newest,
            dated=newest is not None and view.now - newest > grace,
            # Left-over pods explain twins in a slice; a wrong number follows from its slices.
            links=Links(
                cluster=cluster.id,
                slices=tuple(item.id for item in view.slices_of_worker_group(group))
                if mixed
                else (),
                worker_groups=() if mixed else (group.id,),
            ),
            effect=f"worker group {group.name}: {text} for "
            f"{format_duration(view.now - newest) if newest is not None else '?'}",
        )
