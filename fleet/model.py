"""What an observation means: slices, their hosts, placement groups and the gangs that run on them.

Everything is frozen. Times are epoch seconds (UTC), durations seconds. ``None`` means "not known",
never "zero" or "fine". Ids follow the contract: a slice is
``<namespace>/<ray cluster>/<slice name>``, with ``-/default/`` in front where Ray runs without
Kubernetes.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fleet.observation import (
    Event,
    Node,
    Pod,
    RayNode,
    Service,
    SliceObject,
    SourceStatus,
    WorkerGroupSpec,
)
from fleet.topology import Topology

HostState = Literal["ready", "not_ready", "missing"]
"""``ready``: can take part in the slice's work. ``not_ready``: something of it is there, but it
cannot work (the host's ``problem`` says why). ``missing``: the topology wants it, and nothing is
there."""

HostProblem = Literal[
    "PodUnschedulable",
    "PodCrashLooping",
    "PodFailed",
    "PodNotReady",
    "NodeNotReady",
    "NodeGone",
    "RayletDead",
    "RayNodeNeverJoined",
    "PodMissing",
    "ScaleUpFailed",
]

GroupRole = Literal["slice", "multislice", "subslice", "head", "other"]

SliceStatusName = Literal[
    "idle", "reserved", "running", "shared", "forming", "incomplete", "broken", "unknown"
]
SLICE_STATUSES: tuple[SliceStatusName, ...] = (
    "idle",
    "reserved",
    "running",
    "shared",
    "forming",
    "incomplete",
    "broken",
    "unknown",
)

Holding = Literal["free", "whole", "part", "several", "unknown"]
"""How a slice's chips are held: by nobody; by one group (or one gang without a group) as a whole;
by one holder in part; by several holders; or it cannot be seen."""

Layout = Literal["assumed", "measured"]


class _Model(msgspec.Struct, frozen=True, gc=False):
    pass


class Host(_Model, kw_only=True):
    """One host of a slice, live or missing.

    ``key`` names it within its slice (pod name, else Ray node id, else ``worker-<n>``).
    ``age_since`` is when the present host started (Ray node start, else pod start).
    ``was_there``: a host of this place existed before and is gone, so no start-up grace applies.
    ``gone_since``: when it died or stopped being ready, where something says so.
    ``chips``: what it offers (Ray's TPU count, else the pod's request, else the node's label).
    ``coordinates``: its place in the host grid (x, y, z).
    ``duplicate``: another live host of the slice claims the same worker id or hostname.
    """

    key: str
    worker_id: int | None = None
    state: HostState
    problem: HostProblem | None = None
    problem_detail: str = ""
    pod_name: str | None = None
    node_name: str | None = None
    node_pool: str | None = None
    ray_node_id: str | None = None
    chips: int | None = None
    coordinates: tuple[int, int, int] | None = None
    layout: Layout = "assumed"
    age_since: float | None = None
    was_there: bool = False
    gone_since: float | None = None
    duplicate: bool = False
    offers_head: bool = False
    group: str | None = None
    pod: Pod | None = None
    node: Node | None = None
    ray_node: RayNode | None = None


class Bundle(_Model, kw_only=True):
    """One bundle of a placement group. ``slice_id`` and ``host_key`` are set once it is placed on
    a live host of a slice; ``node_id`` is what Ray wrote, also when that node is dead by now;
    ``placed``: it lies on a live node."""

    index: int
    chips: float = 0.0
    head_resource: str | None = None
    resources: dict[str, float] = {}
    selector: dict[str, str] = {}
    node_id: str | None = None
    placed: bool = False
    slice_id: str | None = None
    host_key: str | None = None


class Worker(_Model, kw_only=True):
    """An actor, or a task outside an actor, that takes TPUs or sits in a TPU placement group."""

    kind: Literal["actor", "task"]
    id: str
    name: str = ""
    state: str = ""
    alive: bool = False
    dead: bool = False
    finished: bool = False
    node_id: str | None = None
    slice_id: str | None = None
    host_key: str | None = None
    group_id: str | None = None
    bundle_index: int | None = None
    chips: float = 0.0
    job_id: str | None = None
    pid: int | None = None
    since: float | None = None
    ended: float | None = None
    running_task: str | None = None
    death: str = ""
    on_purpose: bool = False
    failed_task: str | None = None
    """Of a living actor: its last task, which failed and was not tried again."""
    failure: str = ""
    failed_at: float | None = None


class PlacementGroup(_Model, kw_only=True):
    """A live placement group (REMOVED ones are left out: they hold nothing).

    ``id`` is Ray's; ``key`` is ``<namespace>/<ray cluster>/<id>`` and unique in the fleet.
    ``slices`` are the ids of slices on which bundles lie; ``wanted_slices`` the slice names that
    its selectors ask for (names, as one may not exist); ``wanted_pod_type`` for a head reservation.
    ``pending_seconds``: since the request, while PENDING, PREPARED or RESCHEDULING.
    ``workers``: its actors and tasks. ``unplaced``: bundles without a live node.
    """

    key: str
    id: str
    name: str = ""
    namespace: str
    cluster: str
    state: str = ""
    scheduling_state: str = ""
    attempts: int | None = None
    role: GroupRole = "other"
    bundles: tuple[Bundle, ...] = ()
    slices: tuple[str, ...] = ()
    wanted_slices: tuple[str, ...] = ()
    wanted_pod_type: str | None = None
    chips: float = 0.0
    requested_at: float | None = None
    created_at: float | None = None
    pending_seconds: float | None = None
    job_id: str | None = None
    detached: bool = False
    workers: tuple[Worker, ...] = ()

    @property
    def waiting(self) -> bool:
        return self.state in ("PENDING", "PREPARED", "RESCHEDULING")

    @property
    def unplaced(self) -> tuple[Bundle, ...]:
        return tuple(bundle for bundle in self.bundles if not bundle.placed)

    @property
    def label(self) -> str:
        """A name for people: the group's own, else the start of its id."""
        return self.name or f"{self.id[:12]}…"


class Slice(_Model, kw_only=True):
    """A TPU slice as both sides know it.

    ``hosts`` are ordered by worker id and padded with ``missing`` ones up to ``hosts_expected``.
    ``history`` are dead Ray nodes that carried this slice's name. ``seen_by`` holds ``ray``,
    ``kubernetes`` or both. ``first_seen`` is the oldest sign of the present hosts (epoch seconds);
    ``forming``: younger than the start-up grace, not whole, and no host was lost. ``gated``: pods
    are held back on purpose by scheduling gates. ``leaving``: every pod of it is being deleted.
    ``blind`` names what cannot be seen and makes the slice ``unknown`` (empty = all seen).
    ``held_by`` are keys of placement groups with chips here; ``head_held_by`` those with its head.
    ``workers`` are all live workers on its hosts, of groups or without.
    """

    id: str
    namespace: str
    cluster: str
    name: str
    generation: str | None = None
    topology_name: str | None = None
    topology: Topology | None = None
    pod_type: str | None = None
    hosts_expected: int | None = None
    chips_expected: int | None = None
    hosts: tuple[Host, ...] = ()
    history: tuple[RayNode, ...] = ()
    node_pools: tuple[str, ...] = ()
    group: str | None = None
    replica: str | None = None
    seen_by: tuple[str, ...] = ()
    first_seen: float | None = None
    forming: bool = False
    gated: bool = False
    leaving: bool = False
    blind: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    head_held_by: tuple[str, ...] = ()
    holding: Holding = "unknown"
    workers: tuple[Worker, ...] = ()
    slice_object: SliceObject | None = None

    @property
    def hosts_alive(self) -> int:
        return sum(host.state == "ready" for host in self.hosts)

    @property
    def whole(self) -> bool:
        """Every expected host is ready."""
        return (
            self.hosts_expected is not None
            and self.hosts_alive >= self.hosts_expected
            and all(host.state == "ready" for host in self.hosts)
        )


class WorkerGroup(_Model, kw_only=True):
    """A worker group of a RayCluster that asks for TPUs, with the pods that belong to it.

    ``hosts_by_topology``: chips of the topology over chips a pod asks for; ``None`` when either
    is unknown. ``id`` is ``<namespace>/<ray cluster>/<group>``.
    """

    id: str
    namespace: str
    cluster: str
    name: str
    spec: WorkerGroupSpec | None = None
    topology_name: str | None = None
    generation: str | None = None
    chips_per_pod: int | None = None
    hosts_by_topology: int | None = None
    pods: tuple[Pod, ...] = ()
    suspended: bool = False

    @property
    def multi_host(self) -> bool:
        declared = self.spec.num_of_hosts if self.spec else None
        return (declared or 0) > 1 or (self.hosts_by_topology or 0) > 1


class ClusterView(_Model, kw_only=True):
    """One Ray cluster: how each side sees it.

    ``heads_alive``: live head nodes (two for some seconds after a restart). ``head_since``: start
    of the youngest. ``ray_parts``: parts of Ray's API that were answered in full; rules that need
    another part are unknown. ``address``: the dashboard's, where it is known. ``has_kubernetes``
    is false for a bare Ray cluster.
    """

    namespace: str
    cluster: str
    source: SourceStatus
    address: str | None = None
    version: str | None = None
    suspended: bool = False
    has_kubernetes: bool = False
    heads_alive: int = 0
    head_since: float | None = None
    ray_parts: frozenset[str] = frozenset()
    conditions: tuple[tuple[str, str, str, str], ...] = ()
    attempts_total: int = 0
    nodes_by_id: dict[str, RayNode] = {}

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.cluster}"


class StrayRayNode(_Model, kw_only=True):
    """A live Ray node that counts TPUs but belongs to no slice that can be named."""

    namespace: str
    cluster: str
    node: RayNode
    pod: Pod | None = None


class TpuUse(_Model, kw_only=True):
    """What a host's chips did when last sampled, mean over its chips, ratio 0 to 1."""

    duty_cycle: float | None = None
    tensorcore_utilization: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None


class Fleet(_Model, kw_only=True):
    """Everything at one moment. ``kubernetes_parts`` as ``ClusterView.ray_parts``.

    ``events_by_object``: Kubernetes events by ``(kind, namespace, name)``, oldest first.
    ``tpu_use``: by Ray node id (``<namespace>/<cluster>/<node id>``). ``stray_pods``: TPU pods of
    a multi-host group that belong to no slice; ``stray_ray_nodes`` likewise. ``nodes``: by name.
    """

    now: float
    slices: tuple[Slice, ...] = ()
    placement_groups: tuple[PlacementGroup, ...] = ()
    worker_groups: tuple[WorkerGroup, ...] = ()
    clusters: tuple[ClusterView, ...] = ()
    sources: tuple[SourceStatus, ...] = ()
    kubernetes_parts: frozenset[str] = frozenset()
    has_kubernetes: bool = False
    context: str | None = None
    nodes: dict[str, Node] = {}
    services: tuple[Service, ...] = ()
    slice_objects: tuple[SliceObject, ...] = ()
    events_by_object: dict[tuple[str, str, str], tuple[Event, ...]] = {}
    stray_pods: tuple[Pod, ...] = ()
    stray_ray_nodes: tuple[StrayRayNode, ...] = ()
    tpu_use: dict[str, TpuUse] = {}
    job_status: dict[str, str] = {}

    def slice(self, slice_id: str) -> Slice | None:
        return next((item for item in self.slices if item.id == slice_id), None)

    def group(self, key: str) -> PlacementGroup | None:
        return next((item for item in self.placement_groups if item.key == key), None)
