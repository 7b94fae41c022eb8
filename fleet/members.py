"""Candidate hosts of one Ray cluster, from both sides, and the slice each belongs to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from fleet.joining import (
    ACCELERATOR_TYPE_LABEL,
    POD_TYPE_LABEL,
    RAY_TOPOLOGY_LABEL,
    SLICE_NAME_LABEL,
    alive,
    is_tpu_node,
    join,
    ray_labels,
    ray_tpu,
    ray_worker_id,
)
from fleet.model import StrayRayNode
from fleet.observation import Event, Node, Pod, RayNode, SliceObject, WorkerGroupSpec
from fleet.pods import (
    ACCELERATOR_LABEL,
    GROUP_LABEL,
    NODE_POOL_LABEL,
    TOPOLOGY_LABEL,
    created_at,
    env_of,
    labels_of,
    node_chips,
    node_name,
    node_selector,
    phase,
    pod_name,
    pod_tpu_chips,
    replica_key,
    slice_name,
    spec_tpu_chips,
    terminating,
    worker_id,
)
from fleet.shapes import ShapeHints, shape_of
from fleet.times import epoch_from_ms


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What both sides say around one Ray cluster.

    ``nodes_known``/``pods_known``/``ray_nodes_known``: that list was answered in full, so what is
    not in it does not exist. ``ray_seen``: Ray's node list was answered at all.
    """

    namespace: str
    cluster: str
    now: float
    startup_grace: float
    pods: Sequence[Pod] = ()
    nodes: Mapping[str, Node] = {}
    nodes_known: bool = False
    pods_known: bool = False
    ray_nodes: Sequence[RayNode] = ()
    ray_nodes_known: bool = False
    ray_seen: bool = False
    has_kubernetes: bool = False
    groups: Mapping[str, WorkerGroupSpec] = {}
    events: Mapping[tuple[str, str, str], tuple[Event, ...]] = {}
    slice_objects: Mapping[str, SliceObject] = {}


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate host: a pod, a live Ray node, or both joined."""

    pod: Pod | None = None
    env: dict[str, str] = {}
    ray: RayNode | None = None
    node: Node | None = None
    worker_id: int | None = None
    group: str | None = None
    replica: str | None = None

    @property
    def key(self) -> str:
        if self.pod is not None and pod_name(self.pod):
            return pod_name(self.pod)
        return (self.ray.node_id if self.ray else None) or "?"

    @property
    def created(self) -> float | None:
        return created_at(self.pod) if self.pod is not None else None

    @property
    def started(self) -> float | None:
        """Start of the present host: Ray's node, else the pod."""
        ray = epoch_from_ms(self.ray.start_time_ms) if self.ray else None
        return ray if ray is not None else self.created

    @property
    def ending(self) -> bool:
        """The pod is on its way out: being deleted, or already finished."""
        return self.pod is not None and (
            terminating(self.pod) or phase(self.pod) in ("Failed", "Succeeded")
        )


def is_tpu_pod(pod: Pod) -> bool:
    """Whether a pod is a TPU host: it asks for chips, or for a TPU node."""
    return pod_tpu_chips(pod) is not None or ACCELERATOR_LABEL in node_selector(pod.spec)


def hints_of(member: Member, spec: WorkerGroupSpec | None) -> ShapeHints:
    """What a member, its node and its worker group say about the shape."""
    template = spec.template.spec if spec and spec.template else None
    selector = {
        **node_selector(template),
        **(node_selector(member.pod.spec) if member.pod else {}),
    }
    node = labels_of(member.node) if member.node else {}
    ray = ray_labels(member.ray) if member.ray else {}
    asked = (pod_tpu_chips(member.pod) if member.pod else None) or spec_tpu_chips(template)
    counted = int(ray_tpu(member.ray)) if member.ray else 0
    hostnames = member.env.get("TPU_WORKER_HOSTNAMES", "")
    return ShapeHints(
        topology=selector.get(TOPOLOGY_LABEL)
        or ray.get(RAY_TOPOLOGY_LABEL)
        or node.get(TOPOLOGY_LABEL),
        accelerator=selector.get(ACCELERATOR_LABEL) or node.get(ACCELERATOR_LABEL),
        pod_type=ray.get(POD_TYPE_LABEL),
        accelerator_type=ray.get(ACCELERATOR_TYPE_LABEL),
        chips_asked=asked or (node_chips(member.node) if member.node else None),
        chips_counted=counted if 0 < counted < 1_000_000 else None,
        hostnames=len([name for name in hostnames.split(",") if name.strip()]) or None,
    )


def collect_members(around: Surroundings) -> list[Member]:
    """TPU pods with the Ray nodes in them, then live TPU nodes of Ray without a pod."""
    tpu_pods = [pod for pod in around.pods if is_tpu_pod(pod) and phase(pod) != "Succeeded"]
    live_nodes = [node for node in around.ray_nodes if alive(node)]
    pairs = join(around.pods, live_nodes)
    members, paired = [], set()
    for pod in tpu_pods:
        env = env_of(pod)
        ray = pairs.get(pod_name(pod))
        if ray is not None:
            paired.add(id(ray))
        from_ray = ray_worker_id(ray) if ray is not None else None
        members.append(
            Member(
                pod=pod,
                env=env,
                ray=ray,
                node=around.nodes.get(node_name(pod) or ""),
                worker_id=from_ray if from_ray is not None else worker_id(pod, env),
                group=labels_of(pod).get(GROUP_LABEL),
                replica=replica_key(pod, env),
            )
        )
    # Ray nodes of pods that are no TPU hosts (a head on a CPU node) are joined, so not loose.
    paired |= {id(node) for node in pairs.values()}
    members += [
        Member(ray=node, worker_id=ray_worker_id(node))
        for node in live_nodes
        if id(node) not in paired and is_tpu_node(node)
    ]
    return members


def phantoms(around: Surroundings, members: list[Member]) -> list[StrayRayNode]:
    """Live Ray nodes that count TPUs though their pod asks for none, with that pod.

    They are no members: a device that Ray took for a TPU (facts/gke_tpu.md R22) makes no slice.
    """
    known = {id(member.ray) for member in members}
    suspects = [
        node
        for node in around.ray_nodes
        if alive(node) and ray_tpu(node) > 0 and id(node) not in known
    ]
    if not suspects:
        return []
    pod_of = {id(node): name for name, node in join(around.pods, around.ray_nodes).items()}
    pods = {pod_name(pod): pod for pod in around.pods}
    return [
        StrayRayNode(
            namespace=around.namespace,
            cluster=around.cluster,
            node=node,
            pod=pods.get(pod_of.get(id(node), "")),
        )
        for node in suspects
    ]


def without_superseded(members: list[Member]) -> tuple[list[Member], list[Member]]:
    """Drop hosts on their way out whose place another one has taken.

    Returns the members that count, and the dropped ones. A Ray node without a pod gives way to a
    pod's Ray node of the same worker id: its pod was deleted and Ray has not noticed yet.
    """
    taken = {
        member.worker_id
        for member in members
        if member.worker_id is not None and not member.ending and member.pod is not None
    }
    kept: list[Member] = []
    dropped: list[Member] = []
    for member in members:
        superseded = member.worker_id in taken and (member.ending or member.pod is None)
        (dropped if superseded else kept).append(member)
    return kept, dropped


def group_by_name(
    around: Surroundings, members: list[Member]
) -> tuple[dict[str, list[Member]], list[Pod], list[StrayRayNode]]:
    """Members by slice name; pods of one replica stay together whatever each of them is called."""
    by_replica: dict[str, list[Member]] = defaultdict(list)
    named: dict[str, list[Member]] = defaultdict(list)
    stray_pods: list[Pod] = []
    stray_nodes: list[StrayRayNode] = []
    for member in members:
        if member.pod is not None and member.replica is not None:
            by_replica[member.replica].append(member)
            continue
        label = ray_labels(member.ray).get(SLICE_NAME_LABEL) if member.ray else None
        if label:
            named[label].append(member)
            continue
        spec = around.groups.get(member.group or "")
        shape = shape_of(
            [hints_of(member, spec)], declared_hosts=spec.num_of_hosts if spec else None
        )
        pool = labels_of(member.node).get(NODE_POOL_LABEL) if member.node else None
        if shape.hosts == 1:
            named[member.key if member.pod is not None else member.key[:12]].append(member)
        elif member.pod is not None and pool is not None:
            # A static slice is one node pool (facts/gke_tpu.md 0.3), so the pool names it.
            named[pool].append(member)
        elif member.pod is not None:
            stray_pods.append(member.pod)
        elif member.ray is not None:
            stray_nodes.append(
                StrayRayNode(namespace=around.namespace, cluster=around.cluster, node=member.ray)
            )
    for replica, mates in by_replica.items():
        names = Counter(
            name
            for mate in mates
            for name in (
                (ray_labels(mate.ray).get(SLICE_NAME_LABEL) if mate.ray else None)
                or (slice_name(mate.pod, mate.env) if mate.pod else None),
            )
            if name
        )
        name = min(names, key=lambda item: (-names[item], item)) if names else replica
        named[name].extend(mates)
    return dict(named), stray_pods, stray_nodes
