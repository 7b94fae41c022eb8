"""Reading one Kubernetes object: what a pod, node or event says about a TPU host."""

from __future__ import annotations

from fleet.model import HostProblem
from fleet.observation import Condition, Container, Event, Node, Pod, PodSpec
from fleet.times import number, parse_time

TPU_RESOURCE = "google.com/tpu"
NODE_POOL_LABEL = "cloud.google.com/gke-nodepool"
ACCELERATOR_LABEL = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-topology"
CHIPS_PER_NODE_LABEL = "cloud.google.com/gke-accelerator-count"
DYNAMIC_SLICE_LABEL = "cloud.google.com/gke-tpu-slice"

CLUSTER_LABEL = "ray.io/cluster"
GROUP_LABEL = "ray.io/group"
NODE_TYPE_LABEL = "ray.io/node-type"
REPLICA_NAME_LABEL = "ray.io/worker-group-replica-name"
REPLICA_INDEX_LABEL = "ray.io/worker-group-replica-index"
HOST_INDEX_LABEL = "ray.io/replica-host-index"
LEGACY_REPLICA_LABEL = "replicaIndex"
"""Set by the TPU webhook where KubeRay does not index hosts (facts/gke_tpu.md 1.2)."""

IMAGE_TROUBLES = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)


def pod_name(pod: Pod) -> str:
    """The name, or an empty string."""
    return (pod.metadata.name if pod.metadata else None) or ""


def pod_namespace(pod: Pod) -> str:
    """The namespace; ``default`` where none is given, as kubectl reads it."""
    return (pod.metadata.namespace if pod.metadata else None) or "default"


def labels_of(item: Pod | Node) -> dict[str, str]:
    """Labels without the ones whose value is null."""
    labels = item.metadata.labels if item.metadata else None
    return {key: value for key, value in (labels or {}).items() if value is not None}


def created_at(item: Pod | Node) -> float | None:
    """Creation time in epoch seconds."""
    return parse_time(item.metadata.creation_timestamp) if item.metadata else None


def terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted."""
    return bool(pod.metadata and pod.metadata.deletion_timestamp)


def phase(pod: Pod) -> str:
    """The pod's phase; ``Unknown`` where it has none."""
    return (pod.status.phase if pod.status else None) or "Unknown"


def pod_ip(pod: Pod) -> str | None:
    """The pod's IP, once it has one."""
    return (pod.status.pod_i_p if pod.status else None) or None


def node_name(pod: Pod) -> str | None:
    """The node that the pod is bound to."""
    return (pod.spec.node_name if pod.spec else None) or None


def gated(pod: Pod) -> bool:
    """Held back on purpose, by Kueue for example: waiting is not a fault."""
    return bool(pod.spec and pod.spec.scheduling_gates) and node_name(pod) is None


def spec_tpu_chips(spec: PodSpec | None) -> int | None:
    """Chips that all containers of a pod ask for together; ``None`` when none asks."""
    total = 0
    for container in (spec.containers if spec else None) or ():
        if container.resources is None:
            continue
        for amounts in (container.resources.limits, container.resources.requests):
            asked = number((amounts or {}).get(TPU_RESOURCE))
            if asked is not None and 0 < asked < 1_000_000:
                total += int(asked)
                break
    return total or None


def pod_tpu_chips(pod: Pod) -> int | None:
    """Chips that the pod asks for; ``None`` when it asks for none."""
    return spec_tpu_chips(pod.spec)


def tpu_containers(pod: Pod) -> tuple[Container, ...]:
    """The containers of a pod that ask for TPUs (one pod may have several on v7x)."""
    found = []
    for container in (pod.spec.containers if pod.spec else None) or ():
        resources = container.resources
        amounts = {**((resources.requests if resources else None) or {})}
        amounts.update((resources.limits if resources else None) or {})
        asked = number(amounts.get(TPU_RESOURCE))
        if asked is not None and asked > 0:
            found.append(container)
    return tuple(found)


def env_of(pod: Pod) -> dict[str, str]:
    """Environment of the first TPU container (else of the first container): name → value."""
    containers = tpu_containers(pod) or (pod.spec.containers if pod.spec else None) or ()
    for container in containers[:1]:
        return {
            item.name: item.value
            for item in container.env or ()
            if item.name and item.value is not None
        }
    return {}


def worker_id(pod: Pod, env: dict[str, str] | None = None) -> int | None:
    """TPU worker id: the webhook's ``TPU_WORKER_ID``, else KubeRay's host index label."""
    values = (
        (env if env is not None else env_of(pod)).get("TPU_WORKER_ID"),
        labels_of(pod).get(HOST_INDEX_LABEL),
    )
    for text in values:
        if text is not None and text.strip().isdecimal() and len(text) < 8:
            return int(text)
    return None


def node_selector(spec: PodSpec | None) -> dict[str, str]:
    """The node selector without null values."""
    selector = spec.node_selector if spec else None
    return {key: value for key, value in (selector or {}).items() if value is not None}


def replica_key(pod: Pod, env: dict[str, str]) -> str | None:
    """What makes pods one slice: KubeRay's replica name, the webhook's label, or TPU_NAME."""
    labels = labels_of(pod)
    return (
        labels.get(REPLICA_NAME_LABEL)
        or labels.get(LEGACY_REPLICA_LABEL)
        or env.get("TPU_NAME")
        or None
    )


def slice_name(pod: Pod, env: dict[str, str]) -> str | None:
    """The slice's name as Ray would see it (``TPU_NAME``), else as the labels suggest it."""
    labels = labels_of(pod)
    if env.get("TPU_NAME"):
        return env["TPU_NAME"]
    if labels.get(LEGACY_REPLICA_LABEL):
        return labels[LEGACY_REPLICA_LABEL]
    group, index = labels.get(GROUP_LABEL), labels.get(REPLICA_INDEX_LABEL)
    if group and index:
        return f"{group}-{index}"
    return labels.get(REPLICA_NAME_LABEL)


def condition(conditions: tuple[Condition, ...] | None, kind: str) -> Condition | None:
    """The condition of one type, if there is one."""
    return next((item for item in conditions or () if item.type == kind), None)


def pod_ready(pod: Pod) -> bool | None:
    """``None`` when the pod does not say."""
    found = condition(pod.status.conditions if pod.status else None, "Ready")
    return None if found is None else found.status == "True"


def not_ready_since(pod: Pod) -> float | None:
    """When the pod stopped being Ready (epoch seconds), if it is not."""
    found = condition(pod.status.conditions if pod.status else None, "Ready")
    return parse_time(found.last_transition_time) if found and found.status != "True" else None


def node_ready(node: Node) -> bool | None:
    """Whether the node is Ready; ``None`` when it does not say."""
    found = condition(node.status.conditions if node.status else None, "Ready")
    return None if found is None else found.status == "True"


def node_chips(node: Node) -> int | None:
    """Chips a node has by its label, else by what it can allocate."""
    label = number(labels_of(node).get(CHIPS_PER_NODE_LABEL))
    if label is not None and 0 < label <= 64:
        return int(label)
    offered = number(((node.status.capacity if node.status else None) or {}).get(TPU_RESOURCE))
    return int(offered) if offered is not None and 0 < offered <= 64 else None


def event_time(event: Event) -> float | None:
    """When an event last happened; new-style events fill ``eventTime`` or the series instead."""
    series = event.series.last_observed_time if event.series else None
    for text in (event.last_timestamp, series, event.event_time, event.first_timestamp):
        moment = parse_time(text)
        if moment is not None:
            return moment
    return parse_time(event.metadata.creation_timestamp) if event.metadata else None


def _container_trouble(pod: Pod) -> tuple[HostProblem, str] | None:
    status = pod.status
    statuses = (*((status.init_container_statuses if status else None) or ()),)
    statuses += tuple((status.container_statuses if status else None) or ())
    for item in statuses:
        if item.ready:
            continue
        state = item.state
        name = item.name or "container"
        waiting = state.waiting if state else None
        ended = state.terminated if state else None
        last = item.last_state.terminated if item.last_state else None
        if waiting and waiting.reason == "CrashLoopBackOff":
            told = f" ({last.reason}, exit code {last.exit_code})" if last else ""
            return (
                "PodCrashLooping",
                f"container {name} is in CrashLoopBackOff after "
                f"{item.restart_count or 0} restarts{told}",
            )
        if waiting and waiting.reason in IMAGE_TROUBLES:
            told = f": {waiting.message}" if waiting.message else ""
            return "PodNotReady", f"container {name} waits: {waiting.reason}{told}"
        if ended and ended.exit_code not in (None, 0):
            if (item.restart_count or 0) >= 3:
                return (
                    "PodCrashLooping",
                    f"container {name} ended again ({ended.reason}, exit code {ended.exit_code}) "
                    f"after {item.restart_count} restarts",
                )
            return (
                "PodNotReady",
                f"container {name} ended: {ended.reason}, exit code {ended.exit_code}",
            )
    return None


def _node_trouble(
    pod: Pod, *, node: Node | None, nodes_known: bool
) -> tuple[HostProblem, str] | None:
    bound = node_name(pod)
    if bound is None:
        return None
    if node is None:
        if nodes_known:
            return "NodeGone", f"its node {bound} does not exist any more"
        return None
    if node_ready(node) is not False:
        return None
    found = condition(node.status.conditions if node.status else None, "Ready")
    words = (found.reason or found.message or "") if found else ""
    return "NodeNotReady", f"node {bound} is not ready{': ' + words if words else ''}"


def pod_problem(
    pod: Pod,
    *,
    node: Node | None,
    nodes_known: bool,
    scale_up_failed: str | None,
) -> tuple[HostProblem, str] | None:
    """Why a pod cannot be a working host by Kubernetes' word alone; ``None`` when nothing is wrong.

    Args:
        pod: a pod that is not finished.
        node: the Node it is bound to, where it is known.
        nodes_known: the list of nodes is complete, so a node that is not in it is gone.
        scale_up_failed: the autoscaler's words, where it said that it could not add a node for it.

    Returns:
        The problem's name (a cause of ``SliceIncomplete``) and a sentence of detail.
    """
    current = phase(pod)
    status = pod.status
    # A node that goes takes its pod along: Kubernetes then marks the pod for deletion or failed.
    if current != "Succeeded":
        below = _node_trouble(pod, node=node, nodes_known=nodes_known)
        if below is not None:
            return below
    if terminating(pod):
        return "PodMissing", "the pod is being deleted and has no successor yet"
    if current == "Failed":
        said = " ".join(
            text
            for text in ((status.reason if status else ""), (status.message if status else ""))
            if text
        )
        return "PodFailed", f"the pod failed{': ' + said if said else ''}"
    if current == "Succeeded":
        return "PodFailed", "the pod's containers ended (phase Succeeded)"
    bound = node_name(pod)
    if bound is None:
        if gated(pod):
            gates = (
                ", ".join(gate.name or "?" for gate in (pod.spec.scheduling_gates or ()))
                if pod.spec
                else ""
            )
            return "PodUnschedulable", f"held back by scheduling gate {gates}"
        scheduled = condition(status.conditions if status else None, "PodScheduled")
        words = (scheduled.message if scheduled else None) or "not bound to a node yet"
        if scale_up_failed:
            return "ScaleUpFailed", scale_up_failed
        return "PodUnschedulable", words
    if current == "Unknown" and status is not None and status.phase == "Unknown":
        return "PodNotReady", f"the pod's phase is Unknown: node {bound} does not report"
    trouble = _container_trouble(pod)
    if trouble is not None:
        return trouble
    if pod_ready(pod) is False or current == "Pending":
        waiting = [
            f"{item.name}: {item.state.waiting.reason}"
            for item in (status.container_statuses if status else None) or ()
            if item.state and item.state.waiting and item.state.waiting.reason
        ]
        told = f" ({', '.join(waiting)})" if waiting else ""
        return "PodNotReady", f"the pod is {current} and not Ready{told}"
    return None
