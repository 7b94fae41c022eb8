"""From what the sources said to what it means: ``Observation`` in, ``Fleet`` out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fleet.groups import build_group, build_workers, ground_of, group_key, live_groups
from fleet.holding import hold
from fleet.members import Surroundings, is_tpu_pod
from fleet.model import (
    ClusterView,
    Fleet,
    PlacementGroup,
    Slice,
    StrayRayNode,
    TpuUse,
    Worker,
    WorkerGroup,
)
from fleet.observation import (
    Event,
    KubernetesObservation,
    Node,
    Observation,
    Pod,
    RayCluster,
    RayNode,
    RayObservation,
    SourceStatus,
)
from fleet.pods import (
    ACCELERATOR_LABEL,
    CLUSTER_LABEL,
    GROUP_LABEL,
    TOPOLOGY_LABEL,
    event_time,
    labels_of,
    node_selector,
    phase,
    pod_name,
    pod_namespace,
    pod_tpu_chips,
    spec_tpu_chips,
    terminating,
)
from fleet.slices import build_slices
from fleet.times import epoch_from_ms
from fleet.topology import TopologyError, generation_of, parse_topology

RAY_PARTS = ("nodes", "placement_groups", "actors", "tasks", "jobs")
KUBERNETES_PARTS = ("pods", "nodes", "services", "events", "ray_clusters", "slices")

DEFAULT_STARTUP_GRACE_SECONDS = 600.0


def build_fleet(
    observation: Observation, *, startup_grace: float = DEFAULT_STARTUP_GRACE_SECONDS
) -> Fleet:
    """Join what Kubernetes and the Ray clusters said into slices, groups and gangs.

    Args:
        observation: one look at all sources; its ``now`` is the only clock.
        startup_grace: seconds for which a slice that has never been whole counts as forming.
    """
    kubernetes = observation.kubernetes
    ray_by_id = {(item.namespace, item.cluster): item for item in observation.ray}
    specs = _ray_clusters(kubernetes)
    pods_by_cluster = _pods_by_cluster(kubernetes)
    nodes = _nodes(kubernetes)
    events = _events(kubernetes)
    kubernetes_parts = frozenset(
        part
        for part in KUBERNETES_PARTS
        if kubernetes is not None
        and getattr(kubernetes, part) is not None
        and part not in damaged_parts(kubernetes.source)
    )
    slice_objects = {
        item.metadata.name: item
        for item in (kubernetes.slices if kubernetes else None) or ()
        if item.metadata is not None and item.metadata.name
    }
    slices: list[Slice] = []
    groups: list[PlacementGroup] = []
    clusters: list[ClusterView] = []
    worker_groups: list[WorkerGroup] = []
    stray_pods: list[Pod] = []
    stray_nodes: list[StrayRayNode] = []
    tpu_use: dict[str, TpuUse] = {}
    jobs: dict[str, str] = {}
    ids = sorted({*ray_by_id, *specs, *pods_by_cluster})
    for namespace, cluster in ids:
        ray = ray_by_id.get((namespace, cluster)) or _unseen_ray(namespace, cluster)
        spec = specs.get((namespace, cluster))
        pods = pods_by_cluster.get((namespace, cluster), [])
        suspended = ray.source.status == "suspended" or _suspended(spec)
        in_kubernetes = kubernetes is not None and namespace != "-"
        parts = frozenset(
            part
            for part in RAY_PARTS
            if getattr(ray, part) is not None and part not in damaged_parts(ray.source)
        )
        ray_nodes = _distinct_nodes(ray)
        own_groups = _worker_groups(namespace, cluster, spec, pods, suspended=suspended)
        worker_groups += own_groups
        around = Surroundings(
            namespace=namespace,
            cluster=cluster,
            now=observation.now,
            startup_grace=startup_grace,
            pods=pods,
            nodes=nodes,
            nodes_known="nodes" in kubernetes_parts,
            pods_known="pods" in kubernetes_parts and in_kubernetes,
            ray_nodes=ray_nodes,
            ray_nodes_known="nodes" in parts,
            ray_seen=ray.nodes is not None,
            has_kubernetes=in_kubernetes,
            groups={item.name: item.spec for item in own_groups if item.spec is not None},
            events=events,
            slice_objects=slice_objects,
        )
        built = build_slices(around)
        stray_pods += built.stray_pods
        stray_nodes += built.stray_ray_nodes
        ground = ground_of(observation.now, built.slices, ray_nodes)
        key_of_group = {
            raw.placement_group_id: group_key(namespace, cluster, raw.placement_group_id)
            for raw in live_groups(ray)
            if raw.placement_group_id
        }
        workers = build_workers(ground, ray, key_of_group)
        by_group: dict[str, list[Worker]] = defaultdict(list)
        loose: list[Worker] = []
        for worker in workers:
            (by_group[worker.group_id] if worker.group_id else loose).append(worker)
        own = [
            build_group(ground, ray, raw, by_group.get(key_of_group[raw.placement_group_id], ()))
            for raw in live_groups(ray)
            if raw.placement_group_id
        ]
        groups += own
        held = hold(ground, own, loose, unseen=_unseen(ray, parts))
        slices += [
            item
            for item in held
            # A slice that is scaled away is no news, unless somebody still works on it.
            if not (item.leaving and not item.held_by and not item.workers)
        ]
        clusters.append(_cluster_view(ray, spec, parts, suspended, in_kubernetes, own))
        tpu_use.update(_tpu_use(namespace, cluster, ray))
        for job in ray.jobs or ():
            if job.job_id and job.status:
                jobs[f"{namespace}/{cluster}/{job.job_id}"] = job.status
    sources = ((kubernetes.source,) if kubernetes is not None else ()) + tuple(
        item.source for item in observation.ray
    )
    return Fleet(
        now=observation.now,
        slices=tuple(sorted(slices, key=lambda item: item.id)),
        placement_groups=tuple(sorted(groups, key=lambda item: item.key)),
        worker_groups=tuple(sorted(worker_groups, key=lambda item: item.id)),
        clusters=tuple(clusters),
        sources=tuple(sorted(sources, key=lambda item: item.name)),
        kubernetes_parts=kubernetes_parts,
        has_kubernetes=kubernetes is not None,
        context=kubernetes.context if kubernetes is not None else None,
        nodes=nodes,
        services=(kubernetes.services if kubernetes else None) or (),
        slice_objects=tuple(slice_objects.values()),
        events_by_object=events,
        stray_pods=tuple(sorted(stray_pods, key=lambda pod: (pod_namespace(pod), pod_name(pod)))),
        stray_ray_nodes=tuple(sorted(stray_nodes, key=lambda item: item.node.node_id or "")),
        tpu_use=tpu_use,
        job_status=jobs,
    )


def damaged_parts(source: SourceStatus) -> frozenset[str]:
    """Parts of a source that were not answered in full: cut, missing, or with unreadable rows."""
    damaged = {item.part for item in source.truncated} | set(source.missing)
    damaged |= {text.partition(":")[0].strip() for text in source.malformed}
    return frozenset(damaged)


def _unseen_ray(namespace: str, cluster: str) -> RayObservation:
    """A Ray cluster that Kubernetes knows and nobody asked."""
    return RayObservation(
        source=SourceStatus(
            name=f"ray:{namespace}/{cluster}",
            status="down",
            reason="missing",
            detail="nothing was asked of this Ray cluster",
            complete=False,
        ),
        namespace=namespace,
        cluster=cluster,
    )


def _distinct_nodes(ray: RayObservation) -> tuple[RayNode, ...]:
    """Ray's nodes, each once, in an order of their own: rows may come twice and in any order."""
    named = {node.node_id: node for node in reversed(ray.nodes or ()) if node.node_id}
    nameless = [node for node in ray.nodes or () if not node.node_id]
    return (*(named[key] for key in sorted(named)), *nameless)


def _unseen(ray: RayObservation, parts: frozenset[str]) -> tuple[str, ...]:
    """What of Ray's groups and workers cannot be seen, in words."""
    words = {
        "placement_groups": "placement groups",
        "actors": "actors",
        "tasks": "tasks",
    }
    return tuple(
        f"Ray's list of {name} was not answered in full"
        if getattr(ray, part) is not None
        else f"Ray's {name} were not answered"
        for part, name in words.items()
        if part not in parts
    )


def _ray_clusters(
    kubernetes: KubernetesObservation | None,
) -> dict[tuple[str, str], RayCluster]:
    found = {}
    for item in (kubernetes.ray_clusters if kubernetes else None) or ():
        if item.metadata is not None and item.metadata.name:
            found[item.metadata.namespace or "default", item.metadata.name] = item
    return found


def _pods_by_cluster(
    kubernetes: KubernetesObservation | None,
) -> dict[tuple[str, str], list[Pod]]:
    found: dict[tuple[str, str], dict[str, Pod]] = defaultdict(dict)
    for pod in (kubernetes.pods if kubernetes else None) or ():
        cluster = labels_of(pod).get(CLUSTER_LABEL)
        if cluster and pod_name(pod):
            found[pod_namespace(pod), cluster].setdefault(pod_name(pod), pod)
    return {key: sorted(items.values(), key=pod_name) for key, items in found.items()}


def _nodes(kubernetes: KubernetesObservation | None) -> dict[str, Node]:
    return {
        item.metadata.name: item
        for item in (kubernetes.nodes if kubernetes else None) or ()
        if item.metadata is not None and item.metadata.name
    }


def _events(
    kubernetes: KubernetesObservation | None,
) -> dict[tuple[str, str, str], tuple[Event, ...]]:
    found: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
    for event in (kubernetes.events if kubernetes else None) or ():
        about = event.involved_object
        if about is None or not about.name:
            continue
        namespace = about.namespace or (
            (event.metadata.namespace if event.metadata else None) or "default"
        )
        found[about.kind or "", namespace, about.name].append(event)
    return {
        key: tuple(
            sorted(
                items,
                key=lambda event: (
                    event_time(event) or 0.0,
                    event.reason or "",
                    event.message or "",
                ),
            )
        )
        for key, items in found.items()
    }


def _suspended(spec: RayCluster | None) -> bool:
    if spec is None:
        return False
    if spec.spec is not None and spec.spec.suspend:
        return True
    conditions = (spec.status.conditions if spec.status else None) or ()
    return any(item.type == "RayClusterSuspended" and item.status == "True" for item in conditions)


def _worker_groups(
    namespace: str,
    cluster: str,
    spec: RayCluster | None,
    pods: Iterable[Pod],
    *,
    suspended: bool,
) -> list[WorkerGroup]:
    """Worker groups that ask for TPUs, declared or only seen through their pods."""
    declared = {
        item.group_name: item
        for item in ((spec.spec.worker_group_specs if spec and spec.spec else None) or ())
        if item.group_name
    }
    members: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        group = labels_of(pod).get(GROUP_LABEL)
        if group and is_tpu_pod(pod) and not terminating(pod) and phase(pod) != "Succeeded":
            members[group].append(pod)
    result = []
    for name in sorted({*declared, *members}):
        declaration = declared.get(name)
        template = (
            declaration.template.spec if declaration is not None and declaration.template else None
        )
        own = members.get(name, [])
        selector = node_selector(template) or (node_selector(own[0].spec) if own else {})
        chips = spec_tpu_chips(template) or (pod_tpu_chips(own[0]) if own else None)
        if chips is None and ACCELERATOR_LABEL not in selector and not own:
            continue
        generation = generation_of(accelerator_label=selector.get(ACCELERATOR_LABEL))
        topology = selector.get(TOPOLOGY_LABEL)
        hosts = None
        if generation is not None and topology is not None and chips is not None:
            try:
                shape = parse_topology(generation, topology, None)
                hosts = max(1, shape.chips // chips)
            except TopologyError:
                hosts = None
        result.append(
            WorkerGroup(
                id=f"{namespace}/{cluster}/{name}",
                namespace=namespace,
                cluster=cluster,
                name=name,
                spec=declaration,
                topology_name=topology,
                generation=generation,
                chips_per_pod=chips,
                hosts_by_topology=hosts,
                pods=tuple(own),
                suspended=suspended or bool(declaration is not None and declaration.suspend),
            )
        )
    return result


def _cluster_view(
    ray: RayObservation,
    spec: RayCluster | None,
    parts: frozenset[str],
    suspended: bool,
    in_kubernetes: bool,
    groups: Iterable[PlacementGroup],
) -> ClusterView:
    heads = [node for node in ray.nodes or () if node.is_head_node and node.state == "ALIVE"]
    starts = [start for node in heads if (start := epoch_from_ms(node.start_time_ms)) is not None]
    conditions = (spec.status.conditions if spec is not None and spec.status else None) or ()
    return ClusterView(
        namespace=ray.namespace,
        cluster=ray.cluster,
        source=ray.source,
        address=ray.address,
        version=ray.version or (spec.spec.ray_version if spec is not None and spec.spec else None),
        suspended=suspended,
        has_kubernetes=in_kubernetes,
        heads_alive=len(heads),
        head_since=max(starts, default=None),
        ray_parts=parts,
        conditions=tuple(
            (item.type or "", item.status or "", item.reason or "", item.message or "")
            for item in conditions
        ),
        attempts_total=sum(group.attempts or 0 for group in groups if group.waiting),
        nodes_by_id={node.node_id: node for node in ray.nodes or () if node.node_id},
    )


def _tpu_use(namespace: str, cluster: str, ray: RayObservation) -> dict[str, TpuUse]:
    """Mean over each host's chips. A sample names its host by Ray node id, or by IP where only one
    live node has it."""
    by_ip: Mapping[str, str] = _ids_by_ip(ray)
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in ray.tpu_samples or ():
        node_id = sample.ray_node_id or by_ip.get(sample.node_ip or "")
        if node_id:
            sums[node_id][sample.metric].append(sample.value)
    return {
        f"{namespace}/{cluster}/{node_id}": _mean_use(metrics) for node_id, metrics in sums.items()
    }


def _ids_by_ip(ray: RayObservation) -> dict[str, str]:
    found: dict[str, set[str]] = defaultdict(set)
    for node in ray.nodes or ():
        if node.state == "ALIVE" and node.node_ip and node.node_id:
            found[node.node_ip].add(node.node_id)
    return {address: next(iter(ids)) for address, ids in found.items() if len(ids) == 1}


def _mean_use(metrics: Mapping[str, list[float]]) -> TpuUse:
    def mean(name: str, scale: float) -> float | None:
        values = metrics.get(name)
        return sum(values) / len(values) / scale if values else None

    return TpuUse(
        duty_cycle=mean("duty_cycle", 100.0),
        tensorcore_utilization=mean("tensorcore_utilization", 100.0),
        memory_used_bytes=mean("memory_used", 1.0),
        memory_total_bytes=mean("memory_total", 1.0),
    )


__all__ = ["DEFAULT_STARTUP_GRACE_SECONDS", "build_fleet", "damaged_parts"]
