"""``MissingSliceIdentity``: pods without their place in a slice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Evidence, Subject
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    pod_subject,
    ray_evidence,
    worker_group_subject,
)
from diagnosis.rules.pods import current
from diagnosis.view import View, names_of
from fleet.joining import POD_TYPE_LABEL, RAY_TOPOLOGY_LABEL, SLICE_NAME_LABEL, WORKER_ID_LABEL
from fleet.model import ClusterView, Host, StrayRayNode, WorkerGroup
from fleet.observation import Pod
from fleet.pods import (
    created_at,
    labels_of,
    pod_name,
    pod_namespace,
    tpu_containers,
)
from fleet.topology import split_pod_type

NEEDED_ENV = ("TPU_NAME", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")

PEERS_ENV = ("TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES")
"""Either of them tells a host where its peers are (gke_tpu R27)."""


def judge_identity(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``MissingSliceIdentity``: a multi-host group's pod has no slice name, id or hostnames.

    Facts: gke_tpu R9 (webhook bypassed: ``app.kubernetes.io/name`` is not ``kuberay``, or it is
    not installed), 1.2 (what it injects is in the pod's spec).
    Must not flag: single-host groups; variables whose value comes from a reference; a host to
    which Ray gave a slice name and worker id by other means; finished and terminating pods.
    """
    hosts = {
        host.pod_name: host
        for item in view.slices_of(cluster)
        for host in item.hosts
        if host.pod_name
    }
    for group in view.worker_groups_of(cluster):
        if not group.multi_host or group.suspended:
            continue
        bare: dict[str, list[str]] = {}
        pods = {}
        for pod in current(group.pods):
            lacking = _lacking(view, pod, hosts.get(pod_name(pod)))
            if lacking:
                bare[pod_name(pod)] = lacking
                pods[pod_name(pod)] = pod
        if bare:
            yield _missing(view, cluster, group, bare, pods)
    if not cluster.has_kubernetes:
        yield from _bare_nodes(view, cluster)


def _lacking(view: View, pod: Pod, host: Host | None) -> list[str]:
    env = view.env(pod)
    lacking = [name for name in NEEDED_ENV if name not in env]
    if not lacking or not tpu_containers(pod):
        return []
    ray = (host.ray_node.labels if host is not None and host.ray_node is not None else None) or {}
    if ray.get(SLICE_NAME_LABEL) and ray.get(WORKER_ID_LABEL):
        # Ray knows its place; its peers' names it can have from the pod's variables alone.
        told = "TPU_WORKER_ID" in env and not any(name in env for name in PEERS_ENV)
        return ["TPU_WORKER_HOSTNAMES"] if told else []
    return lacking


def _missing(
    view: View,
    cluster: ClusterView,
    group: WorkerGroup,
    bare: dict[str, list[str]],
    pods: dict[str, Pod],
) -> Outcome:
    names = sorted(bare)
    first = pods[names[0]]
    variables = sorted({name for lacking in bare.values() for name in lacking})
    several = len(names) > 1
    owner = labels_of(first).get("app.kubernetes.io/name")
    why = (
        f" Its label app.kubernetes.io/name is {owner or 'not set'}, so the TPU webhook, which "
        "looks for kuberay, never saw it."
        if owner != "kuberay"
        else " The TPU webhook did not see them; is it installed?"
    )
    what = f"{len(names)} pods of worker group {group.name}" if several else f"Pod {names[0]}"
    rows: list[Evidence] = []
    for name in names[:6]:
        rows.append(kube_evidence("pod", name, "env without", ", ".join(bare[name])))
        spec = pods[name].spec
        rows.append(kube_evidence("pod", name, "spec.subdomain", spec.subdomain if spec else None))
    rows.append(kube_evidence("pod", names[0], "label app.kubernetes.io/name", owner))
    started = [start for pod in pods.values() if (start := created_at(pod)) is not None]
    return hit(
        "MissingSliceIdentity",
        worker_group_subject(group) if several else pod_subject(cluster, first),
        f"{what} ({cluster.id}) {'have' if several else 'has'} no {names_of(variables)}: "
        f"{'they do' if several else 'it does'} not know which slice "
        f"{'they are' if several else 'it is'} part of, and TPU start-up fails.{why}",
        severity="critical",
        evidence=rows,
        actions=[
            look(
                "Read the pod's labels and variables.",
                commands.describe_pod(view, pod_namespace(first), names[0]),
            ),
            look("See whether the webhook runs.", commands.webhook_state(view)),
            look(
                "See what the webhook is called for.",
                commands.kubectl(
                    view,
                    "get",
                    "mutatingwebhookconfiguration",
                    "kuberay-tpu-mutating-webhook-cfg",
                    "-o",
                    "yaml",
                ),
            ),
            fix(
                "Install or repair the webhook, then delete the pods so that they are made anew "
                "through it (nothing can run on them as they are).",
                commands.delete_group_pods(view, group)
                if several
                else commands.delete_pods(view, pod_namespace(first), names),
            ),
        ],
        since=min(started, default=None),
        links=Links(
            cluster=cluster.id,
            slices=tuple(
                item.id
                for item in view.slices_of_worker_group(group)
                if any(host.pod_name in bare for host in item.hosts)
            ),
            worker_groups=(group.id,),
        ),
        effect=f"pods of worker group {group.name} lack their slice identity",
    )


def _bare_nodes(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """Outside Kubernetes: Ray hosts of a multi-host shape without a slice name or worker id."""
    by_shape: dict[str, list[StrayRayNode]] = defaultdict(list)
    for stray in view.stray_nodes_of(cluster):
        labels = stray.node.labels or {}
        shape = labels.get(POD_TYPE_LABEL) or ""
        if not shape or split_pod_type(shape) is None:
            continue
        if labels.get(SLICE_NAME_LABEL) and labels.get(WORKER_ID_LABEL):
            continue
        by_shape[shape].append(stray)
    for shape, found in sorted(by_shape.items()):
        names = sorted(item.node.node_name or (item.node.node_id or "?")[:12] for item in found)
        several = len(found) > 1
        subject = Subject(
            kind="worker_group" if several else "pod",
            id=f"{cluster.id}/{shape if several else names[0]}",
            name=shape if several else names[0],
            namespace=cluster.namespace,
            cluster=cluster.cluster,
        )
        yield hit(
            "MissingSliceIdentity",
            subject,
            f"{len(found)} Ray {'hosts' if several else 'host'} of shape {shape} "
            f"({names_of(names)}) {'have' if several else 'has'} no slice name or worker id, so "
            "no slice can be formed of them.",
            severity="critical",
            evidence=[
                ray_evidence(
                    cluster,
                    f"node {(item.node.node_id or '?')[:12]}",
                    "labels",
                    ", ".join(f"{k}={v}" for k, v in sorted((item.node.labels or {}).items())),
                )
                for item in found[:6]
            ],
            actions=[
                look(
                    "See the nodes' labels.",
                    commands.ray_list(view, cluster, "nodes", "state=ALIVE"),
                ),
                fix(
                    "Start these hosts again with TPU_NAME, TPU_WORKER_ID and TPU_ACCELERATOR_TYPE "
                    f"set, or with the labels {SLICE_NAME_LABEL}, {WORKER_ID_LABEL} and "
                    f"{RAY_TOPOLOGY_LABEL} (nothing that needs the slice can run on them now)."
                ),
            ],
            links=Links(cluster=cluster.id),
            effect=f"{len(found)} hosts of shape {shape} lack their slice identity",
        )
