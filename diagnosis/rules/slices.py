"""Hosts of one slice with the same name, hosts without ICI between them, a slice without a head."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence
from diagnosis.rules.base import (
    Links,
    Outcome,
    fix,
    hit,
    kube_evidence,
    look,
    ray_evidence,
    slice_subject,
)
from diagnosis.rules.scheduler import leak_of, same_pod_type
from diagnosis.view import View, host_name, multi_host, names_of
from fleet.groups import HEAD_RESOURCE
from fleet.joining import SLICE_NAME_LABEL
from fleet.model import ClusterView, Host, PlacementGroup, Slice
from fleet.pods import DYNAMIC_SLICE_LABEL, env_of, labels_of
from fleet.topology import split_pod_type


def slice_links(item: Slice, hosts: list[Host] | None = None) -> Links:
    """What a finding about a slice, or some of its hosts, touches."""
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
            links=slice_links(item, twins),
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
            links=slice_links(item),
            effect=f"slice {item.name} lies on {len(domains)} {what}",
        )


def _offers(item: Slice, host: Host) -> bool:
    """Whether a host offers the head of this slice's shape, in any spelling of it."""
    if not host.offers_head or item.pod_type is None:
        return host.offers_head
    names = (host.ray_node.resources_total or {}) if host.ray_node is not None else {}
    heads = [found["pod_type"] for name in names if (found := HEAD_RESOURCE.match(name))]
    unread = [head for head in heads if split_pod_type(head) is None]
    return bool(unread) or any(same_pod_type(head, item.pod_type) for head in heads)


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
        if any(_offers(item, host) for host in item.hosts):
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
            links=slice_links(item),
            effect=f"slice {item.name} offers no head resource",
        )
