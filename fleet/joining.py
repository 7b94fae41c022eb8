"""Which pod is which Ray node.

Keys in order of trust: the instance id that KubeRay gives a pod (``RAY_CLOUD_INSTANCE_ID``, the
pod's name), the pod's IP within one cluster where exactly one live pod and one live Ray node have
it, then slice name and worker id where exactly one of each carries them. An IP alone never decides
where it is ambiguous: a local cluster has one IP for all its raylets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

from fleet.observation import Pod, RayNode
from fleet.pods import env_of, phase, pod_ip, pod_name, slice_name, terminating, worker_id
from fleet.times import epoch_from_ms, number

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SLICE_NAME_LABEL = "ray.io/tpu-slice-name"
WORKER_ID_LABEL = "ray.io/tpu-worker-id"
RAY_TOPOLOGY_LABEL = "ray.io/tpu-topology"
POD_TYPE_LABEL = "ray.io/tpu-pod-type"
ACCELERATOR_TYPE_LABEL = "ray.io/accelerator-type"


def ray_labels(node: RayNode) -> dict[str, str]:
    """Labels of a Ray node without null values."""
    return {key: value for key, value in (node.labels or {}).items() if value is not None}


def ray_tpu(node: RayNode) -> float:
    """How many TPUs Ray counts on a node (0 when none)."""
    return number((node.resources_total or {}).get("TPU")) or 0.0


def is_tpu_node(node: RayNode) -> bool:
    """Whether Ray takes the node for a TPU host: it counts chips or carries a TPU label."""
    return ray_tpu(node) > 0 or any(key.startswith("ray.io/tpu-") for key in ray_labels(node))


def alive(node: RayNode) -> bool:
    """Whether Ray lists the node as ALIVE."""
    return node.state == "ALIVE"


def ray_worker_id(node: RayNode) -> int | None:
    """The TPU worker id that Ray's label gives, if it is a number."""
    text = ray_labels(node).get(WORKER_ID_LABEL, "").strip()
    return int(text) if text.isdecimal() and len(text) < 8 else None


def ray_identity(node: RayNode) -> tuple[str, int] | None:
    """Slice name and worker id as Ray knows them, when it knows both."""
    name, host = ray_labels(node).get(SLICE_NAME_LABEL), ray_worker_id(node)
    return (name, host) if name and host is not None else None


def pod_identity(pod: Pod, env: dict[str, str]) -> tuple[str, int] | None:
    """Slice name and worker id as the pod's marks give them, when both are there."""
    name, host = slice_name(pod, env), worker_id(pod, env)
    return (name, host) if name and host is not None else None


def _unique(pairs: Iterable[tuple[K | None, V]]) -> dict[K, V]:
    """Only the keys that exactly one value has."""
    known = [(key, value) for key, value in pairs if key is not None]
    counts = Counter(key for key, _ in known)
    return {key: value for key, value in known if counts[key] == 1}


def join(pods: Iterable[Pod], nodes: Iterable[RayNode]) -> dict[str, RayNode]:
    """Live Ray nodes of one cluster by the name of the pod they run in.

    Args:
        pods: pods of one Ray cluster.
        nodes: Ray nodes of the same cluster; dead ones are ignored.
    """
    live_nodes = [node for node in nodes if alive(node)]
    live_pods = [
        (pod, env_of(pod))
        for pod in pods
        if phase(pod) not in ("Succeeded", "Failed") and pod_name(pod)
    ]
    # A terminating pod may still hold its IP, and a successor its name's place: prefer the living.
    live_pods.sort(key=lambda item: terminating(item[0]))
    pairs: dict[str, RayNode] = {}
    used: set[int] = set()

    def take(name: str, node: RayNode) -> None:
        if name not in pairs and id(node) not in used:
            pairs[name] = node
            used.add(id(node))

    by_instance = _unique((node.instance_id or None, node) for node in live_nodes)
    by_node_name = _unique((node.node_name or None, node) for node in live_nodes)
    for pod, env in live_pods:
        name = pod_name(pod)
        for key in (env.get("RAY_CLOUD_INSTANCE_ID"), name):
            node = by_instance.get(key or "") or by_node_name.get(key or "")
            if node is not None:
                take(name, node)

    nodes_by_ip = _unique((node.node_ip or None, node) for node in live_nodes)
    pods_by_ip = _unique((pod_ip(pod), pod_name(pod)) for pod, _ in live_pods)
    for address, name in pods_by_ip.items():
        if address in nodes_by_ip:
            take(name, nodes_by_ip[address])

    nodes_by_identity = _unique((ray_identity(node), node) for node in live_nodes)
    pods_by_identity = _unique((pod_identity(pod, env), pod_name(pod)) for pod, env in live_pods)
    for identity, name in pods_by_identity.items():
        if identity in nodes_by_identity:
            take(name, nodes_by_identity[identity])
    return pairs


def last_dead(candidates: Iterable[RayNode], *, created: float | None) -> RayNode | None:
    """The newest of some dead Ray nodes that is not older than the pod it should have run in.

    Args:
        candidates: dead nodes that carry the pod's slice name and worker id, or its IP.
        created: when the pod was created; a minute of clock skew is allowed.
    """
    best: RayNode | None = None
    for node in candidates:
        start = epoch_from_ms(node.start_time_ms)
        if created is not None and start is not None and start < created - 60:
            continue
        if best is None or (epoch_from_ms(node.end_time_ms) or 0) > (
            epoch_from_ms(best.end_time_ms) or 0
        ):
            best = node
    return best


def dead_by_identity(nodes: Iterable[RayNode]) -> dict[tuple[str, int], list[RayNode]]:
    """Dead Ray nodes by slice name and worker id, oldest first."""
    found: dict[tuple[str, int], list[RayNode]] = defaultdict(list)
    for node in nodes:
        identity = ray_identity(node)
        if not alive(node) and identity is not None:
            found[identity].append(node)
    for items in found.values():
        items.sort(key=lambda node: epoch_from_ms(node.end_time_ms) or 0)
    return dict(found)
