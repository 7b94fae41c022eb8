"""What the sources said, field by field, before anybody asks what it means.

The structs mirror the APIs' own JSON and hold only the fields that some rule or page reads.
Every field may be missing or null in the wild, so every field has a default; a part that a
source did not answer at all is ``None``, which is not the same as an empty tuple.
All structs are frozen: an observation never changes once it was made.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Number = int | float | str | None
"""Ray writes some numbers as strings (``"4742"``); read with :func:`fleet.times.number`."""


class _Camel(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Kubernetes objects: camelCase on the wire."""


class _Snake(msgspec.Struct, frozen=True, gc=False):
    """Ray's state API: snake_case on the wire."""


# --- Kubernetes -----------------------------------------------------------------------------


class OwnerReference(_Camel, kw_only=True):
    kind: str | None = None
    name: str | None = None


class ObjectMeta(_Camel, kw_only=True):
    """``metadata``; annotations and managed fields are left out on purpose (nothing reads them)."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class EnvVar(_Camel, kw_only=True):
    name: str | None = None
    value: str | None = None


class Resources(_Camel, kw_only=True):
    limits: dict[str, str | int | float | None] | None = None
    requests: dict[str, str | int | float | None] | None = None


class Container(_Camel, kw_only=True):
    name: str | None = None
    image: str | None = None
    env: tuple[EnvVar, ...] | None = None
    resources: Resources | None = None


class LabelSelectorRequirement(_Camel, kw_only=True):
    key: str | None = None
    operator: str | None = None
    values: tuple[str | None, ...] | None = None


class LabelSelector(_Camel, kw_only=True):
    match_labels: dict[str, str | None] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class AffinityTerm(_Camel, kw_only=True):
    label_selector: LabelSelector | None = None
    topology_key: str | None = None


class PodAffinity(_Camel, kw_only=True):
    required_during_scheduling_ignored_during_execution: tuple[AffinityTerm, ...] | None = None


class Affinity(_Camel, kw_only=True):
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SchedulingGate(_Camel, kw_only=True):
    name: str | None = None


class PodSpec(_Camel, kw_only=True):
    node_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    node_selector: dict[str, str | None] | None = None
    restart_policy: str | None = None
    containers: tuple[Container, ...] | None = None
    affinity: Affinity | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None


class Condition(_Camel, kw_only=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerStateWaiting(_Camel, kw_only=True):
    reason: str | None = None
    message: str | None = None


class ContainerStateRunning(_Camel, kw_only=True):
    started_at: str | None = None


class ContainerStateTerminated(_Camel, kw_only=True):
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    finished_at: str | None = None


class ContainerState(_Camel, kw_only=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(_Camel, kw_only=True):
    name: str | None = None
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatus(_Camel, kw_only=True):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    pod_i_p: str | None = msgspec.field(default=None, name="podIP")
    host_i_p: str | None = msgspec.field(default=None, name="hostIP")
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(_Camel, kw_only=True):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(_Camel, kw_only=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: str | None = None


class NodeSpec(_Camel, kw_only=True):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class NodeStatus(_Camel, kw_only=True):
    capacity: dict[str, str | int | float | None] | None = None
    allocatable: dict[str, str | int | float | None] | None = None
    conditions: tuple[Condition, ...] | None = None


class Node(_Camel, kw_only=True):
    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ServicePort(_Camel, kw_only=True):
    name: str | None = None
    port: int | None = None


class ServiceSpec(_Camel, kw_only=True):
    cluster_i_p: str | None = msgspec.field(default=None, name="clusterIP")
    selector: dict[str, str | None] | None = None
    ports: tuple[ServicePort, ...] | None = None


class Service(_Camel, kw_only=True):
    metadata: ObjectMeta | None = None
    spec: ServiceSpec | None = None


class ObjectReference(_Camel, kw_only=True):
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class EventSeries(_Camel, kw_only=True):
    count: int | None = None
    last_observed_time: str | None = None


class Event(_Camel, kw_only=True):
    """A core/v1 event. ``eventTime`` and ``series`` are what new-style reporters fill instead."""

    metadata: ObjectMeta | None = None
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    involved_object: ObjectReference | None = None


class PodTemplate(_Camel, kw_only=True):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class ScaleStrategy(_Camel, kw_only=True):
    workers_to_delete: tuple[str | None, ...] | None = None


class WorkerGroupSpec(_Camel, kw_only=True):
    group_name: str | None = None
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    suspend: bool | None = None
    scale_strategy: ScaleStrategy | None = None
    template: PodTemplate | None = None


class RayClusterSpec(_Camel, kw_only=True):
    ray_version: str | None = None
    enable_in_tree_autoscaling: bool | None = None
    suspend: bool | None = None
    worker_group_specs: tuple[WorkerGroupSpec, ...] | None = None


class RayClusterHead(_Camel, kw_only=True):
    service_name: str | None = None
    service_i_p: str | None = msgspec.field(default=None, name="serviceIP")
    pod_name: str | None = None
    pod_i_p: str | None = msgspec.field(default=None, name="podIP")


class RayClusterStatus(_Camel, kw_only=True):
    state: str | None = None
    reason: str | None = None
    head: RayClusterHead | None = None
    conditions: tuple[Condition, ...] | None = None


class RayCluster(_Camel, kw_only=True):
    metadata: ObjectMeta | None = None
    spec: RayClusterSpec | None = None
    status: RayClusterStatus | None = None


class SliceSpec(_Camel, kw_only=True):
    type: str | None = None
    topology: str | None = None
    partition_ids: tuple[str | None, ...] | None = None


class SliceStatus(_Camel, kw_only=True):
    conditions: tuple[Condition, ...] | None = None


class SliceObject(_Camel, kw_only=True):
    """``accelerator.gke.io/v1beta1`` Slice (dynamic slicing on TPU7x)."""

    metadata: ObjectMeta | None = None
    spec: SliceSpec | None = None
    status: SliceStatus | None = None


# --- Ray state API --------------------------------------------------------------------------


class RayNode(_Snake, kw_only=True):
    node_id: str | None = None
    node_ip: str | None = None
    is_head_node: bool | None = None
    state: str | None = None
    state_message: str | None = None
    node_name: str | None = None
    instance_id: str | None = None
    resources_total: dict[str, Number] | None = None
    labels: dict[str, str | None] | None = None
    start_time_ms: Number = None
    end_time_ms: Number = None


class BundleId(_Snake, kw_only=True):
    placement_group_id: str | None = None
    bundle_index: Number = None


class RayBundle(_Snake, kw_only=True):
    bundle_id: BundleId | None = None
    unit_resources: dict[str, Number] | None = None
    node_id: str | None = None
    label_selector: dict[str, str | None] | None = None


class PlacementGroupStats(_Snake, kw_only=True):
    creation_request_received_ns: Number = None
    scheduling_started_time_ns: Number = None
    scheduling_latency_us: Number = None
    end_to_end_creation_latency_us: Number = None
    scheduling_attempt: Number = None
    scheduling_state: str | None = None
    highest_retry_delay_ms: Number = None


class RayPlacementGroup(_Snake, kw_only=True):
    placement_group_id: str | None = None
    name: str | None = None
    creator_job_id: str | None = None
    state: str | None = None
    is_detached: bool | None = None
    stats: PlacementGroupStats | None = None
    bundles: tuple[RayBundle, ...] | None = None


class RayActor(_Snake, kw_only=True):
    """``death_cause`` maps one context name (``actor_died_error_context``) to its fields."""

    actor_id: str | None = None
    class_name: str | None = None
    state: str | None = None
    job_id: str | None = None
    name: str | None = None
    node_id: str | None = None
    pid: Number = None
    placement_group_id: str | None = None
    required_resources: dict[str, Number] | None = None
    is_detached: bool | None = None
    num_restarts: Number = None
    death_cause: dict[str, dict[str, object] | None] | None = None


class RayTaskEvent(_Snake, kw_only=True):
    state: str | None = None
    created_ms: Number = None


class RayTask(_Snake, kw_only=True):
    task_id: str | None = None
    attempt_number: Number = None
    name: str | None = None
    state: str | None = None
    job_id: str | None = None
    actor_id: str | None = None
    type: str | None = None
    node_id: str | None = None
    worker_pid: Number = None
    error_type: str | None = None
    error_message: str | None = None
    placement_group_id: str | None = None
    required_resources: dict[str, Number] | None = None
    creation_time_ms: Number = None
    start_time_ms: Number = None
    end_time_ms: Number = None
    events: tuple[RayTaskEvent, ...] | None = None


class RayJob(_Snake, kw_only=True):
    job_id: str | None = None
    submission_id: str | None = None
    type: str | None = None
    status: str | None = None
    entrypoint: str | None = None
    message: str | None = None
    start_time: Number = None
    end_time: Number = None


class TpuSample(_Snake, kw_only=True):
    """One chip's gauge of one host.

    ``metric`` is one of ``duty_cycle`` and ``tensorcore_utilization`` (percent, 0 to 100),
    ``memory_bandwidth_utilization`` (percent), ``memory_used`` and ``memory_total`` (bytes).
    ``ray_node_id`` or ``node_ip`` or ``pod`` names the host, whichever the source gave.
    """

    metric: str
    value: float
    chip: str = ""
    ray_node_id: str | None = None
    node_ip: str | None = None
    pod: str | None = None
    namespace: str | None = None


# --- sources --------------------------------------------------------------------------------

SourceState = Literal["ok", "degraded", "down", "suspended"]


class Truncation(_Snake, kw_only=True):
    """Where rows were lost: ``total`` rows exist, ``rows`` arrived. ``total`` -1 = unknown."""

    part: str
    total: int
    rows: int


class SourceStatus(_Snake, kw_only=True):
    """How one source answered.

    ``detail`` is a sentence for people; ``reason`` one word for rules and metrics:
    ``refused``, ``timed_out``, ``unreachable``, ``unauthorized``, ``forbidden``, ``not_found``,
    ``rate_limited``, ``server_error``, ``not_json``, ``malformed``, ``truncated``, ``too_large``,
    ``missing``, ``unsupported_version``. ``fetched_at`` is the time (epoch seconds) of the last
    good answer. ``missing`` names the parts (``pods``, ``placement_groups``, …) that were not
    answered; ``truncated`` those of which rows are missing; ``malformed`` counts rows of which
    some field could not be read.
    """

    name: str
    status: SourceState
    detail: str = ""
    reason: str | None = None
    fetched_at: float | None = None
    complete: bool = True
    missing: tuple[str, ...] = ()
    truncated: tuple[Truncation, ...] = ()
    malformed: tuple[str, ...] = ()
    poll_interval_seconds: float = 10.0


class KubernetesObservation(_Snake, kw_only=True):
    """Each part is ``None`` when the API did not answer it (down, forbidden, not in the bundle)."""

    source: SourceStatus
    context: str | None = None
    pods: tuple[Pod, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    services: tuple[Service, ...] | None = None
    events: tuple[Event, ...] | None = None
    ray_clusters: tuple[RayCluster, ...] | None = None
    slices: tuple[SliceObject, ...] | None = None


class RayObservation(_Snake, kw_only=True):
    """One Ray cluster. Outside Kubernetes the namespace is ``-`` and the cluster ``default``."""

    source: SourceStatus
    namespace: str
    cluster: str
    address: str | None = None
    version: str | None = None
    nodes: tuple[RayNode, ...] | None = None
    placement_groups: tuple[RayPlacementGroup, ...] | None = None
    actors: tuple[RayActor, ...] | None = None
    tasks: tuple[RayTask, ...] | None = None
    jobs: tuple[RayJob, ...] | None = None
    cluster_status: str | None = None
    tpu_samples: tuple[TpuSample, ...] | None = None


class Observation(_Snake, kw_only=True):
    """One look at everything. ``now`` is epoch seconds, the only clock that later rooms know.

    ``kubernetes`` is ``None`` where no Kubernetes is in play (a bare Ray cluster), which is
    complete; a Kubernetes that should be there and does not answer is an observation whose
    source is down.
    """

    now: float
    kubernetes: KubernetesObservation | None = None
    ray: tuple[RayObservation, ...] = ()
