"""Invented fleets: any number of hosts, slices and clusters, with faults, the same for a seed.

Build one, and take it as payloads (a bundle's files) or put it behind HTTP with
:mod:`simulator.fleet_server`::

    FleetBuilder(seed=1).cluster("ml", "train").slices("v6e", "4x4", count=2).gang(
        "train-a", "v6e-4x4-0"
    ).fault("raylet_dead", slice_name="v6e-4x4-0", worker=1).payloads()
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from simulator import fleet_faults, fleet_group_faults, fleet_rows
from simulator.fleet_kube import kubernetes_objects
from simulator.fleet_model import Cluster, Host, InventedFleet, Slice
from simulator.kube_objects import Marks, stamp
from simulator.shapes import Shape, shape

NOW = 1_796_032_800.0
"""2026-11-30T10:00:00Z, when invented fleets are looked at unless told otherwise."""

HOUR = 3600.0

SHAPES: tuple[tuple[str, str, int], ...] = (
    ("v6e", "4x4", 8),
    ("v6e", "8x8", 3),
    ("v6e", "16x16", 1),
    ("v6e", "2x2", 3),
    ("v5e", "4x8", 3),
    ("v5e", "2x4", 2),
    ("v5p", "2x2x2", 4),
    ("v5p", "4x4x4", 2),
    ("v4", "2x2x4", 2),
    ("v7x", "2x2x4", 3),
    ("v7x", "4x4x8", 1),
    ("v3", "4x4", 1),
    ("v2", "4x4", 1),
)
"""Generation, topology, weight: what large fleets are made of."""

CLUSTER_HOSTS = 200
"""Hosts a cluster of an invented fleet; a few Ray clusters of this size are usual."""


class FleetBuilder:
    """Builds a fleet step by step; ``slices``, ``gang`` and ``fault`` act on the last ``cluster``.

    ``now`` is when the fleet is looked at (epoch seconds). Everything else is older by its ``age``.
    """

    def __init__(self, seed: int = 1, now: float = NOW) -> None:
        self.fleet = InventedFleet(now, seed)
        self._random = random.Random(seed)
        self._current: Cluster | None = None
        self._hosts = 0

    def cluster(
        self,
        namespace: str = "ml",
        name: str = "train",
        *,
        marks: Marks = "indexed",
        age: float = 6 * HOUR,
        kubernetes: bool = True,
        suspended: bool = False,
        version: str = "2.60.0",
    ) -> Self:
        """Begin a Ray cluster; ``kubernetes=False``: one that Kubernetes knows nothing of."""
        self._current = Cluster(
            namespace,
            name,
            self.fleet.now - age,
            marks=marks,
            kubernetes=kubernetes,
            suspended=suspended,
            version=version,
        )
        self.fleet.clusters.append(self._current)
        return self

    def slices(
        self,
        generation: str,
        topology: str,
        count: int = 1,
        *,
        chips_per_host: int | None = None,
        group: str | None = None,
        age: float | None = None,
    ) -> Self:
        """Add slices of a shape as replicas of one worker group (``v6e-4x4`` unless named)."""
        cluster = self._cluster()
        found = shape(generation, topology, chips_per_host)
        group = group or f"{generation}-{topology}"
        first = sum(part.group == group for part in cluster.slices)
        started = self.fleet.now - age if age is not None else cluster.created + 300
        for replica in range(first, first + count):
            self._add(cluster, group, replica, found, started)
        return self

    def _add(self, cluster: Cluster, group: str, replica: int, found: Shape, start: float) -> None:
        part = Slice(cluster, group, replica, found)
        for index in range(found.hosts):
            jitter = self._random.random() * 20
            part.hosts.append(Host(part, index, self._hosts, start + jitter))
            self._hosts += 1
        cluster.slices.append(part)

    def gang(
        self,
        name: str,
        *slices: str,
        workers: bool = True,
        age: float = HOUR,
        multislice: bool | None = None,
    ) -> Self:
        """A gang on whole slices (the first free one unless named). Several make a multislice."""
        cluster = self._cluster()
        names = slices or (cluster.free_slices()[0].name,)
        parts = [cluster.slice(item) for item in names]
        if multislice or (multislice is None and len(parts) > 1):
            for number, part in enumerate(parts):
                part.megascale_slices, part.megascale_id = len(parts), number
        cluster.jobs.append(f"python {name}.py")
        group = fleet_group_faults.reserve(cluster, name, parts, self.fleet.now - age, run=workers)
        group.job = len(cluster.jobs)
        return self

    def fault(self, kind: str, *, age: float = 1200.0, **where: Any) -> Self:
        """Make a fault that happened ``age`` seconds ago; kinds: ``fleet_faults.FAULTS``."""
        now = self.fleet.now
        fleet_faults.apply(self._cluster(), kind, now - age, now, where)
        return self

    def truncated(self, limit: int = 100) -> Self:
        """Let the last cluster's nodes be asked with a limit that cuts them."""
        self.fleet.truncated[self._cluster().key] = limit
        return self

    def build(self) -> InventedFleet:
        """The fleet."""
        return self.fleet

    def payloads(self, *, metrics: bool = True) -> dict[str, bytes]:
        """The files of a bundle: relative path → bytes."""
        return payloads(self.fleet, metrics=metrics)

    def _cluster(self) -> Cluster:
        if self._current is None:
            self.cluster()
        assert self._current is not None
        return self._current

    # --- large fleets ----------------------------------------------------------------------

    def fill(self, hosts: int) -> Self:
        """Add clusters with ``hosts`` hosts in all: many shapes, most slices at work."""
        while hosts > 0:
            number = len(self.fleet.clusters)
            size = min(hosts, CLUSTER_HOSTS)
            self.cluster(f"team-{number % 7}", f"ray-{number}", age=HOUR * (2 + number % 90))
            self._fill_cluster(size)
            hosts -= size
        return self

    def _fill_cluster(self, hosts: int) -> None:
        cluster = self._cluster()
        while hosts > 0:
            fitting = [item for item in SHAPES if shape(item[0], item[1]).hosts <= hosts]
            generation, topology, _ = self._random.choices(
                fitting, weights=[weight for *_, weight in fitting]
            )[0]
            self.slices(generation, topology)
            hosts -= cluster.slices[-1].shape.hosts
        free = list(cluster.slices)
        number = 0
        while free:
            part = free.pop(0)
            luck = self._random.random()
            if luck < 0.3:
                continue  # idle
            same = [
                other for other in free if other.shape == part.shape and other.group == part.group
            ]
            names = [part.name]
            if luck > 0.9 and same:
                names.append(same[0].name)
                free.remove(same[0])
            number += 1
            # A reservation without workers is fresh: an old one would be a fault.
            runs = luck > 0.36
            self.gang(f"job-{number}", *names, workers=runs, age=HOUR if runs else 120.0)


def payloads(fleet: InventedFleet, *, metrics: bool = True, prefix: str = "") -> dict[str, bytes]:
    """The files of a bundle of one look at a fleet: relative path → bytes."""
    encode = msgspec.json.encode
    files = {"manifest.json": encode({"format": 1, "captured_at": stamp(fleet.now)})}
    if any(cluster.kubernetes for cluster in fleet.clusters):
        for kind, items in kubernetes_objects(fleet).items():
            if kind != "namespaces":
                whole = {"apiVersion": "v1", "kind": "List", "items": items}
                files[f"kubernetes/{kind}.json"] = encode(whole)
    for cluster in fleet.clusters:
        if cluster.suspended:
            continue
        for part, found in fleet_rows.rows(cluster).items():
            limit = fleet.truncated.get(cluster.key, 10_000) if part == "nodes" else 10_000
            files[f"{cluster.folder}/{part}.json"] = encode(fleet_rows.answer(found, limit))
        status = fleet_rows.cluster_status(cluster)
        files[f"{cluster.folder}/cluster_status.json"] = encode(status)
        if metrics and (text := fleet_rows.tpu_metrics(cluster)):
            files[f"{cluster.folder}/tpu_metrics.prom"] = text.encode()
    return {f"{prefix}{path}": body for path, body in files.items()}


def frames(fleets: Sequence[InventedFleet]) -> dict[str, bytes]:
    """The files of a bundle of several looks, oldest first."""
    files: dict[str, bytes] = {}
    for number, fleet in enumerate(fleets, 1):
        files |= payloads(fleet, prefix=f"frames/{number:04d}/")
    return files
