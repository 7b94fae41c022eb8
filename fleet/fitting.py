"""Why a slice can, or cannot, be reserved now: the words of the scheduling page. Pure.

Ray's ``slice_placement_group`` takes a slice by its head resource and then asks for every host, so
a slice fits when all its hosts are ready, nobody holds any of them, and its head is free
(facts/ray_2_60, "Failures reproduced" 2 and 4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

import msgspec

from fleet.joining import RAY_TOPOLOGY_LABEL
from fleet.model import ClusterView, Fleet, Host, PlacementGroup, Slice, SliceStatusName
from fleet.times import format_duration
from fleet.topology import split_pod_type

FitState = Literal["free", "held", "head held", "not whole", "forming", "no head", "unknown"]


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """What would have to end before a slice is free.

    ``key`` is a placement group's, or ``job:<id>`` for workers without a group (then ``group`` is
    ``None``). ``busy``: a worker of it runs; ``None`` when that cannot be seen. ``leaked``: a head
    reservation that nobody uses. ``chips``: what it holds in all, here and elsewhere.
    """

    key: str
    label: str
    group: PlacementGroup | None = None
    job_id: str | None = None
    since: float | None = None
    busy: bool | None = None
    leaked: bool = False
    chips: float = 0.0


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One slice, and whether it could be reserved whole now.

    ``reason`` is a clause without a full stop ("3 of 4 hosts: worker 2: its Ray node is dead").
    ``since``: since when that is so (epoch seconds). ``blockers``: what would have to end; empty
    where ending something does not help.
    """

    slice: Slice
    state: FitState
    reason: str
    since: float | None = None
    blockers: tuple[Blocker, ...] = ()

    @property
    def fits(self) -> bool:
        return self.state == "free"


PROBLEMS: dict[str, str] = {
    "PodUnschedulable": "its pod cannot be scheduled",
    "PodCrashLooping": "its pod keeps crashing",
    "PodFailed": "its pod failed",
    "PodNotReady": "its pod is not ready",
    "NodeNotReady": "its Kubernetes node is not ready",
    "NodeGone": "its Kubernetes node is gone",
    "RayletDead": "its Ray node is dead",
    "RayNodeNeverJoined": "its pod runs but never joined Ray",
    "PodMissing": "its pod does not exist",
    "ScaleUpFailed": "the cloud had no capacity for it",
}
"""What keeps a host from working, as the end of "worker 2: …"."""


class Fits:
    """A fleet indexed for the question what fits where; made once a look."""

    def __init__(self, fleet: Fleet, statuses: Mapping[str, SliceStatusName]) -> None:
        self.fleet = fleet
        self._statuses = statuses
        self._groups = {group.key: group for group in fleet.placement_groups}
        self._clusters: dict[str, ClusterView] = {view.id: view for view in fleet.clusters}
        self._waiting: dict[tuple[str, str, str], list[PlacementGroup]] = defaultdict(list)
        self._found: dict[str, Fit] = {}
        self.by_cluster: dict[str, list[Slice]] = defaultdict(list)
        for item in fleet.slices:
            self.by_cluster[f"{item.namespace}/{item.cluster}"].append(item)
        for group in fleet.placement_groups:
            for name in group.wanted_slices if group.waiting else ():
                self._waiting[group.namespace, group.cluster, name].append(group)

    def fit(self, item: Slice) -> Fit:
        """Whether this slice could be reserved whole now, and why not."""
        if item.id not in self._found:
            self._found[item.id] = self._fit(item)
        return self._found[item.id]

    def for_group(self, group: PlacementGroup) -> list[Fit]:
        """Every slice of the shape that a group asks for, those that fit first.

        What it holds itself does not count against it: a group that lies in part on a slice is no
        obstacle to itself.
        """
        found = [
            self._without(self.fit(item), group)
            for item in self.by_cluster.get(f"{group.namespace}/{group.cluster}", ())
            if asks_for(group, item)
        ]
        order: dict[FitState, int] = {
            "free": 0, "head held": 1, "held": 2, "forming": 3, "no head": 4, "not whole": 5,
            "unknown": 6,
        }  # fmt: skip
        return sorted(found, key=lambda fit: (order[fit.state], fit.slice.id))

    def _without(self, fit: Fit, group: PlacementGroup) -> Fit:
        others = tuple(item for item in fit.blockers if item.key != group.key)
        if len(others) == len(fit.blockers) or others:
            return msgspec.structs.replace(fit, blockers=others)
        return Fit(slice=fit.slice, state="free", reason="held by this group itself")

    def _fit(self, item: Slice) -> Fit:
        status = self._statuses.get(item.id, "unknown")
        if item.leaving:
            return Fit(slice=item, state="not whole", reason="its pods are being deleted")
        if status == "forming":
            age = item.first_seen and format_duration(self.fleet.now - item.first_seen)
            told = f", for {age}" if age else ""
            reason = f"still forming: {_hosts(item)}{told}"
            return Fit(slice=item, state="forming", reason=reason, since=item.first_seen)
        if status in ("incomplete", "broken"):
            lost = [host.gone_since for host in item.hosts if host.gone_since is not None]
            return Fit(
                slice=item,
                state="not whole",
                reason=_trouble(item, status),
                since=min(lost, default=None),
            )
        if status == "unknown":
            why = ", ".join(item.blind) or "not enough can be seen to say"
            return Fit(slice=item, state="unknown", reason=f"cannot be judged: {why}")
        blockers = [self.blocker(key, item) for key in item.held_by]
        if blockers:
            return Fit(
                slice=item,
                state="held",
                reason=_held(item, blockers),
                since=_oldest(blockers),
                blockers=(*blockers, *self._next(item)),
            )
        heads = self._heads(item, ())
        if heads:
            return Fit(
                slice=item,
                state="head held",
                reason=self._head_words(item, heads[0]),
                since=heads[0].since,
                blockers=(*heads, *self._next(item)),
            )
        if item.workers:
            jobs = dict.fromkeys(f"job:{worker.job_id or '?'}" for worker in item.workers)
            found = tuple(self.blocker(key, item) for key in jobs)
            return Fit(
                slice=item,
                state="held",
                reason=_held(item, found),
                since=_oldest(found),
                blockers=found,
            )
        if (item.hosts_expected or 0) > 1 and not any(host.offers_head for host in item.hosts):
            wanted = f"TPU-{item.pod_type}-head" if item.pod_type else "its head resource"
            return Fit(slice=item, state="no head", reason=f"free, but no host offers {wanted}")
        return Fit(slice=item, state="free", reason="whole and free")

    def _next(self, item: Slice) -> list[Blocker]:
        """Groups that wait for this very slice: they take it before anybody else does."""
        waiting = self._waiting.get((item.namespace, item.cluster, item.name), ())
        return [self.blocker(group.key, item) for group in waiting if group.key not in item.held_by]

    def _heads(self, item: Slice, besides: tuple[str, ...]) -> list[Blocker]:
        return [self.blocker(key, item) for key in item.head_held_by if key not in besides]

    def _head_words(self, item: Slice, head: Blocker) -> str:
        if head.leaked:
            return f"head held by a leaked reservation ({head.label})"
        waiting = self._waiting.get((item.namespace, item.cluster, item.name), ())
        if waiting:
            return f"head reserved for {waiting[0].label}, which waits for the slice"
        return f"head held by {head.label}"

    def blocker(self, key: str, item: Slice) -> Blocker:
        """Who is behind a key of ``held_by`` or ``head_held_by``."""
        cluster = self._clusters.get(f"{item.namespace}/{item.cluster}")
        parts = cluster.ray_parts if cluster is not None else frozenset()
        seen = {"actors", "tasks"} <= parts
        group = self._groups.get(key)
        if group is None:
            job = key.removeprefix("job:")
            workers = [worker for worker in item.workers if worker.group_id is None]
            starts = [worker.since for worker in workers if worker.since is not None]
            return Blocker(
                key=key,
                label=f"job {job} (no placement group)",
                job_id=job if job != "?" else None,
                since=min(starts, default=None),
                busy=True if workers else None if not seen else False,
                chips=sum(worker.chips for worker in workers),
            )
        busy = any(worker.alive for worker in group.workers)
        place = (item.namespace, item.cluster, item.name)
        leaked = (
            group.role == "head"
            and not item.held_by
            and not item.workers
            and not self._waiting.get(place)
            and "placement_groups" in parts
        )
        return Blocker(
            key=key,
            label=group.label,
            group=group,
            job_id=group.job_id,
            since=group.created_at or group.requested_at,
            busy=busy or (None if not seen else False),
            leaked=leaked,
            chips=group.chips,
        )


def asks_for(group: PlacementGroup, item: Slice) -> bool:
    """Whether a slice of the group's Ray cluster is one that the group's request means."""
    if (group.namespace, group.cluster) != (item.namespace, item.cluster):
        return False
    if group.wanted_slices:
        return item.name in group.wanted_slices or item.name.partition("/")[0] in (
            group.wanted_slices
        )
    if group.wanted_pod_type:
        return same_shape(group.wanted_pod_type, item.pod_type)
    topologies = {
        bundle.selector[RAY_TOPOLOGY_LABEL]
        for bundle in group.bundles
        if RAY_TOPOLOGY_LABEL in bundle.selector
    }
    return not topologies or item.topology_name in topologies


def same_shape(left: str | None, right: str | None) -> bool:
    """Whether two pod types name one shape, whatever their spelling."""
    if not left or not right:
        return False
    if left == right:
        return True
    first, second = split_pod_type(left), split_pod_type(right)
    return first is not None and first == second


def asked(group: PlacementGroup) -> str:
    """What a group asks for, in words: ``a v6e-16 slice``, ``slice v6e-0``, ``16 TPUs``."""
    if group.wanted_slices:
        names = ", ".join(group.wanted_slices[:3])
        more = f" and {len(group.wanted_slices) - 3} more" if len(group.wanted_slices) > 3 else ""
        return f"slice {names}{more}"
    if group.wanted_pod_type:
        return f"a {group.wanted_pod_type} slice"
    bundles = len(group.bundles)
    return f"{group.chips:g} TPUs in {bundles} bundle{'s' * (bundles != 1)}, on any slice"


def summary(group: PlacementGroup, fits: list[Fit]) -> str:
    """A sentence that sums up why none of the slices is had: ``2 held, 1 not whole``."""
    if not fits:
        return f"It asks for {asked(group)}, and the Ray cluster has none."
    tally: dict[str, int] = {}
    for fit in fits:
        tally[fit.state] = tally.get(fit.state, 0) + 1
    words = ", ".join(f"{number:,} {state}" for state, number in tally.items())
    slices = "The only slice" if len(fits) == 1 else f"The {len(fits):,} slices"
    return f"It asks for {asked(group)}. {slices} of that kind: {words}."


def host_words(host: Host) -> str:
    """``worker 2: its Ray node is dead``; empty for a host that can work."""
    name = f"worker {host.worker_id}" if host.worker_id is not None else host.pod_name or host.key
    if host.duplicate:
        return f"{name}: another live host claims its worker id or hostname"
    if host.problem is not None:
        return f"{name}: {PROBLEMS.get(host.problem, host.problem)}"
    return "" if host.state == "ready" else f"{name}: {host.state.replace('_', ' ')}"


def _trouble(item: Slice, status: str) -> str:
    words = [text for host in item.hosts if (text := host_words(host))]
    if not words:
        return f"{status}: {_hosts(item)}; see its findings"
    more = f"; and {len(words) - 2:,} more" if len(words) > 2 else ""
    return f"{_hosts(item)}: {'; '.join(words[:2])}{more}"


def _hosts(item: Slice) -> str:
    wanted = "?" if item.hosts_expected is None else f"{item.hosts_expected:,}"
    return f"{item.hosts_alive:,} of {wanted} hosts"


def _held(item: Slice, blockers: list[Blocker] | tuple[Blocker, ...]) -> str:
    names = ", ".join(blocker.label for blocker in blockers[:3])
    more = f" and {len(blockers) - 3:,} more" if len(blockers) > 3 else ""
    part = "in part " if item.holding in ("part", "several") else ""
    idle = " (idle)" if all(blocker.busy is False for blocker in blockers) else ""
    return f"held {part}by {names}{more}{idle}"


def _oldest(blockers: list[Blocker] | tuple[Blocker, ...]) -> float | None:
    return min((item.since for item in blockers if item.since is not None), default=None)
