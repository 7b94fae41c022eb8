"""``HostRestartedAlone``: one host of a slice is younger than the work on it."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action
from diagnosis.rules.base import (
    Outcome,
    fix,
    hit,
    look,
    ray_evidence,
    slice_subject,
    unknown,
)
from diagnosis.rules.slices import slice_links, title
from diagnosis.view import View, host_name, multi_host, names_of
from fleet.model import ClusterView, Host, Slice
from fleet.pods import created_at
from fleet.times import format_duration, format_time


def judge_restarted(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``HostRestartedAlone``: one host much younger than its peers while older work goes on.

    Facts: gke_tpu R14 (KubeRay up to 1.5 makes one pod anew by itself; the runtime of the others
    waits for the old one), 3 (a slice comes up as a unit).
    Must not flag: a slice that was made anew as a whole; one whose work began after the youngest
    host; single hosts; slices that nobody uses.
    """
    gap = view.thresholds.host_age_gap
    for item in view.slices_of(cluster):
        if not multi_host(item) or not item.whole:
            continue
        ages = {host.key: since for host in item.hosts if (since := _started(host)) is not None}
        if len(ages) < 2:
            continue
        ordered = sorted(
            (host for host in item.hosts if host.key in ages),
            key=lambda host: (ages[host.key], host.key),
        )
        middle = ages[ordered[(len(ordered) - 1) // 2].key]
        young = [host for host in ordered if ages[host.key] - middle > gap]
        if not young:
            continue
        restarted = min(ages[host.key] for host in young)
        work = _work_since(view, item)
        if work is None:
            if item.held_by or item.workers:
                yield unknown(
                    "HostRestartedAlone",
                    slice_subject(item),
                    "when the work on it began is not known",
                )
            continue
        started, who = work
        if started >= restarted:
            continue
        peers = len(ordered) - len(young)
        yield hit(
            "HostRestartedAlone",
            slice_subject(item),
            f"{title(item)}: {names_of(host_name(host) for host in young)} restarted "
            f"{format_duration(view.now - restarted)} ago, {format_duration(restarted - middle)} "
            f"after its {peers} peers; {who} began before that, and its TPU runtime waits for the "
            "host as it was.",
            severity="critical",
            evidence=[
                ray_evidence(
                    cluster,
                    f"{host_name(host)} of {item.name}",
                    "started",
                    format_time(ages[host.key]),
                )
                for host in (*young[:4], *ordered[:1])
            ]
            + [ray_evidence(cluster, who, "started", format_time(started))],
            actions=_restart_actions(view, cluster, item, young),
            since=restarted,
            links=slice_links(item, young),
            effect=f"a host of {item.name} restarted alone",
        )


def _started(host: Host) -> float | None:
    """When the present host started: a Ray node is never older than the pod that it runs in."""
    made = created_at(host.pod) if host.pod is not None else None
    return max((at for at in (host.age_since, made) if at is not None), default=None)


def _work_since(view: View, item: Slice) -> tuple[float, str] | None:
    """When the oldest work that is still on the slice began, and who it is."""
    best: tuple[float, str] | None = None
    for worker in item.workers:
        if worker.since is not None and worker.alive:
            candidate = (worker.since, f"{worker.kind} {worker.name or worker.id[:12]}")
            best = min(best, candidate) if best else candidate
    if best is not None:
        return best
    if not any(worker.alive for worker in item.workers):
        return None
    for group in view.holders_of(item):
        begun = group.created_at or group.requested_at
        if begun is not None:
            candidate = (begun, f"placement group {group.label}")
            best = min(best, candidate) if best else candidate
    return best


def _restart_actions(
    view: View, cluster: ClusterView, item: Slice, young: list[Host]
) -> list[Action]:
    if not cluster.has_kubernetes:
        return [
            look("See when each node started.", commands.ray_list(view, cluster, "nodes")),
            fix("Restart the job, so that all its processes start together."),
        ]
    steps = [look("See the ages of the slice's pods.", commands.list_pods(view, cluster))]
    if young[0].pod_name:
        steps.append(
            look(
                "Read why the host restarted.",
                commands.describe_pod(view, item.namespace, young[0].pod_name),
            )
        )
    steps.append(
        fix(
            "Restart the job on this slice; if that does not help, delete the slice's pods so "
            "that KubeRay makes it anew as a whole (kills the job).",
            commands.delete_slice_pods(view, item),
        )
    )
    return steps
