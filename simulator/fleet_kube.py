"""What Kubernetes says of an invented fleet: objects of each kind, as the API lists them."""

from __future__ import annotations

from simulator import kube_objects as objects
from simulator.fleet_model import Cluster, Host, InventedFleet, Slice
from simulator.fleet_rows import head_ip
from simulator.kube_objects import ClusterFacts, GroupFacts, Object, suffix
from simulator.kube_pods import HostFacts, head_pod, worker_pod

KINDS = ("pods", "nodes", "services", "events", "rayclusters", "namespaces")


def kubernetes_objects(fleet: InventedFleet) -> dict[str, list[Object]]:
    """All objects by plural; bare Ray clusters give none."""
    found: dict[str, list[Object]] = {kind: [] for kind in KINDS}
    clusters = [cluster for cluster in fleet.clusters if cluster.kubernetes]
    spaces = {"default", "kube-system", *(cluster.namespace for cluster in clusters)}
    oldest = min((cluster.created for cluster in clusters), default=fleet.now)
    found["namespaces"] = [objects.namespace(name, oldest) for name in sorted(spaces)]
    for cluster in clusters:
        _cluster(found, cluster, fleet)
    return found


def pod_name(host: Host) -> str:
    """The name of a host's present pod."""
    cluster = host.slice.cluster
    ending = suffix("pod", cluster.key, host.key, host.attempt, length=7)
    return f"{cluster.name}-{host.slice.group}-worker-{ending}"


def node_name(host: Host) -> str:
    """The name of the node that a host's pod is on."""
    cluster = host.slice.cluster
    ending = suffix("node", cluster.key, host.key, length=6)
    return f"gke-{cluster.namespace}-{cluster.name}-{host.slice.group}-{ending}"


def pool_of(part: Slice) -> str:
    """The node pool of a slice: each multi-host slice has one of its own."""
    cluster = part.cluster
    return f"{cluster.namespace}-{cluster.name}-{part.group}-{part.shape.topology}-{part.replica}"


def _facts(cluster: Cluster) -> ClusterFacts:
    return ClusterFacts(cluster.namespace, cluster.name, cluster.created, cluster.marks)


def host_facts(host: Host) -> HostFacts:
    """A host as :func:`simulator.kube_pods.worker_pod` takes it."""
    return HostFacts(
        group=host.slice.group,
        replica=host.slice.replica,
        index=host.index,
        shape=host.slice.shape,
        pod_name=pod_name(host),
        node_name=node_name(host),
        pod_ip=host.pod_ip,
        host_ip=host.host_ip,
        created=host.started - 60,
        since=host.since or host.started,
        state=host.pod or "running",
        restarts=host.restarts,
        megascale_slices=host.slice.megascale_slices,
        megascale_id=host.slice.megascale_id,
        message="the raylet has ended" if host.pod in ("crash_loop", "terminated") else "",
    )


def _cluster(found: dict[str, list[Object]], cluster: Cluster, fleet: InventedFleet) -> None:
    facts = _facts(cluster)
    head_name = f"{cluster.name}-head-{suffix('head', cluster.key)}"
    head_node = f"gke-{cluster.namespace}-{cluster.name}-cpu-pool-0"
    address = head_ip(cluster)
    if not cluster.suspended:
        ip = address.replace("10.9.", "10.129.")
        found["nodes"].append(
            objects.node(name=head_node, pool="cpu-pool", created=cluster.created, ip=ip)
        )
        found["pods"].append(
            head_pod(facts, name=head_name, node=head_node, ip=address, host_ip=ip)
        )
        for part in cluster.slices:
            for host in part.hosts:
                _host(found, facts, host, fleet)
    multi = any(part.shape.hosts > 1 for part in cluster.slices) and not cluster.without_service
    found["services"] += objects.services(facts, multi_host=multi)
    ray_cluster = objects.ray_cluster(
        facts, _groups(cluster), head_pod_name=head_name, head_ip=address
    )
    for group in ray_cluster["spec"]["workerGroupSpecs"]:
        wrong = cluster.wrong_num_of_hosts.get(group["groupName"])
        if wrong is not None:
            group["numOfHosts"] = wrong
    if cluster.suspended:
        ray_cluster["spec"]["suspend"] = True
        ray_cluster["status"] |= {"state": "suspended", "head": {}}
    found["rayclusters"].append(ray_cluster)


def _groups(cluster: Cluster) -> list[GroupFacts]:
    by_group: dict[str, list[Slice]] = {}
    for part in cluster.slices:
        by_group.setdefault(part.group, []).append(part)
    return [
        GroupFacts(
            name=name,
            shape=parts[0].shape,
            replicas=len(parts),
            ready=sum(host.pod == "running" for part in parts for host in part.hosts),
            available=sum(
                host.pod in ("running", "not_ready") for part in parts for host in part.hosts
            ),
        )
        for name, parts in by_group.items()
    ]


def _host(
    found: dict[str, list[Object]], cluster: ClusterFacts, host: Host, fleet: InventedFleet
) -> None:
    facts = host_facts(host)
    if host.node != "gone":
        node = objects.node(
            name=facts.node_name,
            pool=host.pool or pool_of(host.slice),
            created=host.slice.cluster.created,
            ip=host.host_ip,
            shape=host.slice.shape,
            ready=host.node == "ready",
            since=host.since if host.node == "lost" else None,
        )
        found["nodes"].append(node)
    if host.pod is None:
        return
    pod = worker_pod(cluster, facts)
    if not host.marked:
        _unmark(pod)
    if host.worker_id is not None:
        _claim(pod, host)
    found["pods"].append(pod)
    found["events"] += _events(pod, host, fleet.now)


def _unmark(pod: Object) -> None:
    """As if the webhook had not seen it."""
    spec = pod["spec"]
    for key in ("hostname", "subdomain", "affinity"):
        spec.pop(key, None)
    container = spec["containers"][0]
    container["env"] = [item for item in container["env"] if not item["name"].startswith("TPU_")]
    pod["metadata"]["labels"].pop("replicaIndex", None)


def _claim(pod: Object, host: Host) -> None:
    """As if the webhook had given it another host's id."""
    pod["spec"]["hostname"] = f"{host.slice.name}-{host.claimed_id}"
    for item in pod["spec"]["containers"][0]["env"]:
        if item["name"] == "TPU_WORKER_ID":
            item["value"] = str(host.claimed_id)


def _events(pod: Object, host: Host, now: float) -> list[Object]:
    at = max(host.since or host.started, now - 3000)  # older events have expired
    name = pod["metadata"]["name"]
    if host.pod == "unschedulable":
        text = pod["status"]["conditions"][0]["message"]
        events = [
            objects.event(
                pod, "FailedScheduling", text, at=at, count=4, component="default-scheduler"
            )
        ]
        if host.scale_up_failed:
            text = (
                "Node scale up in zones us-east5-b associated with this pod failed: GCE out of "
                "resources. Pod is at risk of not being scheduled."
            )
            events.append(
                objects.event(
                    pod, "FailedScaleUp", text, at=at, count=3, component="cluster-autoscaler"
                )
            )
        return events
    if host.pod == "crash_loop":
        text = f"Back-off restarting failed container ray-worker in pod {name}"
        return [objects.event(pod, "BackOff", text, at=at, count=12)]
    if host.pod == "terminated":
        return [objects.event(pod, "Unhealthy", "Readiness probe failed", at=at)]
    if host.pod == "not_ready":
        return [
            objects.event(
                pod, "NodeNotReady", "Node is not ready", at=at, component="node-controller"
            )
        ]
    return []
