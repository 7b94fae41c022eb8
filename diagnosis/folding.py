"""One fault, one finding: consequences fold into their cause.

A consequence is a hit whose code (and cause) is listed in :data:`CAUSED_BY` under another code,
when a hit of that code touches the same slice, group, worker group, host or cluster. It becomes
evidence and an "also affects" line of its cause, and no finding of its own. Chains fold into their
root. What touches nothing of another fault stays: two faults at a time are two findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from diagnosis.finding import SEVERITIES, Evidence, Finding
from diagnosis.rules.base import Hit

Relation = Literal["slice", "named", "group", "worker_group", "host", "cluster", "source"]
"""``named``: the consequence asks for the slice by its name, and the cause touches that slice."""

EVIDENCE_PER_FOLDED = 3
MAX_EVIDENCE = 60
MAX_AFFECTS = 40


class Because(msgspec.Struct, frozen=True):
    """A possible cause: its code, what both have to touch, and which of its causes count.

    ``when``: causes of the consequence itself for which the edge holds (empty = any).
    """

    code: str
    relation: Relation
    causes: tuple[str, ...] = ()
    when: tuple[str, ...] = ()


CAUSED_BY: dict[str, tuple[Because, ...]] = {
    "SliceIncomplete": (
        Because("DuplicateWorkerId", "slice"),
        Because("AffinityDeadlock", "slice", when=("PodUnschedulable", "ScaleUpFailed")),
        Because("WebhookDown", "slice", when=("PodMissing",)),
        Because("HostCountMismatch", "slice", when=("PodMissing", "RayNodeNeverJoined")),
        Because("MissingSliceIdentity", "slice"),
    ),
    "ReplicaDrift": (
        Because("WebhookDown", "worker_group"),
        Because("HostCountMismatch", "worker_group"),
        Because("SliceIncomplete", "worker_group"),
        Because("ScaleUpFailed", "worker_group"),
    ),
    "HostCountMismatch": (Because("MissingSliceIdentity", "worker_group"),),
    "HostnamesUnresolvable": (Because("MissingSliceIdentity", "worker_group"),),
    "DuplicateWorkerId": (
        Because("ReplicaDrift", "slice"),
        Because("MissingSliceIdentity", "slice"),
    ),
    "HostRestartedAlone": (Because("PlacementHostLost", "group"),),
    "HeadResourceMissing": (
        Because("DuplicateWorkerId", "slice"),
        Because("MissingSliceIdentity", "slice"),
        Because("HostCountMismatch", "slice"),
    ),
    "ChipCountMismatch": (
        Because("SliceIncomplete", "host"),
        Because("PhantomTpu", "host"),
    ),
    "ScaleUpFailed": (
        Because("AffinityDeadlock", "worker_group"),
        Because("SliceIncomplete", "worker_group", causes=("ScaleUpFailed",)),
    ),
    "PlacementSubset": (Because("PlacementSplit", "group"),),
    "PlacementHostLost": (Because("SliceIncomplete", "slice"),),
    "PlacementPending": (
        Because("SchedulerLivelock", "cluster", when=("BehindLivelock",)),
        Because("HeadReservationLeaked", "slice", when=("HeadHeld",)),
        Because("SliceIncomplete", "named", when=("SliceIncomplete", "ScaleUpFailed")),
        Because("DuplicateWorkerId", "slice", when=("SliceIncomplete", "NoSuchSlice")),
        Because("HeadResourceMissing", "slice", when=("NoSuchSlice",)),
        Because("WebhookDown", "cluster", when=("NoSuchSlice", "SliceGone")),
        Because("AffinityDeadlock", "worker_group", when=("NoSuchSlice", "SliceIncomplete")),
        Because("HostCountMismatch", "worker_group", when=("NoSuchSlice", "SliceIncomplete")),
        Because("MissingSliceIdentity", "cluster", when=("NoSuchSlice", "SliceIncomplete")),
        Because("ReplicaDrift", "worker_group", when=("NoSuchSlice",)),
    ),
    "GangMemberDead": (
        Because("SliceIncomplete", "slice"),
        Because("PlacementHostLost", "group"),
    ),
    "GangIncomplete": (
        Because("SliceIncomplete", "slice"),
        Because("GangMemberDead", "group"),
        Because("PlacementHostLost", "group"),
        Because("PlacementSplit", "group"),
        Because("HostRestartedAlone", "slice"),
        Because("DuplicateWorkerId", "slice"),
        Because("MissingSliceIdentity", "slice"),
    ),
    "ReservationIdle": (
        Because("SliceIncomplete", "slice"),
        Because("PlacementHostLost", "group"),
        Because("DuplicateWorkerId", "slice"),
        Because("MissingSliceIdentity", "slice"),
    ),
    "GangStalled": (
        Because("SliceIncomplete", "slice"),
        Because("RuntimeFault", "slice"),
        Because("RuntimeFault", "group"),
        Because("HostRestartedAlone", "slice"),
        Because("GangMemberDead", "group"),
        Because("PlacementHostLost", "group"),
        Because("GangIncomplete", "group"),
        Because("PlacementSplit", "group"),
        Because("PlacementSubset", "group"),
        Because("DuplicateWorkerId", "slice"),
        Because("SliceSpansNodePools", "slice"),
        Because("HostnamesUnresolvable", "slice"),
        Because("HostCountMismatch", "slice"),
        Because("MultisliceMismatch", "group"),
        Because("MultisliceMismatch", "slice"),
        Because("MissingSliceIdentity", "slice"),
        Because("DynamicSliceDegraded", "slice"),
    ),
    "GangStraggler": (
        Because("SliceIncomplete", "slice"),
        Because("RuntimeFault", "slice"),
        Because("HostRestartedAlone", "slice"),
        Because("GangMemberDead", "group"),
        Because("PlacementHostLost", "group"),
        Because("GangIncomplete", "group"),
        Because("PlacementSplit", "group"),
        Because("DynamicSliceDegraded", "slice"),
        Because("GangStalled", "group"),
    ),
    "SourceTruncated": (Because("SourceDown", "source"),),
    "SourceStale": (Because("SourceDown", "source"),),
}
"""Consequence → possible causes, the likeliest first.

Not folded on purpose: ``SchedulerLivelock`` (its cure, removing one group, is another than that of
the slice that lost a host, and it stops everybody), ``HostRestartedAlone`` beside
``GangMemberDead`` (the host and the job are repaired in different places). What a node or a Slice
object says of itself (``HostMaintenance``, ``RuntimeFault``, ``DynamicSliceDegraded``) is more
often the cause of a lost host than its consequence, so it stays beside ``SliceIncomplete``. A group
that waits for *any* slice (``PlacementPending``) has a wait of its own; only one that names the
broken slice is told in the slice's finding, which is critical because of it.
"""


def _touched(hit: Hit, relation: Relation) -> Sequence[str]:
    links = hit.links
    match relation:
        case "slice":
            return links.slices
        case "named":
            return links.named
        case "group":
            return links.groups
        case "worker_group":
            return links.worker_groups
        case "host":
            return links.hosts
        case "source":
            return (links.source,) if links.source else ()
        case _:
            return (links.cluster,) if links.cluster else ()


def fold(hits: Sequence[Hit]) -> list[Hit]:
    """The hits that remain when consequences were folded into their causes, in the given order."""
    index: dict[tuple[str, Relation, str], list[int]] = defaultdict(list)
    relations: tuple[Relation, ...] = (
        "slice",
        "group",
        "worker_group",
        "host",
        "cluster",
        "source",
    )
    for place, item in enumerate(hits):
        for relation in relations:
            for key in _touched(item, relation):
                index[item.code, relation, key].append(place)
    parent: list[int | None] = [None] * len(hits)
    for place in range(len(hits)):
        parent[place] = _parent(hits, index, parent, place)
    folded: dict[int, list[int]] = defaultdict(list)
    for place in range(len(hits)):
        if parent[place] is not None:
            folded[_root(parent, place)].append(place)
    return [
        _joined(item, [hits[other] for other in folded[place]]) if place in folded else item
        for place, item in enumerate(hits)
        if parent[place] is None
    ]


def _parent(
    hits: Sequence[Hit],
    index: dict[tuple[str, Relation, str], list[int]],
    parent: Sequence[int | None],
    place: int,
) -> int | None:
    """The first possible cause; never one that already hangs on ``place``."""
    item = hits[place]
    for edge in CAUSED_BY.get(item.code, ()):
        if edge.when and item.finding.cause not in edge.when:
            continue
        relation: Relation = "slice" if edge.relation == "named" else edge.relation
        for key in _touched(item, edge.relation):
            for other in index.get((edge.code, relation, key), ()):
                cause = hits[other].finding.cause
                if edge.causes and cause not in edge.causes:
                    continue
                if _root(parent, other) != place:
                    return other
    return None


def _root(parent: Sequence[int | None], place: int) -> int:
    """The end of a chain of causes. :func:`_parent` never closes a circle."""
    while (above := parent[place]) is not None:
        place = above
    return place


def _joined(root: Hit, consequences: list[Hit]) -> Hit:
    finding = root.finding
    evidence: list[Evidence] = list(finding.evidence)
    affects = list(finding.affects)
    severity = finding.severity
    for item in consequences:
        affects.append(item.effect)
        affects += item.finding.affects
        evidence += item.finding.evidence[:EVIDENCE_PER_FOLDED]
        if SEVERITIES.index(item.finding.severity) < SEVERITIES.index(severity):
            severity = item.finding.severity
    told = list(dict.fromkeys(affects))
    if len(told) > MAX_AFFECTS:
        told = [*told[:MAX_AFFECTS], f"and {len(told) - MAX_AFFECTS} more"]
    joined: Finding = msgspec.structs.replace(
        finding,
        severity=severity,
        evidence=tuple(dict.fromkeys(evidence))[:MAX_EVIDENCE],
        affects=tuple(told),
    )
    return msgspec.structs.replace(root, finding=joined)
