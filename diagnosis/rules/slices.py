"""A slice that has too few hosts, hosts with the same name, hosts without ICI, or no head."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Severity
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    ray_evidence,
    slice_subject,
    unknown,
)
from diagnosis.rules.scheduler import leak_of
from diagnosis.view import View, host_name, multi_host, names_of, shorten
from fleet.joining import SLICE_NAME_LABEL
from fleet.model import ClusterView, Host, HostProblem, PlacementGroup, Slice
from fleet.pods import DYNAMIC_SLICE_LABEL, created_at, env_of, labels_of
from fleet.times import format_duration, format_time

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


def _links(item: Slice, hosts: list[Host] | None = None) -> Links:
    cluster = f"{item.namespace}/{item.cluster}"
    return Links(
        cluster=cluster,
        slices=(item.id,),
        groups=(*item.held_by, *item.head_held_by),
        worker_groups=(f"{cluster}/{item.group}",) if item.group else (),
        hosts=tuple(f"{item.id}|{host.key}" for host in hosts or ()),
    )


def title(item: Slice) -> str:
    """``Slice v6e-group-0 (ml/train)``."""
    where = f" ({item.namespace}/{item.cluster})" if item.namespace != "-" else ""
    return f"Slice {item.name}{where}"


def interested(view: View, item: Slice) -> tuple[list[PlacementGroup], list[PlacementGroup]]:
    """Groups that hold a slice (or its head, unless leaked), and those that wait for it by name."""
    keys = dict.fromkeys((*item.held_by, *item.head_held_by))
    leaked = {group.key for group in leak_of(view, item)}
    holding = [
        group for key in keys if key not in leaked and (group := view.groups.get(key)) is not None
    ]
    waiting = [group for group in view.waiting_for(item) if group.key not in keys]
    return holding, waiting


# --- SliceIncomplete ------------------------------------------------------------------------


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
        links=_links(item, lost),
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


# --- DuplicateWorkerId ----------------------------------------------------------------------


def judge_duplicates(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``DuplicateWorkerId``: two live hosts of one slice claim one worker id or hostname.

    Facts: gke_tpu R1 (webhook up to 1.3.5 hands out one id twice), R34.
    Must not flag: a dead or terminating predecessor; equal ids in different slices; a successor
    within the 30 s that Ray may list both.
    """
    for item in view.slices_of(cluster):
        twins = [host for host in item.hosts if host.duplicate]
        if not twins:
            continue
        ids = Counter(host.worker_id for host in twins if host.worker_id is not None)
        shared = sorted(number for number, count in ids.items() if count > 1)
        names: Counter[str] = Counter(
            host.pod.spec.hostname
            for host in twins
            if host.pod is not None and host.pod.spec is not None and host.pod.spec.hostname
        )
        what = (
            f"worker id {names_of(str(number) for number in shared)}"
            if shared
            else f"hostname {names_of(sorted(name for name, count in names.items() if count > 1))}"
        )
        rows: list[Evidence] = []
        for host in twins[:8]:
            if host.pod is not None:
                rows.append(
                    kube_evidence(
                        "pod",
                        host.pod_name or "?",
                        "TPU_WORKER_ID",
                        env_of(host.pod).get("TPU_WORKER_ID"),
                    )
                )
                hostname = host.pod.spec.hostname if host.pod.spec else None
                rows.append(kube_evidence("pod", host.pod_name or "?", "spec.hostname", hostname))
            if host.ray_node is not None:
                rows.append(
                    ray_evidence(
                        cluster,
                        f"node {(host.ray_node_id or '?')[:12]}",
                        "ray.io/tpu-worker-id",
                        host.worker_id,
                    )
                )
        starts = [host.age_since for host in twins if host.age_since is not None]
        yield hit(
            "DuplicateWorkerId",
            slice_subject(item),
            f"{title(item)}: {len(twins)} live hosts claim {what} "
            f"({names_of(host.pod_name or host.key[:24] for host in twins)}), so its hosts cannot "
            "form one TPU runtime.",
            severity="critical",
            evidence=rows,
            actions=_duplicate_actions(view, cluster, item, twins),
            since=max(starts) if len(starts) == len(twins) else None,
            links=_links(item, twins),
            effect=f"slice {item.name} has two hosts with {what}",
        )


def _duplicate_actions(
    view: View, cluster: ClusterView, item: Slice, twins: list[Host]
) -> list[Action]:
    if not cluster.has_kubernetes:
        return [
            look(
                "See which nodes carry the same labels.", commands.ray_list(view, cluster, "nodes")
            ),
            fix("Stop the host that should not be there and start it with its own worker id."),
        ]
    steps = [look("See the slice's pods and their indices.", commands.list_pods(view, cluster))]
    steps += [
        look(
            f"Read what {host.pod_name} was told.",
            commands.pod_env(view, item.namespace, host.pod_name),
        )
        for host in twins[:2]
        if host.pod_name
    ]
    steps.append(look("Read the webhook's log.", commands.webhook_logs(view)))
    steps.append(
        fix(
            "Delete the slice's pods so that all get new ids together (kills the job on this "
            "slice), and upgrade the TPU webhook beyond 1.3.5.",
            commands.delete_slice_pods(view, item),
        )
    )
    return steps


# --- SliceSpansNodePools --------------------------------------------------------------------


def judge_spans(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``SliceSpansNodePools``: pods of one slice on several node pools or dynamic slices.

    Facts: gke_tpu 0.3 (the node pool is the ICI domain of static slices; with dynamic slicing the
    node label ``gke-tpu-slice`` is), 1.3 (affinity that webhooks before 1.2.4 lack), R29.
    Must not flag: single-host slices; a dynamic slice over several pools (sub-blocks) with one
    slice label; a pod that is on its way out.
    """
    for item in view.slices_of(cluster):
        if not multi_host(item):
            continue
        dynamic: dict[str, list[Host]] = defaultdict(list)
        pools: dict[str, list[Host]] = defaultdict(list)
        unlabelled = 0
        for host in item.hosts:
            if host.node is None or (
                host.pod is not None
                and host.pod.metadata is not None
                and host.pod.metadata.deletion_timestamp
            ):
                continue
            label = labels_of(host.node).get(DYNAMIC_SLICE_LABEL)
            if label:
                dynamic[label].append(host)
            else:
                unlabelled += 1
            if host.node_pool:
                pools[host.node_pool].append(host)
        domains, what, field = (
            (dynamic, "dynamic slices", DYNAMIC_SLICE_LABEL)
            if dynamic and not unlabelled
            else (pools, "node pools", "cloud.google.com/gke-nodepool")
        )
        if dynamic and unlabelled and len(dynamic) == 1:
            # Sub-blocks of a dynamic slice are pools; the label comes node by node.
            continue
        if len(domains) < 2:
            continue
        rows = [
            kube_evidence("node", host.node_name or "?", field, name)
            for name in sorted(domains)
            for host in domains[name][:4]
        ]
        split = "; ".join(
            f"{names_of(host_name(host) for host in domains[name])} on {name}"
            for name in sorted(domains)
        )
        yield hit(
            "SliceSpansNodePools",
            slice_subject(item),
            f"{title(item)} lies on {len(domains)} {what}, with no ICI between them: {split}.",
            severity="critical",
            evidence=rows,
            actions=[
                look("See which node each pod is on.", commands.list_pods(view, cluster)),
                look("See which pool each node is of.", commands.list_nodes(view)),
                fix(
                    "Delete the slice's pods so that they are placed anew together (kills the job "
                    "on this slice). If it comes back, the pods lack the affinity of the TPU "
                    "webhook from 1.2.4 on.",
                    commands.delete_slice_pods(view, item),
                ),
            ],
            since=max(
                (host.age_since for host in item.hosts if host.age_since is not None), default=None
            ),
            links=_links(item),
            effect=f"slice {item.name} lies on {len(domains)} {what}",
        )


# --- HeadResourceMissing --------------------------------------------------------------------


def judge_head_resource(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``HeadResourceMissing``: a whole slice whose worker 0 offers no ``TPU-<pod type>-head``.

    Facts: gke_tpu 1.5 (all of TPU_NAME, TPU_WORKER_ID and pod type must exist, else the raylet
    logs "Failed to configure TPU pod" and adds no head), R2.
    Must not flag: a slice that is not whole; single hosts that Ray gave no slice name.
    """
    for item in view.slices_of(cluster):
        if not item.whole or "ray" not in item.seen_by:
            continue
        if any(host.ray_node is None for host in item.hosts):
            continue
        if any(host.offers_head for host in item.hosts):
            continue
        named = any(
            ((host.ray_node.labels if host.ray_node else None) or {}).get(SLICE_NAME_LABEL)
            for host in item.hosts
        )
        if not named and not multi_host(item):
            continue
        first = item.hosts[0]
        pod_type = item.pod_type or "<pod type>"
        steps = [
            look(
                "See labels and resources of the slice's nodes.",
                commands.ray_list(view, cluster, "nodes"),
            ),
        ]
        if first.pod_name:
            steps.append(
                look(
                    "See whether TPU_NAME, TPU_WORKER_ID and TPU_ACCELERATOR_TYPE are all set.",
                    commands.pod_env(view, item.namespace, first.pod_name),
                )
            )
        command = commands.delete_slice_pods(view, item) if cluster.has_kubernetes else None
        steps.append(
            fix("Make the slice anew with all three set (kills what runs on it).", command)
        )
        yield hit(
            "HeadResourceMissing",
            slice_subject(item),
            f"{title(item)} is whole, but none of its {len(item.hosts)} hosts offers "
            f"TPU-{pod_type}-head, so slice_placement_group can never reserve it.",
            severity="warning",
            evidence=[
                ray_evidence(
                    cluster,
                    f"node {(host.ray_node_id or '?')[:12]} ({host_name(host)})",
                    "resources_total",
                    ", ".join(
                        sorted((host.ray_node.resources_total or {}) if host.ray_node else {})
                    ),
                )
                for host in item.hosts[:4]
            ],
            actions=steps,
            since=item.first_seen,
            dated=False,
            links=_links(item),
            effect=f"slice {item.name} offers no head resource",
        )


# --- HostRestartedAlone ---------------------------------------------------------------------


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
            links=_links(item, young),
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
