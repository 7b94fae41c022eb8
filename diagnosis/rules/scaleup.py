"""``ScaleUpFailed``: the cloud had no capacity or quota, in the event's own words."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from diagnosis import commands
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    worker_group_subject,
)
from diagnosis.rules.replicas import pod_drift
from diagnosis.view import View, shorten
from fleet.hosts import SCALE_EVENTS
from fleet.model import ClusterView, WorkerGroup
from fleet.observation import Event
from fleet.pods import event_time, gated, node_name, phase, pod_name
from fleet.times import format_time


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The autoscaler's newest word on a pod that still waits, or that was given up.

    ``pod``: its name. ``given_up``: it does not exist any more, and its group still lacks pods.
    """

    pod: str
    given_up: bool = False
    message: str
    at: float | None
    first: float | None
    pods: int


def failure_of(view: View, group: WorkerGroup) -> Failure | None:
    """The failure to scale up for a worker group, or ``None`` when its newest word is another."""
    newest: tuple[float, str, Event] | None = None
    first: float | None = None
    hurt = set()
    for pod in group.pods:
        if node_name(pod) is not None or phase(pod) != "Pending" or gated(pod):
            continue
        for event in view.pod_events(pod):
            if event.reason not in SCALE_EVENTS:
                continue
            at = event_time(event) or 0.0
            if _failed(event):
                hurt.add(pod_name(pod))
                first = at if first is None else min(first, at)
            if newest is None or (at, pod_name(pod)) >= newest[:2]:
                newest = (at, pod_name(pod), event)
    if newest is None:
        return _given_up(view, group)
    if not _failed(newest[2]):
        return None
    return Failure(
        pod=newest[1],
        message=newest[2].message or "no reason given",
        at=newest[0] or None,
        first=first or None,
        pods=len(hurt),
    )


def _given_up(view: View, group: WorkerGroup) -> Failure | None:
    """A recent failure for pods that were deleted again while the group still lacks pods.

    KubeRay deletes an incomplete replica and its events outlive it (gke_tpu 1.4, R33). Pods are
    called ``<cluster>-<group>-worker-<random>``.
    """
    drift = pod_drift(group)
    if drift is None or drift >= 0:
        return None
    prefix = f"{group.cluster}-{group.name}-worker-"
    there = {pod_name(pod) for pod in group.pods}
    newest: tuple[float, str, Event] | None = None
    hurt = set()
    for (kind, namespace, name), events in view.fleet.events_by_object.items():
        if kind != "Pod" or namespace != group.namespace or name in there:
            continue
        if not name.startswith(prefix):
            continue
        for event in events:
            at = event_time(event)
            if event.reason not in SCALE_EVENTS or at is None:
                continue
            if view.now - at > view.thresholds.replica_drift_grace:
                continue
            if _failed(event):
                hurt.add(name)
            if newest is None or (at, name) >= newest[:2]:
                newest = (at, name, event)
    if newest is None or not _failed(newest[2]):
        return None
    return Failure(
        pod=newest[1],
        given_up=True,
        message=newest[2].message or "no reason given",
        at=newest[0],
        first=newest[0],
        pods=len(hurt),
    )


def _failed(event: Event) -> bool:
    return event.reason == "FailedScaleUp" or (
        event.reason == "NotTriggerScaleUp" and "failed scale-up" in (event.message or "")
    )


def judge_scale_up(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``ScaleUpFailed``: events FailedScaleUp on pods that still wait for a node.

    Facts: gke_tpu 3 (FailedScaleUp, "in backoff after failed scale-up", stockout and quota).
    Must not flag: a failure after which a scale-up was triggered; pods that were bound since;
    NotTriggerScaleUp for other reasons; gated pods.
    """
    for group in view.worker_groups_of(cluster):
        if group.suspended:
            continue
        found = failure_of(view, group)
        if found is None:
            continue
        slices = tuple(
            item.id
            for item in view.slices_of_worker_group(group)
            if any(host.problem == "ScaleUpFailed" for host in item.hosts)
        )
        waiting = [pod for pod in group.pods if node_name(pod) is None]
        told = (
            f"pods for it were given up, and it has {len(group.pods)} pods"
            if found.given_up
            else f"{len(waiting)} of its pods wait"
        )
        yield hit(
            "ScaleUpFailed",
            worker_group_subject(group),
            f"The cloud could not add nodes for worker group {group.name} ({cluster.id}); "
            f"{told}: {shorten(found.message)}",
            severity="warning",
            evidence=[
                kube_evidence("pod", found.pod, "event", found.message),
                kube_evidence("pod", found.pod, "event last seen", format_time(found.at)),
                kube_evidence("worker group", group.name, "pods without a node", len(waiting)),
            ],
            actions=[
                look(
                    "Read the autoscaler's events.",
                    commands.events_of(view, cluster.namespace, "FailedScaleUp"),
                ),
                look(
                    "See the pod that waits.",
                    commands.describe_pod(view, cluster.namespace, found.pod),
                ),
                fix(
                    "Wait for capacity, or use another zone, a reservation, a higher quota "
                    "(compute API) or a smaller topology."
                ),
            ],
            since=found.first,
            links=Links(cluster=cluster.id, slices=slices, worker_groups=(group.id,)),
            effect=f"the cloud could not add nodes for worker group {group.name}",
        )
