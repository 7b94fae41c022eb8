"""A fleet indexed for rules: every lookup a rule needs costs the same at 4 and at 10,000 hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from diagnosis.memory import Attempts, Mark, Memory, Seat
from diagnosis.thresholds import Thresholds
from fleet.joining import SLICE_NAME_LABEL
from fleet.model import (
    ClusterView,
    Fleet,
    Host,
    PlacementGroup,
    Slice,
    StrayRayNode,
    TpuUse,
    WorkerGroup,
)
from fleet.observation import Event, Pod
from fleet.pods import CLUSTER_LABEL, labels_of, pod_name, pod_namespace, tpu_containers
from fleet.times import number

KUBERNETES = "kubernetes"
"""The name of Kubernetes' source, in evidence and in ``sources``."""


class View:
    """One look, indexed; plus what earlier looks left behind and what this one will leave.

    Not frozen: rules note marks and attempts in it while they judge. It lives for one look.
    """

    def __init__(self, fleet: Fleet, thresholds: Thresholds, memory: Memory | None) -> None:
        """Index ``fleet``; ``memory`` is ``None`` for a single look."""
        self.fleet = fleet
        self.now = fleet.now
        self.thresholds = thresholds
        self.memory = memory
        self._env: dict[int, dict[str, str | None]] = {}
        self.marks: dict[str, Mark] = {}
        self.seats: dict[str, Seat] = seats_of(self)
        self.held_off: dict[str, str] = {}
        """Clusters whose Ray side cannot be judged right now (head restart), with the reason."""
        self.slices: dict[str, Slice] = {item.id: item for item in fleet.slices}
        self.groups: dict[str, PlacementGroup] = {item.key: item for item in fleet.placement_groups}
        self.clusters: dict[str, ClusterView] = {item.id: item for item in fleet.clusters}
        self.worker_groups: dict[str, WorkerGroup] = {item.id: item for item in fleet.worker_groups}
        self._slices_of: dict[str, list[Slice]] = defaultdict(list)
        self._groups_of: dict[str, list[PlacementGroup]] = defaultdict(list)
        self._worker_groups_of: dict[str, list[WorkerGroup]] = defaultdict(list)
        self._by_name: dict[tuple[str, str], list[Slice]] = defaultdict(list)
        self._waiting_for: dict[str, list[PlacementGroup]] = defaultdict(list)
        self._slices_of_worker_group: dict[str, list[Slice]] = defaultdict(list)
        self._stray_pods: dict[str, list[Pod]] = defaultdict(list)
        self._stray_nodes: dict[str, list[StrayRayNode]] = defaultdict(list)
        for item in fleet.slices:
            cluster = cluster_id(item)
            self._slices_of[cluster].append(item)
            for name in slice_names(item):
                self._by_name[cluster, name].append(item)
            if item.group:
                self._slices_of_worker_group[f"{cluster}/{item.group}"].append(item)
        for group in fleet.placement_groups:
            cluster = cluster_id(group)
            self._groups_of[cluster].append(group)
            if group.waiting:
                for wanted in group.wanted_slices:
                    for named in self._by_name.get((cluster, wanted), ()):
                        self._waiting_for[named.id].append(group)
        for worker_group in fleet.worker_groups:
            self._worker_groups_of[cluster_id(worker_group)].append(worker_group)
        for pod in fleet.stray_pods:
            name = labels_of(pod).get(CLUSTER_LABEL, "")
            self._stray_pods[f"{pod_namespace(pod)}/{name}"].append(pod)
        for stray in fleet.stray_ray_nodes:
            self._stray_nodes[f"{stray.namespace}/{stray.cluster}"].append(stray)

    def slices_of(self, cluster: ClusterView) -> Sequence[Slice]:
        return self._slices_of.get(cluster.id, ())

    def groups_of(self, cluster: ClusterView) -> Sequence[PlacementGroup]:
        return self._groups_of.get(cluster.id, ())

    def worker_groups_of(self, cluster: ClusterView) -> Sequence[WorkerGroup]:
        return self._worker_groups_of.get(cluster.id, ())

    def stray_pods_of(self, cluster: ClusterView) -> Sequence[Pod]:
        return self._stray_pods.get(cluster.id, ())

    def stray_nodes_of(self, cluster: ClusterView) -> Sequence[StrayRayNode]:
        return self._stray_nodes.get(cluster.id, ())

    def phantoms_of(self, cluster: ClusterView) -> Sequence[StrayRayNode]:
        """Ray nodes that count TPUs in a pod that asks for none."""
        return [item for item in self.stray_nodes_of(cluster) if item.pod is not None]

    def slices_named(self, cluster: ClusterView, name: str) -> Sequence[Slice]:
        """Slices that answer to a name (several where single hosts share one)."""
        return self._by_name.get((cluster.id, name), ())

    def slices_of_worker_group(self, group: WorkerGroup) -> Sequence[Slice]:
        return self._slices_of_worker_group.get(group.id, ())

    def waiting_for(self, item: Slice) -> Sequence[PlacementGroup]:
        """Groups that wait and name this slice in a selector."""
        return self._waiting_for.get(item.id, ())

    def holders_of(self, item: Slice) -> list[PlacementGroup]:
        """Groups with chips on this slice."""
        return [group for key in item.held_by if (group := self.groups.get(key)) is not None]

    def events(self, kind: str, namespace: str, name: str) -> tuple[Event, ...]:
        return self.fleet.events_by_object.get((kind, namespace, name), ())

    def pod_events(self, pod: Pod) -> tuple[Event, ...]:
        return self.events("Pod", pod_namespace(pod), pod_name(pod))

    def use_of(self, host: Host, item: Slice) -> TpuUse | None:
        """What this host's chips did when last sampled."""
        if host.ray_node_id is None:
            return None
        return self.fleet.tpu_use.get(f"{cluster_id(item)}/{host.ray_node_id}")

    def env(self, pod: Pod) -> dict[str, str | None]:
        """Variables of a pod's first TPU container; ``None`` where a value comes from elsewhere."""
        known = self._env.get(id(pod))
        if known is None:
            known = {
                item.name: item.value
                for container in tpu_containers(pod)[:1]
                for item in container.env or ()
                if item.name
            }
            self._env[id(pod)] = known
        return known

    def mark(self, *parts: str, first: float | None = None) -> Mark | None:
        """Note that a condition holds in this look, and since when it has without a break.

        ``parts``: the rule's code, the cluster's id, then what tells the conditions apart.
        ``first``: what the APIs say of its start, used in the very first look, which has no past.
        ``None`` for a single look, which knows no "since".
        """
        if self.memory is None:
            return None
        key = "|".join(parts)
        before = self.memory.marks.get(key)
        mark = (
            Mark(since=before.since, looks=before.looks + 1)
            if before is not None
            else Mark(since=first if first is not None and not self.memory.looks else self.now)
        )
        self.marks[key] = mark
        return mark

    def attempts_before(self, group: PlacementGroup) -> Attempts | None:
        """The attempts that an earlier look counted for this group."""
        return self.memory.attempts.get(group.key) if self.memory is not None else None


def seats_of(view: View) -> dict[str, Seat]:
    """Who sits where in this look; places that nobody fills right now keep their last pod."""
    before = view.memory.seats if view.memory is not None else {}
    horizon = view.now - 2 * view.thresholds.replica_drift_grace
    after: dict[str, Seat] = {}
    for item in view.fleet.slices:
        for host in item.hosts:
            if host.worker_id is None:
                continue
            key = f"{item.id}|{host.worker_id}"
            old = before.get(key)
            if host.pod_name is None:
                if old is not None:
                    after[key] = old
                continue
            changes = tuple(at for at in (old.changes if old else ()) if at > horizon)
            if old is not None and old.pod != host.pod_name:
                changes = (*changes, view.now)[-16:]
            after[key] = Seat(pod=host.pod_name, changes=changes)
    for key, old in before.items():
        # A slice between two lives has no hosts at all; its next pods are the same story.
        if key not in after and any(at > horizon for at in old.changes):
            after[key] = old
    return after


def cluster_id(item: Slice | PlacementGroup | WorkerGroup) -> str:
    """``<namespace>/<ray cluster>`` of what belongs to one."""
    return f"{item.namespace}/{item.cluster}"


def slice_names(item: Slice) -> frozenset[str]:
    """Every name under which a selector can ask for this slice."""
    names = {item.name, item.name.partition("/")[0]}
    for host in item.hosts:
        label = ((host.ray_node.labels if host.ray_node else None) or {}).get(SLICE_NAME_LABEL)
        if label:
            names.add(label)
    return frozenset(names)


def host_name(host: Host) -> str:
    """``worker 2``, or whatever it is called where its worker id is not known."""
    if host.worker_id is not None:
        return f"worker {host.worker_id}"
    return f"host {host.pod_name or host.key[:24]}"


def ray_tpus(host: Host) -> float:
    """TPUs that Ray counts on a host (logical devices where a chip counts as several), else its
    chips."""
    resources = (host.ray_node.resources_total if host.ray_node else None) or {}
    return number(resources.get("TPU")) or float(host.chips or 0)


def capacity(item: Slice) -> float | None:
    """TPUs of the whole slice in Ray's units; ``None`` when its shape is not known."""
    if item.chips_expected is None or not item.hosts_expected:
        return None
    counted = max((ray_tpus(host) for host in item.hosts), default=0.0)
    return item.hosts_expected * max(counted, item.chips_expected / item.hosts_expected)


def multi_host(item: Slice) -> bool:
    """Whether hosts of this slice are joined by ICI; a single host has no partner."""
    return (item.hosts_expected or 0) > 1


def shorten(text: str, limit: int = 240) -> str:
    """One line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def names_of(labels: Iterable[str], limit: int = 3, *, total: int | None = None) -> str:
    """``a, b and c``; ``a, b, c and 4 more`` (of ``total`` where fewer are given)."""
    items = list(labels)
    shown = items[:limit]
    count = max(total or 0, len(items))
    if count > limit:
        return f"{', '.join(shown)} and {count - limit} more"
    if len(shown) > 1:
        return f"{', '.join(shown[:-1])} and {shown[-1]}"
    return shown[0] if shown else "none"
