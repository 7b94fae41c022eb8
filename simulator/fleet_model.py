"""An invented fleet: hosts, slices, placement groups and workers, from which both APIs are written.

Plain mutable data. A fault changes the data; :mod:`simulator.fleet_rows` then writes what Ray's
state API would say of it, and :mod:`simulator.fleet_kube` what Kubernetes would.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from simulator.kube_objects import Marks
from simulator.kube_pods import PodState
from simulator.shapes import Shape

RayState = Literal["alive", "dead", "absent"]
NodeState = Literal["ready", "lost", "gone"]


@lru_cache(maxsize=1 << 18)
def hexid(*parts: object, length: int) -> str:
    """A Ray id: hex, always the same for the same thing."""
    text = "/".join(str(part) for part in parts).encode()
    return hashlib.blake2b(text, digest_size=32).hexdigest()[:length]


@dataclass
class Host:
    """A host of a slice. Times are epoch seconds.

    ``pod`` is ``None`` when there is no pod. ``worker_id``, ``tpus`` and ``pool`` override what the
    place in the slice says, for hosts that claim something wrong. ``marked``: the webhook saw it.
    ``history``: start and end of Ray nodes that were in this place before.
    """

    slice: Slice = field(repr=False)
    index: int
    number: int
    started: float
    pod: PodState | None = "running"
    ray: RayState = "alive"
    node: NodeState = "ready"
    since: float = 0.0
    attempt: int = 0
    restarts: int = 0
    worker_id: int | None = None
    tpus: float | None = None
    pool: str | None = None
    marked: bool = True
    scale_up_failed: bool = False
    died: float | None = None
    history: list[tuple[float, float]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.slice.name}-{self.index}"

    @property
    def well(self) -> bool:
        return self.pod == "running" and self.ray == "alive" and self.node == "ready"

    @property
    def claimed_id(self) -> int:
        return self.index if self.worker_id is None else self.worker_id

    @property
    def node_id(self) -> str:
        cluster = self.slice.cluster
        return hexid("node", cluster.key, self.key, self.attempt, length=56)

    @property
    def pod_ip(self) -> str:
        return _address(10, 8, self.number)

    @property
    def host_ip(self) -> str:
        return _address(10, 128, self.number)


def _address(first: int, second: int, number: int) -> str:
    number += 4
    return f"{first}.{second + number // 65536}.{number // 256 % 256}.{number % 256}"


@dataclass
class Slice:
    """A slice: a replica of a worker group."""

    cluster: Cluster = field(repr=False)
    group: str
    replica: int
    shape: Shape
    hosts: list[Host] = field(default_factory=list)
    megascale_slices: int | None = None
    megascale_id: int = 0

    @property
    def name(self) -> str:
        return f"{self.group}-{self.replica}"

    @property
    def id(self) -> str:
        return f"{self.cluster.key}/{self.name}"


@dataclass
class Bundle:
    """A bundle of a placement group; ``host`` is where it lies (``None``: nowhere)."""

    resources: dict[str, float]
    selector: dict[str, str] = field(default_factory=dict)
    host: Host | None = None
    node_id: str | None = None


@dataclass
class Worker:
    """An actor of a gang with its long-running task. ``bundle`` is an index."""

    bundle: int
    host: Host
    node_id: str
    state: str = "ALIVE"
    death: str = ""
    started: float = 0.0
    duty_cycle: float = 0.95

    @property
    def alive(self) -> bool:
        return self.state == "ALIVE"


@dataclass
class Group:
    """A placement group, with the workers in it. Times are epoch seconds."""

    cluster: Cluster = field(repr=False)
    name: str
    number: int
    bundles: list[Bundle]
    requested: float
    state: str = "CREATED"
    scheduling: str = "FINISHED"
    attempts: int = 1
    workers: list[Worker] = field(default_factory=list)
    job: int = 1

    @property
    def id(self) -> str:
        return hexid("group", self.cluster.key, self.number, length=28) + f"{self.job:02d}000000"

    @property
    def job_id(self) -> str:
        return f"{self.job:02d}000000"

    @property
    def is_head(self) -> bool:
        return any(key.endswith("-head") for key in self.bundles[0].resources)


@dataclass
class Cluster:
    """A RayCluster. ``suspended`` ones have no pods and no Ray."""

    namespace: str
    name: str
    created: float
    marks: Marks = "indexed"
    version: str = "2.60.0"
    kubernetes: bool = True
    suspended: bool = False
    slices: list[Slice] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    without_service: bool = False
    wrong_num_of_hosts: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def folder(self) -> str:
        """Where its Ray answers lie in a bundle."""
        return f"ray/{self.namespace}__{self.name}" if self.kubernetes else "ray/default"

    @property
    def head_node_id(self) -> str:
        return hexid("head", self.key, length=56)

    def slice(self, name: str) -> Slice:
        """A slice by its name; raises ``KeyError``."""
        for item in self.slices:
            if item.name == name:
                return item
        raise KeyError(name)

    def group(self, name: str) -> Group:
        """A placement group by its name; raises ``KeyError``."""
        for item in self.groups:
            if item.name == name:
                return item
        raise KeyError(name)

    def free_slices(self) -> list[Slice]:
        """Slices on which no bundle lies."""
        held = {
            id(bundle.host.slice)
            for group in self.groups
            if group.state != "REMOVED"
            for bundle in group.bundles
            if bundle.host is not None
        }
        return [item for item in self.slices if id(item) not in held]


@dataclass
class InventedFleet:
    """All clusters of one Kubernetes. ``now`` is the time at which it is looked at."""

    now: float
    seed: int
    clusters: list[Cluster] = field(default_factory=list)
    truncated: dict[str, int] = field(default_factory=dict)
    """Cluster key → the row limit that its nodes were asked with, for bundles that were cut."""

    @property
    def hosts(self) -> list[Host]:
        return [host for cluster in self.clusters for part in cluster.slices for host in part.hosts]

    def cluster(self, key: str) -> Cluster:
        """A cluster by ``namespace/name``; raises ``KeyError``."""
        for item in self.clusters:
            if item.key == key:
                return item
        raise KeyError(key)
