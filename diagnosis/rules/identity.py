"""Pods without their place in a slice: what the TPU webhook should have told them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Subject
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
from diagnosis.view import View, names_of
from fleet.joining import POD_TYPE_LABEL, RAY_TOPOLOGY_LABEL, SLICE_NAME_LABEL, WORKER_ID_LABEL
from fleet.model import ClusterView, Host, StrayRayNode, WorkerGroup
from fleet.observation import AffinityTerm, LabelSelectorRequirement, Pod
from fleet.pods import (
    created_at,
    labels_of,
    node_name,
    phase,
    pod_name,
    pod_namespace,
    terminating,
    tpu_containers,
)
from fleet.topology import split_pod_type

NEEDED_ENV = ("TPU_NAME", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")


def hostnames(view: View, pod: Pod) -> list[str]:
    """The names in ``TPU_WORKER_HOSTNAMES``; empty when it is not in the pod's spec."""
    value = view.env(pod).get("TPU_WORKER_HOSTNAMES")
    return [name.strip() for name in value.split(",") if name.strip()] if value else []


def current(pods: tuple[Pod, ...]) -> list[Pod]:
    """Pods that are neither on their way out nor finished."""
    return [
        pod for pod in pods if not terminating(pod) and phase(pod) not in ("Failed", "Succeeded")
    ]


def _group_links(view: View, cluster: ClusterView, group: WorkerGroup) -> Links:
    return Links(
        cluster=cluster.id,
        slices=tuple(item.id for item in view.slices_of_worker_group(group)),
        worker_groups=(group.id,),
    )


# --- MissingSliceIdentity -------------------------------------------------------------------


def judge_identity(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``MissingSliceIdentity``: a TPU host of a multi-host group has no slice name, id or hostnames.

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
        return []
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


# --- HostnamesUnresolvable ------------------------------------------------------------------


def judge_hostnames(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``HostnamesUnresolvable``: the pods' subdomain has no Service of that name.

    Facts: gke_tpu R3 (long cluster names), R4 (KubeRay from 1.4 no longer cuts the Service's name,
    the webhook still does), R5 (``headless-worker-svc`` against ``headless``).
    Must not flag: single-host groups; pods without a subdomain (``MissingSliceIdentity``).
    """
    known = {
        service.metadata.name
        for service in view.fleet.services
        if service.metadata is not None and service.metadata.namespace == cluster.namespace
    }
    for group in view.worker_groups_of(cluster):
        if not group.multi_host or group.suspended:
            continue
        bad: dict[str, list[Pod]] = defaultdict(list)
        for pod in current(group.pods):
            subdomain = pod.spec.subdomain if pod.spec else None
            domains = {name.split(".")[1] for name in hostnames(view, pod) if name.count(".") >= 1}
            if subdomain:
                domains.add(subdomain)
            for domain in sorted(domains - {name for name in known if name}):
                bad[domain].append(pod)
            if subdomain and subdomain in known:
                for domain in sorted(domains & known - {subdomain}):
                    # The names point at another Service than the one the pod is in.
                    bad[domain].append(pod)
        if not bad:
            continue
        domain = sorted(bad)[0]
        pods = bad[domain]
        near = sorted(
            name
            for name in known
            if name and (name.startswith(cluster.cluster) or name.endswith(domain[-20:]))
        )
        hint = f"; the Service is called {names_of(near)}" if near else ""
        yield hit(
            "HostnamesUnresolvable",
            worker_group_subject(group),
            f"{len(pods)} pods of worker group {group.name} ({cluster.id}) look for each other "
            f"under {domain}, and no Service of that name serves them{hint}: their hostnames "
            "cannot be resolved and TPU start-up hangs.",
            severity="critical",
            evidence=[
                *(
                    kube_evidence(
                        "pod",
                        pod_name(pod),
                        "spec.subdomain",
                        pod.spec.subdomain if pod.spec else None,
                    )
                    for pod in pods[:4]
                ),
                kube_evidence(
                    "pod",
                    pod_name(pods[0]),
                    "TPU_WORKER_HOSTNAMES",
                    ",".join(hostnames(view, pods[0])[:2]),
                ),
                kube_evidence(
                    "namespace",
                    cluster.namespace,
                    "services",
                    ", ".join(sorted(name for name in known if name)) or "none",
                ),
            ],
            actions=[
                look("See the headless Services of the cluster.", commands.services(view, cluster)),
                look(
                    "Try to resolve one of the names.",
                    commands.kubectl(
                        view,
                        "exec",
                        pod_name(pods[0]),
                        "--",
                        "getent",
                        "hosts",
                        (hostnames(view, pods[0]) or [domain])[0],
                        namespace=cluster.namespace,
                    ),
                ),
                fix(
                    "Use a shorter RayCluster name, or versions of KubeRay and the TPU webhook that "
                    "agree, and make the cluster anew (kills what runs). Until then, a headless "
                    f"Service named {domain} that selects the worker pods lets them start.",
                ),
            ],
            links=_group_links(view, cluster, group),
            effect=f"the hostnames of worker group {group.name} cannot be resolved",
        )


# --- AffinityDeadlock -----------------------------------------------------------------------


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
            links=_group_links(view, cluster, group),
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


# --- HostCountMismatch ----------------------------------------------------------------------


def judge_host_count(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``HostCountMismatch``: numOfHosts, topology / chips per host and hostnames do not agree.

    Facts: gke_tpu R11 (the webhook validates new RayClusters, never changed ones), R17
    (numOfHosts lost by an old CRD), R27 ("Expected 4 worker addresses, got 1").
    Must not flag: groups of no pods and no replicas; suspended ones; pods without any hostnames
    (``MissingSliceIdentity``); single hosts with ``localhost``; a topology that is not known.
    """
    for group in view.worker_groups_of(cluster):
        spec = group.spec
        pods = current(group.pods)
        if group.suspended or (not pods and not (spec is not None and spec.replicas)):
            continue
        declared = (1 if spec.num_of_hosts is None else spec.num_of_hosts) if spec else None
        by_topology = group.hosts_by_topology
        counted = {pod_name(pod): count for pod in pods if (count := len(hostnames(view, pod))) > 0}
        wanted = by_topology or declared
        wrong = sorted(name for name, count in counted.items() if wanted and count != wanted)
        spec_wrong = declared is not None and by_topology is not None and declared != by_topology
        if not spec_wrong and not wrong:
            continue
        parts = []
        if declared is not None:
            parts.append(f"numOfHosts is {declared}")
        if by_topology is not None:
            parts.append(
                f"topology {group.topology_name} with {group.chips_per_pod} chips a pod makes "
                f"{by_topology}"
            )
        if wrong:
            parts.append(
                f"{len(wrong)} pods have {names_of(sorted({str(counted[name]) for name in wrong}))} "
                "TPU_WORKER_HOSTNAMES"
            )
        rows = [
            kube_evidence("raycluster", cluster.cluster, f"{group.name}.numOfHosts", declared),
            kube_evidence(
                "raycluster", cluster.cluster, f"{group.name} topology", group.topology_name
            ),
            kube_evidence(
                "raycluster",
                cluster.cluster,
                f"{group.name} google.com/tpu a pod",
                group.chips_per_pod,
            ),
        ]
        rows += [
            kube_evidence("pod", name, "TPU_WORKER_HOSTNAMES", f"{counted[name]} names")
            for name in wrong[:6]
        ]
        yield hit(
            "HostCountMismatch",
            worker_group_subject(group),
            f"Worker group {group.name} ({cluster.id}) disagrees on its number of hosts: "
            f"{', '.join(parts)}. Its slices can never work as one.",
            severity="critical",
            evidence=rows,
            actions=_count_actions(view, cluster, group, by_topology),
            links=_group_links(view, cluster, group),
            effect=f"worker group {group.name} disagrees on its number of hosts",
        )


def _count_actions(
    view: View, cluster: ClusterView, group: WorkerGroup, by_topology: int | None
) -> list[Action]:
    target = f" to {by_topology}" if by_topology else ""
    return [
        look("Read the worker group's spec.", commands.cluster_yaml(view, cluster)),
        look("See its pods.", commands.list_pods(view, cluster)),
        fix(
            f"Set numOfHosts of {group.name}{target} so that it matches the topology divided by "
            "chips per pod, then delete the group's pods (kills what runs on them).",
            commands.edit_cluster(view, cluster),
        ),
    ]
