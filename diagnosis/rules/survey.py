"""What a Ray cluster has to offer, and what several reasons to wait have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from diagnosis.finding import Evidence
from diagnosis.rules.base import (
    ray_evidence,
)
from diagnosis.rules.scheduler import leak_of, same_pod_type
from diagnosis.view import View, cluster_id, ray_tpus
from fleet.groups import HEAD_RESOURCE
from fleet.joining import SLICE_NAME_LABEL
from fleet.model import ClusterView, PlacementGroup, Slice
from fleet.times import number

MANY = 16
"""Slices that one finding names at most; a fleet has thousands."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a group waits. ``cause`` is ``None`` where no cause of the contract fits."""

    cause: str | None
    text: str
    evidence: tuple[Evidence, ...] = ()
    slices: tuple[str, ...] = ()
    worker_groups: tuple[str, ...] = ()
    blockers: tuple[PlacementGroup, ...] = ()


class Survey:
    """What one Ray cluster has to offer, counted once however many groups wait."""

    def __init__(self, view: View, cluster: ClusterView) -> None:
        """Walk over the cluster's hosts and groups once."""
        self.view = view
        self.cluster = cluster
        self.slices = view.slices_of(cluster)
        strays = [
            number((stray.node.resources_total or {}).get("TPU")) or 0.0
            for stray in view.stray_nodes_of(cluster)
        ]
        offers = [ray_tpus(host) for item in self.slices for host in item.hosts]
        made = [float(item.chips_per_pod or 0) for item in view.worker_groups_of(cluster)]
        self.largest = max((*offers, *strays, *made), default=0.0)
        self.stray_tpus = sum(strays)
        self.heads = {
            name
            for item in self.slices
            for host in item.hosts
            if host.offers_head and host.ray_node is not None
            for name in host.ray_node.resources_total or {}
            if HEAD_RESOURCE.match(name)
        }
        self.resources = {
            name
            for node in cluster.nodes_by_id.values()
            if node.state == "ALIVE"
            for name in node.resources_total or {}
        }
        self.slice_labels = {
            label
            for node in cluster.nodes_by_id.values()
            for label in ((node.labels or {}).get(SLICE_NAME_LABEL),)
            if label
        }
        self.holders = [
            other for other in view.groups_of(cluster) if other.chips > 0 and other.slices
        ]
        self.held = sum(
            bundle.chips
            for other in view.groups_of(cluster)
            for bundle in other.bundles
            if bundle.host_key is not None
        ) + sum(
            worker.chips
            for item in self.slices
            for worker in item.workers
            if worker.group_id is None and worker.alive
        )
        self._of_shape: dict[str | None, list[Slice]] = {}
        self._on_its_way: dict[frozenset[str], bool] = {}
        self._tpus: dict[frozenset[str], float] = {}
        self._leaks: dict[str, list[PlacementGroup]] = {}
        self.verdicts: dict[tuple[str | None, str | None], Reason | None] = {}

    def of_shape(self, wanted: str | None) -> list[Slice]:
        """Slices of a pod type, whatever its spelling."""
        if wanted not in self._of_shape:
            self._of_shape[wanted] = [
                item for item in self.slices if same_pod_type(item.pod_type, wanted)
            ]
        return self._of_shape[wanted]

    def of_topologies(self, topologies: frozenset[str]) -> Sequence[Slice]:
        """Slices of some topologies; all where none is named."""
        if not topologies:
            return self.slices
        return [item for item in self.slices if item.topology_name in topologies]

    def coming(self, topologies: frozenset[str]) -> bool:
        """Whether a slice of one of these topologies is on its way."""
        if topologies not in self._on_its_way:
            self._on_its_way[topologies] = coming(self.of_topologies(topologies))
        return self._on_its_way[topologies]

    def tpus(self, topologies: frozenset[str]) -> float:
        """TPUs of all ready hosts of these topologies."""
        if topologies not in self._tpus:
            total = sum(
                ray_tpus(host)
                for item in self.of_topologies(topologies)
                for host in item.hosts
                if host.state == "ready"
            )
            self._tpus[topologies] = total + (0.0 if topologies else self.stray_tpus)
        return self._tpus[topologies]

    def leaks(self, item: Slice) -> list[PlacementGroup]:
        """Leaked reservations of a slice's head."""
        if item.id not in self._leaks:
            self._leaks[item.id] = leak_of(self.view, item)
        return self._leaks[item.id]


def coming(slices: Sequence[Slice]) -> bool:
    """Whether one of these slices is on its way: young or held back on purpose, not refused."""
    return any(item.forming and not no_nodes(item) for item in slices)


def whole_enough(item: Slice) -> bool:
    """Whether as many hosts are live as the slice needs, as far as that is known."""
    return item.hosts_expected is None or item.hosts_alive >= item.hosts_expected


def no_nodes(item: Slice) -> bool:
    """Whether the cloud could not add nodes for it."""
    return any(host.problem == "ScaleUpFailed" for host in item.hosts)


def incomplete(cluster: ClusterView, broken: Sequence[Slice]) -> Reason:
    """The reason "that slice lacks hosts", or that it is gone altogether."""
    failed = any(no_nodes(item) for item in broken)
    gone = not failed and all(
        item.hosts_alive == 0 and not any(h.problem == "PodUnschedulable" for h in item.hosts)
        for item in broken
    )
    item = broken[0]
    if gone:
        return Reason(
            cause="SliceGone",
            text=f"it needs slice {item.name}, which has no live host",
            evidence=(ray_evidence(cluster, f"slice {item.name}", "live hosts", 0),),
            slices=tuple(one.id for one in broken),
        )
    cluster_key = cluster_id(item)
    return Reason(
        cause="ScaleUpFailed" if failed else "SliceIncomplete",
        text=(
            f"slice {item.name} has {item.hosts_alive} of {item.hosts_expected} hosts"
            + (", and the cloud could not add the rest" if failed else "")
        ),
        evidence=(
            ray_evidence(
                cluster,
                f"slice {item.name}",
                "live hosts",
                f"{item.hosts_alive} of {item.hosts_expected}",
            ),
        ),
        slices=tuple(one.id for one in broken),
        worker_groups=tuple(f"{cluster_key}/{one.group}" for one in broken if one.group),
    )


def unexplained(cluster: ClusterView, group: PlacementGroup) -> Reason:
    """No cause of the catalogue fits: say where to look."""
    wants: Counter[str] = Counter()
    for bundle in group.bundles:
        for name, amount in bundle.resources.items():
            wants[name] += 1 if amount else 0
    return Reason(
        cause=None,
        text="the TPUs that it asks for look free, so look at the other resources in its bundles "
        f"({', '.join(sorted(wants)) or 'none'}) and at its selectors",
        evidence=(
            ray_evidence(
                cluster,
                f"placement group {group.label}",
                "stats.scheduling_state",
                group.scheduling_state,
            ),
        ),
    )
