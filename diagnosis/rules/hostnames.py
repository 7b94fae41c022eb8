"""Hosts that cannot find each other: names without a Service, and wrong numbers of hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action
from diagnosis.rules.base import (
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    worker_group_subject,
)
from diagnosis.rules.pods import current, hostnames, worker_group_links
from diagnosis.view import View, names_of
from fleet.model import ClusterView, WorkerGroup
from fleet.observation import Pod
from fleet.pods import (
    pod_name,
)


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
                    "Use a shorter RayCluster name, or versions of KubeRay and the TPU webhook "
                    "that agree, and make the cluster anew (kills what runs). Until then, a "
                    f"headless Service {domain} that selects the worker pods lets them start.",
                ),
            ],
            links=worker_group_links(view, cluster, group),
            effect=f"the hostnames of worker group {group.name} cannot be resolved",
        )


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
            numbers = names_of(sorted({str(counted[name]) for name in wrong}))
            parts.append(f"{len(wrong)} pods have {numbers} TPU_WORKER_HOSTNAMES")
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
            links=worker_group_links(view, cluster, group),
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
