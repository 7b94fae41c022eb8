"""From a report to what is compared, with what cannot be seen carried over from before. Pure.

A source that goes down takes nothing away: a slice is gone only when every side that showed it
answers in full and shows it no longer, a placement group only when Ray's list was answered in
full. While a Ray head settles after a restart, its answers count as not seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from diagnosis.finding import Finding, Report
from fleet.model import ClusterView, Fleet, Host, PlacementGroup, Slice
from history.marks import (
    BundleMark,
    ClusterMark,
    FindingMark,
    GroupMark,
    HostMark,
    Picture,
    SliceMark,
    SourceMark,
)

HOLD_OFF = 30.0
"""Seconds after a head's start in which its lists may lack what is there
(``Thresholds.head_restart_hold_off``)."""

TWO_HEADS_FOR = 120.0
"""Two live heads mean a restart for this long at most."""

FORGET_AFTER = 86400.0
"""What could not be seen for a day (its part is always cut, its cluster is no longer asked) is
forgotten without a word: carrying it on for ever would say that it is still there."""


def picture_of(report: Report, before: Picture | None = None) -> Picture:
    """What of a report is compared.

    Args:
        report: of one look.
        before: the picture of an earlier look, from which what is hidden now is carried over.
    """
    fleet = report.fleet
    now = fleet.now
    views = {item.id: item for item in fleet.clusters}
    forgotten: list[str] = []
    unseen: dict[str, ClusterMark] = {}
    for key, old in (before.clusters if before else {}).items():
        if key not in views and not _surely_gone(fleet, old):
            _carry(unseen, forgotten, key, old, now)
    hidden = {*forgotten, *unseen}
    slices = _slices(report, before, views, hidden, forgotten)
    groups = _groups(fleet, before, views, hidden, forgotten)
    clusters = {
        key: _cluster(fleet, view, before.clusters.get(key) if before else None, slices)
        for key, view in views.items()
    }
    for key, mark in unseen.items():
        own = [item for item in slices.values() if f"{item.namespace}/{item.cluster}" == key]
        clusters[key] = msgspec.structs.replace(mark, hidden=len(own), slices=len(own))
    return Picture(
        at=now,
        slices=slices,
        groups=groups,
        clusters=clusters,
        findings=_findings(report, before),
        sources={
            item.name: SourceMark(
                status=item.status, reason=item.reason or "", detail=item.detail[:300]
            )
            for item in fleet.sources
        },
        forgotten=tuple(forgotten),
    )


_Seen = TypeVar("_Seen", ClusterMark, SliceMark, GroupMark)


def _carry(
    marks: dict[str, _Seen], forgotten: list[str], key: str, mark: _Seen, now: float
) -> None:
    """Keep what cannot be seen now, for a day."""
    if now - mark.seen_at < FORGET_AFTER:
        marks[key] = mark
    else:
        forgotten.append(key)


def ray_answers(view: ClusterView, part: str, now: float) -> bool:
    """Can the absence of something from this part of Ray's answers be believed?

    A suspended cluster runs nothing, which is an answer too.
    """
    if view.suspended:
        return True
    if part not in view.ray_parts:
        return False
    age = now - view.head_since if view.head_since is not None else None
    if view.heads_alive > 1 and (age is None or age < TWO_HEADS_FOR):
        return False
    return age is None or age >= HOLD_OFF


def _surely_gone(fleet: Fleet, mark: ClusterMark) -> bool:
    return mark.has_kubernetes and {"pods", "ray_clusters"} <= fleet.kubernetes_parts


def _sides(fleet: Fleet, view: ClusterView) -> frozenset[str]:
    """Which sides answer in full for the hosts of a cluster."""
    sides = set()
    if ray_answers(view, "nodes", fleet.now):
        sides.add("ray")
    if view.has_kubernetes and "pods" in fleet.kubernetes_parts:
        sides.add("kubernetes")
    return frozenset(sides)


# --- slices ---------------------------------------------------------------------------------


def _slices(
    report: Report,
    before: Picture | None,
    views: dict[str, ClusterView],
    unseen: set[str],
    forgotten: list[str],
) -> dict[str, SliceMark]:
    fleet = report.fleet
    old = before.slices if before else {}
    marks: dict[str, SliceMark] = {}
    for item in fleet.slices:
        status = report.statuses.get(item.id, "unknown")
        marks[item.id] = _slice(item, status, fleet.now, old.get(item.id))
    for key, mark in old.items():
        if key in marks:
            continue
        cluster = f"{mark.namespace}/{mark.cluster}"
        view = views.get(cluster)
        hidden = (
            not set(mark.sides) <= _sides(fleet, view) if view is not None else cluster in unseen
        )
        if hidden:
            why = view.source.detail if view is not None else "its cluster cannot be seen"
            mark = msgspec.structs.replace(mark, hidden=True, why=why[:200])
            _carry(marks, forgotten, key, mark, fleet.now)
    return marks


def _slice(item: Slice, status: str, now: float, old: SliceMark | None) -> SliceMark:
    hidden = status == "unknown"
    hosts = _hosts(item.hosts)
    if hidden and old is not None:
        return msgspec.structs.replace(
            old,
            hidden=True,
            sides=tuple(sorted({*old.sides, *item.seen_by})),
            why="; ".join(item.blind)[:200],
            seen_at=now,
        )
    if item.blind and old is not None:
        hosts = old.hosts
    return SliceMark(
        namespace=item.namespace,
        cluster=item.cluster,
        name=item.name,
        status=status,
        seen_at=now,
        sides=tuple(sorted(item.seen_by)),
        hosts=hosts,
        hidden=hidden,
        why="; ".join(item.blind)[:200],
    )


def _hosts(hosts: Iterable[Host]) -> tuple[HostMark, ...]:
    return tuple(
        sorted(
            (
                HostMark(
                    place=place_of(host),
                    state=host.state,
                    problem=host.problem or "",
                    ray=_digest(host.ray_node_id),
                )
                for host in hosts
            ),
            key=lambda mark: (len(mark.place), mark.place, mark.ray),
        )
    )


def _digest(ident: str | None) -> str:
    """A Ray id cut to what tells two of them apart, whatever it is made of."""
    if not ident:
        return ""
    data = ident.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def place_of(host: Host) -> str:
    """A host's place in its slice, for people."""
    return f"worker {host.worker_id}" if host.worker_id is not None else host.key


# --- placement groups -----------------------------------------------------------------------


def of_interest(group: PlacementGroup) -> bool:
    """Groups of CPUs come and go by the thousand and say nothing about slices."""
    return group.role != "other" or group.chips > 0


def _groups(
    fleet: Fleet,
    before: Picture | None,
    views: dict[str, ClusterView],
    unseen: set[str],
    forgotten: list[str],
) -> dict[str, GroupMark]:
    old = before.groups if before else {}
    places = {
        (item.id, host.key): f"{item.name} {place_of(host)}"
        for item in fleet.slices
        for host in item.hosts
    }
    marks = {
        group.key: _group(group, fleet.now, places, old.get(group.key))
        for group in fleet.placement_groups
        if of_interest(group)
    }
    for key, mark in old.items():
        if key in marks:
            continue
        cluster = f"{mark.namespace}/{mark.cluster}"
        view = views.get(cluster)
        if not ray_answers(view, "placement_groups", fleet.now) if view else cluster in unseen:
            _carry(marks, forgotten, key, mark, fleet.now)
    return marks


def _group(
    group: PlacementGroup,
    now: float,
    places: dict[tuple[str, str], str],
    old: GroupMark | None,
) -> GroupMark:
    last = {item.index: item for item in old.bundles} if old else {}
    bundles = []
    for bundle in group.bundles:
        mark = last.get(bundle.index, BundleMark(index=bundle.index))
        if bundle.node_id and bundle.placed:
            where = places.get((bundle.slice_id or "", bundle.host_key or ""), "")
            node = _digest(bundle.node_id)
            if not where:
                # The place of a node that is hidden for a moment is still its place.
                known = mark.node == node and mark.place
                where = known or f"node {bundle.node_id[:12]}"
            mark = BundleMark(index=bundle.index, node=node, place=where)
        bundles.append(mark)
    actors = [worker for worker in group.workers if worker.kind == "actor"]
    return GroupMark(
        namespace=group.namespace,
        cluster=group.cluster,
        name=group.label,
        state=group.state,
        role=group.role,
        seen_at=now,
        bundles=tuple(bundles),
        slices=group.slices or (old.slices if old else ()),
        requested_at=group.requested_at,
        created_at=group.created_at,
        workers=(
            sum(worker.alive for worker in actors),
            sum(worker.dead for worker in actors),
        ),
    )


# --- clusters and findings ------------------------------------------------------------------


def _cluster(
    fleet: Fleet, view: ClusterView, old: ClusterMark | None, slices: dict[str, SliceMark]
) -> ClusterMark:
    own = [
        item
        for item in slices.values()
        if item.namespace == view.namespace and item.cluster == view.cluster
    ]
    hidden = [item for item in own if item.hidden]
    starts = [
        start for start in (view.head_since, old.head_since if old else None) if start is not None
    ]
    return ClusterMark(
        namespace=view.namespace,
        cluster=view.cluster,
        seen_at=fleet.now,
        has_kubernetes=view.has_kubernetes,
        sides=tuple(sorted({*_sides(fleet, view), *(old.sides if old else ())})),
        groups_seen=(old is not None and old.groups_seen)
        or ray_answers(view, "placement_groups", fleet.now),
        head_since=max(starts, default=None),
        hidden=len(hidden),
        slices=len(own),
        why=next((item.why for item in hidden if item.why), ""),
    )


def _findings(report: Report, before: Picture | None) -> dict[str, FindingMark]:
    old = before.findings if before else {}
    now = report.fleet.now
    marks = {
        key_of(item): FindingMark(
            code=item.code,
            kind=item.subject.kind,
            id=item.subject.id,
            name=item.subject.name,
            namespace=item.subject.namespace,
            cluster=item.subject.cluster,
            severity=item.severity,
            cause=item.cause,
            summary=item.summary[:500],
            since=item.since,
            opened=old[key_of(item)].opened if key_of(item) in old else now,
        )
        for item in report.findings
    }
    if len(old) > sum(key in marks for key in old):
        # The engine keeps what it cannot judge; after a start without its memory, we do.
        blind = {
            (item.code, item.subject.id if item.subject is not None else "")
            for item in report.unknowns
        }
        for key, mark in old.items():
            cluster = f"{mark.namespace}/{mark.cluster}" if mark.cluster else ""
            if key not in marks and not blind.isdisjoint(
                {(mark.code, mark.id), (mark.code, cluster), (mark.code, "")}
            ):
                marks[key] = mark
    return marks


def key_of(finding: Finding) -> str:
    """A finding's key in one text."""
    return "|".join(finding.key)
