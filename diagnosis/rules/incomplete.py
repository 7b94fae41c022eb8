"""``SliceIncomplete``: a slice with fewer live hosts than its topology needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Severity
from diagnosis.rules.base import (
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    ray_evidence,
    slice_subject,
    unknown,
)
from diagnosis.rules.slices import interested, slice_links, title
from diagnosis.view import View, host_name, names_of, shorten
from fleet.model import ClusterView, Host, HostProblem, PlacementGroup, Slice
from fleet.times import format_time

ROOT_FIRST: tuple[HostProblem, ...] = (
    "ScaleUpFailed",
    "NodeGone",
    "NodeNotReady",
    "PodUnschedulable",
    "PodFailed",
    "PodCrashLooping",
    "RayletDead",
    "PodMissing",
    "PodNotReady",
    "RayNodeNeverJoined",
)
"""Where hosts of one slice fail in different ways, the way that explains the others comes first:
no capacity leaves all pods waiting, a dead node takes its pod and raylet along."""

WORDS: dict[str, tuple[str, str]] = {
    "PodUnschedulable": ("pod cannot be scheduled", "pods cannot be scheduled"),
    "PodCrashLooping": ("pod keeps crashing", "pods keep crashing"),
    "PodFailed": ("pod failed", "pods failed"),
    "PodNotReady": ("pod is not ready", "pods are not ready"),
    "NodeNotReady": ("Kubernetes node is not ready", "Kubernetes nodes are not ready"),
    "NodeGone": ("Kubernetes node is gone", "Kubernetes nodes are gone"),
    "RayletDead": ("raylet is dead", "raylets are dead"),
    "RayNodeNeverJoined": ("Ray node never joined", "Ray nodes never joined"),
    "PodMissing": ("pod is missing", "pods are missing"),
    "ScaleUpFailed": ("node could not be added", "nodes could not be added"),
}
"""What is wrong with one host, and with several."""

RAY_PROBLEMS = frozenset({"RayletDead", "RayNodeNeverJoined"})


def judge_incomplete(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``SliceIncomplete``: fewer live hosts than the topology needs.

    Facts: gke_tpu 3 (a slice is made and lost as a unit), R14, R33, R34 (dead Ray nodes of a
    reused name are history, not hosts); ray_2_60 "Failures reproduced" 3.

    Must not flag: a slice younger than the start-up grace that has lost nobody; pods that a
    scheduling gate holds back (Kueue); a slice whose pods are all being deleted; one that was
    recreated as a whole; suspended groups and clusters.
    """
    for item in view.slices_of(cluster):
        if item.forming or item.leaving:
            continue
        group = view.worker_groups.get(f"{cluster.id}/{item.group}") if item.group else None
        if group is not None and group.suspended:
            continue
        yield from _incomplete(view, cluster, item)


def _seen_lost(view: View, cluster: ClusterView, item: Slice) -> tuple[list[Host], list[Host]]:
    """Hosts that surely do not work, and hosts that are only not seen."""
    holding_off = cluster.id in view.held_off
    lost, unsure = [], []
    for host in item.hosts:
        if host.state == "ready":
            continue
        no_rows = (host.problem == "RayNodeNeverJoined" and "nodes" not in cluster.ray_parts) or (
            host.problem == "PodMissing" and "pods" not in view.fleet.kubernetes_parts
        )
        if host.problem is None or no_rows or (holding_off and host.problem in RAY_PROBLEMS):
            unsure.append(host)
        else:
            lost.append(host)
    return lost, unsure


def _incomplete(view: View, cluster: ClusterView, item: Slice) -> Iterator[Outcome]:
    code = "SliceIncomplete"
    subject = slice_subject(item)
    expected = item.hosts_expected
    if expected is None:
        yield unknown(code, subject, "how many hosts it needs is not known")
        return
    lost, unsure = _seen_lost(view, cluster, item)
    if item.hosts_alive >= expected or not lost:
        if item.blind or (unsure and item.hosts_alive < expected):
            reason = "; ".join(item.blind) or "some of its hosts cannot be seen"
            yield unknown(code, subject, reason)
        return
    cause = _dominant(lost)
    shown = [host for host in lost if host.problem == cause]
    holding, waiting = interested(view, item)
    loose = any(worker.chips > 0 and worker.alive for worker in item.workers)
    severity: Severity = "critical" if holding or waiting or loose else "warning"
    since = min(
        (host.gone_since for host in lost if host.gone_since is not None),
        default=item.first_seen,
    )
    alive = min(item.hosts_alive, expected)
    yield hit(
        code,
        subject,
        f"{title(item)} has {alive} of {expected} hosts: {_why(item, shown, cause)}"
        f"{_others(lost, shown)}{_who(holding, waiting)}.",
        severity=severity,
        cause=cause,
        evidence=_incomplete_evidence(cluster, item, lost),
        actions=_incomplete_actions(view, cluster, item, shown, cause, severity),
        since=since,
        affects=[
            f"placement group {group.label} holds it"
            for group in holding
            if group.role != "head" or len(holding) == 1
        ]
        + [f"placement group {group.label} waits for it" for group in waiting],
        links=slice_links(item, lost),
        effect=f"slice {item.name} has {alive} of {expected} hosts",
        # A row that is missing from one answer is no date; a death or a condition is.
        dated=any(
            host.gone_since is not None
            and (host.was_there or host.problem not in ("RayNodeNeverJoined", "PodMissing"))
            for host in shown
        ),
    )


def _dominant(lost: list[Host]) -> str:
    present = {host.problem for host in lost}
    return next((problem for problem in ROOT_FIRST if problem in present), "PodMissing")


def _why(item: Slice, shown: list[Host], cause: str) -> str:
    who = names_of(host_name(host) for host in shown)
    one, several = WORDS.get(cause, (cause, cause))
    detail = next((host.problem_detail for host in shown if host.problem_detail), "")
    told = f" ({shorten(detail, 160)})" if detail else ""
    if cause == "ScaleUpFailed":
        return f"the cloud could not add nodes for {who}{told}"
    if len(shown) == 1:
        return f"{who}'s {one}{told}"
    return f"the {several} of {who}{told}"


def _others(lost: list[Host], shown: list[Host]) -> str:
    rest = Counter(host.problem or "?" for host in lost if host not in shown)
    if not rest:
        return ""
    told = ", ".join(f"{count} with {problem}" for problem, count in sorted(rest.items()))
    return f"; besides {told}"


def _who(holding: list[PlacementGroup], waiting: list[PlacementGroup]) -> str:
    workers = [group.label for group in holding if group.role != "head"]
    heads = [group.label for group in holding if group.role == "head"]
    if workers:
        return (
            f"; {names_of(workers)} {'holds' if len(workers) == 1 else 'hold'} it and cannot go on"
        )
    if waiting:
        labels = [group.label for group in waiting]
        return f"; {names_of(labels)} {'waits' if len(labels) == 1 else 'wait'} for it"
    if heads:
        return "; its head is reserved"
    return ""


def _incomplete_evidence(cluster: ClusterView, item: Slice, lost: list[Host]) -> list[Evidence]:
    rows: list[Evidence] = []
    for host in lost[:8]:
        who = host_name(host)
        if host.pod is not None:
            phase = host.pod.status.phase if host.pod.status else None
            rows.append(kube_evidence("pod", host.pod_name or "?", "status.phase", phase))
        if host.node is not None and host.problem == "NodeNotReady":
            rows.append(kube_evidence("node", host.node_name or "?", "Ready", "not True"))
        source = ray_evidence if host.problem in RAY_PROBLEMS else None
        text = host.problem_detail or WORDS.get(host.problem or "", ("?",))[0]
        if source is not None:
            rows.append(ray_evidence(cluster, f"{who} of {item.name}", host.problem or "?", text))
        elif item.namespace == "-" or host.pod is None:
            rows.append(ray_evidence(cluster, f"{who} of {item.name}", host.problem or "?", text))
        else:
            rows.append(kube_evidence("pod", host.pod_name or "?", host.problem or "?", text))
        if host.gone_since is not None:
            rows.append(
                ray_evidence(
                    cluster, f"{who} of {item.name}", "gone since", format_time(host.gone_since)
                )
                if host.problem in RAY_PROBLEMS
                else kube_evidence(
                    "pod", host.pod_name or who, "not ready since", format_time(host.gone_since)
                )
            )
    if len(lost) > 8:
        rows.append(ray_evidence(cluster, f"slice {item.name}", "more hosts lost", len(lost) - 8))
    return rows


def _incomplete_actions(
    view: View, cluster: ClusterView, item: Slice, shown: list[Host], cause: str, severity: Severity
) -> list[Action]:
    ns = item.namespace
    first = shown[0]
    steps: list[Action] = []
    if not cluster.has_kubernetes:
        return [
            look(
                "See which Ray nodes died and what Ray says of them.",
                commands.ray_list(view, cluster, "nodes", "state=DEAD"),
            ),
            look("See what waits for resources.", commands.ray_status(view, cluster)),
            fix(
                f"Start the host again under the same slice name ({item.name}) and worker id; a "
                "host with another slice name does not help. The job's processes on the other "
                "hosts have to be restarted."
            ),
        ]
    steps.append(
        look("See the slice's pods and where they run.", commands.list_pods(view, cluster))
    )
    if first.pod_name and cause not in ("NodeGone", "NodeNotReady", "PodMissing"):
        steps.append(
            look(
                f"Read what Kubernetes says of {host_name(first)}'s pod.",
                commands.describe_pod(view, ns, first.pod_name),
            )
        )
    if first.pod_name and cause in ("PodCrashLooping", "RayletDead", "RayNodeNeverJoined"):
        steps.append(
            look(
                "Read its log" + (" of the run before." if cause == "PodCrashLooping" else "."),
                commands.logs(view, ns, first.pod_name, previous=cause == "PodCrashLooping"),
            )
        )
    if cause == "RayletDead":
        steps.append(
            look(
                "See which Ray nodes died and what Ray says of them.",
                commands.ray_list(view, cluster, "nodes", "state=DEAD"),
            )
        )
    if cause in ("NodeNotReady",) and first.node_name:
        steps.append(
            look("Read the node's conditions.", commands.describe_node(view, first.node_name))
        )
    if cause in ("NodeGone", "NodeNotReady", "PodMissing"):
        steps.append(look("See the nodes of the pool.", commands.list_nodes(view)))
    if cause == "PodMissing":
        steps.append(look("See why KubeRay made no pod.", commands.describe_cluster(view, cluster)))
    if cause in ("ScaleUpFailed", "PodUnschedulable"):
        steps.append(
            look(
                "Read why the cloud gave no nodes.",
                commands.events_of(view, ns, "FailedScaleUp"),
            )
        )
    steps.append(_incomplete_fix(view, item, cause, severity))
    return steps


def _incomplete_fix(view: View, item: Slice, cause: str, severity: Severity) -> Action:
    if cause == "ScaleUpFailed":
        return fix(
            "Wait for capacity, or use another zone, a reservation, a higher quota or a smaller "
            "topology; deleting pods does not help."
        )
    if cause == "PodUnschedulable":
        return fix(
            "Make room for the whole slice: its node pool must exist, be empty and match the "
            "pods' selectors; the event above names what does not match."
        )
    cost = (
        "This kills the job on this slice"
        if severity == "critical"
        else "Nothing runs on this slice, so it costs nothing"
    )
    return fix(
        f"Delete the slice's pods so that KubeRay makes it anew as a whole. {cost}.",
        commands.delete_slice_pods(view, item),
    )
