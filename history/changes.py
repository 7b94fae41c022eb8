"""What changed from one look to the next. Pure: two reports in, changes out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Literal, get_args

import msgspec

from diagnosis.finding import Report, Subject, SubjectKind
from fleet.times import format_duration, format_time
from history.marks import BundleMark, ClusterMark, FindingMark, GroupMark, Picture, SliceMark
from history.picture import picture_of

ChangeKind = Literal[
    "watch_began",
    "watch_resumed",
    "finding_opened",
    "finding_changed",
    "finding_closed",
    "slice_appeared",
    "slice_status",
    "slice_gone",
    "hosts_changed",
    "group_created",
    "group_state",
    "group_moved",
    "group_removed",
    "head_restarted",
    "cluster_appeared",
    "cluster_gone",
    "source_state",
    "sight_lost",
    "sight_back",
]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

ONCE: frozenset[str] = frozenset({"group_created", "group_removed", "head_restarted"})
"""Happen once in the life of what they name, whoever sees it and when: their keys hold no time."""

UNWATCHED = 660.0
"""Seconds between two looks that is worth a word. Polls take seconds, a rolling update minutes."""

MOST_RELATED = 16
MOST_TOLD = 4
"""Hosts or bundles that a sentence names; the rest are counted."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that changed.

    ``at`` (epoch seconds) is the look that first showed it, so the look at that moment shows it
    too; ``happened_at`` is the source's own time of it, where it has one. ``before`` and ``after``
    are words of the model (a status, a state, a severity), ``text`` is a sentence for people with
    names as the cluster wrote them: hostile until escaped. ``related``: ids of others that it
    touches (the slices of a group), which a query by subject finds too.
    """

    at: float
    kind: ChangeKind
    subject: Subject
    text: str
    before: str | None = None
    after: str | None = None
    code: str | None = None
    severity: str | None = None
    cause: str | None = None
    happened_at: float | None = None
    related: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same change, so that writing it twice is writing it once."""
        parts = [
            self.kind,
            self.subject.kind,
            self.subject.id,
            self.code or "",
            self.before or "",
            self.after or "",
            "" if self.kind in ONCE else f"{self.at:.3f}",
        ]
        text = "\x1f".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).hexdigest()


def changes(before: Report | None, after: Report) -> tuple[Change, ...]:
    """What changed from one report to the next.

    Args:
        before: ``None`` when ``after`` is the first look ever: then nothing is called new but the
            watch itself, and findings that are open are opened.
        after: the later report.

    A source that went down takes nothing away: what cannot be seen did not change. Over more than
    two looks, compare pictures instead (:func:`compare`), which carry what was hidden in between.
    """
    old = picture_of(before) if before is not None else None
    return compare(old, picture_of(after, old))


def compare(before: Picture | None, after: Picture) -> tuple[Change, ...]:
    """What changed between two pictures, of which the later was made with the earlier."""
    if before is None:
        return (_began(after), *_findings(Picture(at=after.at), after))
    return (
        *_resumed(before, after),
        *_sources(before, after),
        *_clusters(before, after),
        *_slices(before, after),
        *_groups(before, after),
        *_findings(before, after),
    )


def stirred(before: Picture | None, after: Picture) -> bool:
    """Did something change that makes no line of its own but shows on a page (workers)?"""
    if before is None:
        return True
    return any(
        key in before.groups and before.groups[key].workers != mark.workers
        for key, mark in after.groups.items()
    )


# --- subjects -------------------------------------------------------------------------------


def _subject(
    kind: SubjectKind, ident: str, name: str, namespace: str = "", cluster: str = ""
) -> Subject:
    return Subject(kind=kind, id=ident, name=name, namespace=namespace, cluster=cluster)


def _of_slice(ident: str, mark: SliceMark) -> Subject:
    return _subject("slice", ident, mark.name, mark.namespace, mark.cluster)


def _of_group(ident: str, mark: GroupMark) -> Subject:
    return _subject("placement_group", ident, mark.name, mark.namespace, mark.cluster)


def _of_cluster(ident: str, mark: ClusterMark) -> Subject:
    return _subject("ray_cluster", ident, mark.cluster, mark.namespace, mark.cluster)


def _began(after: Picture) -> Change:
    return Change(
        at=after.at,
        kind="watch_began",
        subject=_subject("source", "slicewatch", "slicewatch"),
        text=f"The first look: {_count(len(after.slices), 'slice')}, "
        f"{_count(len(after.groups), 'TPU placement group')}, "
        f"{_count(len(after.findings), 'finding')} open.",
    )


def _resumed(before: Picture, after: Picture) -> Iterator[Change]:
    gap = after.at - before.at
    if gap > UNWATCHED:
        yield Change(
            at=after.at,
            kind="watch_resumed",
            subject=_subject("source", "slicewatch", "slicewatch"),
            before=format_time(before.at),
            after=format_time(after.at),
            text=f"Nobody looked for {format_duration(gap)}: "
            "when in that time the changes listed here happened is not known.",
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# --- sources and clusters -------------------------------------------------------------------


def _sources(before: Picture, after: Picture) -> Iterator[Change]:
    for name, mark in after.sources.items():
        old = before.sources.get(name)
        if old is None or old.status == mark.status:
            continue
        why = f": {mark.detail or mark.reason}" if mark.detail or mark.reason else ""
        yield Change(
            at=after.at,
            kind="source_state",
            subject=_subject("source", name, name),
            before=old.status,
            after=mark.status,
            text=f"Source {name} went from {old.status} to {mark.status}{why}.",
        )


def _clusters(before: Picture, after: Picture) -> Iterator[Change]:
    for key, mark in after.clusters.items():
        old = before.clusters.get(key)
        if old is None:
            yield Change(
                at=after.at,
                kind="cluster_appeared",
                subject=_of_cluster(key, mark),
                after=str(mark.slices),
                text=f"Ray cluster {key} appeared with {_count(mark.slices, 'slice')}.",
            )
            continue
        yield from _head(key, old, mark, after.at)
        yield from _sight(key, old, mark, after.at)
    for key, mark in before.clusters.items():
        if key not in after.clusters and key not in after.forgotten:
            yield Change(
                at=after.at,
                kind="cluster_gone",
                subject=_of_cluster(key, mark),
                before=str(mark.slices),
                text=f"Ray cluster {key} is gone; it had {_count(mark.slices, 'slice')}.",
            )


def _head(key: str, old: ClusterMark, mark: ClusterMark, at: float) -> Iterator[Change]:
    if old.head_since is None or mark.head_since is None or mark.head_since <= old.head_since + 1:
        return
    ran = format_duration(mark.head_since - old.head_since)
    yield Change(
        at=at,
        kind="head_restarted",
        subject=_of_cluster(key, mark),
        before=format_time(old.head_since),
        after=format_time(mark.head_since),
        happened_at=mark.head_since,
        text=f"The Ray head of {key} restarted; the one before had started {ran} earlier.",
    )


def _sight(key: str, old: ClusterMark, mark: ClusterMark, at: float) -> Iterator[Change]:
    if not old.hidden and mark.hidden:
        why = f": {mark.why}" if mark.why else ""
        yield Change(
            at=at,
            kind="sight_lost",
            subject=_of_cluster(key, mark),
            before="0",
            after=str(mark.hidden),
            text=f"{mark.hidden} of {_count(mark.slices, 'slice')} of {key} cannot be judged{why}.",
        )
    elif old.hidden and not mark.hidden:
        yield Change(
            at=at,
            kind="sight_back",
            subject=_of_cluster(key, mark),
            before=str(old.hidden),
            after="0",
            text=f"All slices of {key} can be judged again.",
        )


# --- slices ---------------------------------------------------------------------------------


def _slices(before: Picture, after: Picture) -> Iterator[Change]:
    for key, mark in after.slices.items():
        old = before.slices.get(key)
        if old is None:
            cluster = before.clusters.get(f"{mark.namespace}/{mark.cluster}")
            # Not new when nobody could have seen it before.
            if cluster is not None and not set(mark.sides).isdisjoint(cluster.sides):
                yield Change(
                    at=after.at,
                    kind="slice_appeared",
                    subject=_of_slice(key, mark),
                    after=mark.status,
                    text=f"Slice {mark.name} of {mark.namespace}/{mark.cluster} appeared, "
                    f"{mark.status}.",
                )
            continue
        if mark.hidden:
            continue
        if mark.status != old.status and old.status != "unknown":
            yield Change(
                at=after.at,
                kind="slice_status",
                subject=_of_slice(key, mark),
                before=old.status,
                after=mark.status,
                text=f"Slice {mark.name} went from {old.status} to {mark.status}.",
            )
        if old.hosts != mark.hosts and old.status != "forming":
            yield from _hosts(key, old, mark, after.at)
    for key, mark in before.slices.items():
        if key not in after.slices and key not in after.forgotten:
            yield Change(
                at=after.at,
                kind="slice_gone",
                subject=_of_slice(key, mark),
                before=mark.status,
                text=f"Slice {mark.name} of {mark.namespace}/{mark.cluster} is gone; "
                f"it was {mark.status}.",
            )


def _hosts(key: str, old: SliceMark, mark: SliceMark, at: float) -> Iterator[Change]:
    """One line a slice, however many of its hosts changed."""
    were = {item.place: item for item in old.hosts}
    told = []
    for item in mark.hosts:
        was = were.get(item.place)
        if was is None:
            told.append(f"{item.place} appeared, {item.state}")
        elif was.state != item.state:
            why = f" ({item.problem})" if item.problem else ""
            told.append(f"{item.place} went from {was.state} to {item.state}{why}")
        elif item.state == "ready" and was.ray and item.ray and was.ray != item.ray:
            told.append(f"{item.place} has a new Ray node")
    there = {item.place for item in mark.hosts}
    told += [f"{place} is gone" for place in were if place not in there]
    if not told:
        return
    yield Change(
        at=at,
        kind="hosts_changed",
        subject=_of_slice(key, mark),
        before=_states(old),
        after=_states(mark),
        text=f"Slice {mark.name}: {_some(told)}.",
    )


def _states(mark: SliceMark) -> str:
    counts = Counter(item.state for item in mark.hosts)
    return ", ".join(
        f"{counts[state]} {state.replace('_', ' ')}"
        for state in ("ready", "not_ready", "missing")
        if counts[state]
    )


def _some(told: list[str]) -> str:
    shown = "; ".join(told[:MOST_TOLD])
    return f"{shown}; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else shown


# --- placement groups -----------------------------------------------------------------------


def _groups(before: Picture, after: Picture) -> Iterator[Change]:
    for key, mark in after.groups.items():
        old = before.groups.get(key)
        if old is not None:
            yield from _moved(key, old, mark, after.at)
            continue
        cluster = before.clusters.get(f"{mark.namespace}/{mark.cluster}")
        seen = cluster is not None and cluster.groups_seen
        since = mark.requested_at is not None and mark.requested_at > before.at
        if seen or since:
            on = _places(mark)
            yield Change(
                at=after.at,
                kind="group_created",
                subject=_of_group(key, mark),
                after=mark.state,
                happened_at=mark.requested_at,
                related=mark.slices[:MOST_RELATED],
                text=f"{_called(mark)} was created, {mark.state}{f' on {on}' if on else ''}.",
            )
    for key, mark in before.groups.items():
        if key not in after.groups and key not in after.forgotten:
            on = _places(mark)
            yield Change(
                at=after.at,
                kind="group_removed",
                subject=_of_group(key, mark),
                before=mark.state,
                related=mark.slices[:MOST_RELATED],
                text=f"{_called(mark)} was removed; it was {mark.state}"
                f"{f' on {on}' if on else ''}.",
            )


def _moved(key: str, old: GroupMark, mark: GroupMark, at: float) -> Iterator[Change]:
    related = tuple(dict.fromkeys((*old.slices, *mark.slices)))[:MOST_RELATED]
    if old.state != mark.state:
        created = mark.state == "CREATED" and old.created_at is None
        yield Change(
            at=at,
            kind="group_state",
            subject=_of_group(key, mark),
            before=old.state,
            after=mark.state,
            happened_at=mark.created_at if created else None,
            related=related,
            text=f"{_called(mark)} went from {old.state} to {mark.state}.",
        )
    last = {item.index: item for item in old.bundles}
    moved = [
        (last[item.index], item)
        for item in mark.bundles
        if item.node and item.index in last and last[item.index].node not in ("", item.node)
    ]
    if moved:
        told = [f"bundle {new.index} from {_place(was)} to {_place(new)}" for was, new in moved]
        yield Change(
            at=at,
            kind="group_moved",
            subject=_of_group(key, mark),
            before=", ".join(dict.fromkeys(_place(was) for was, _ in moved[:MOST_TOLD])),
            after=", ".join(dict.fromkeys(_place(new) for _, new in moved[:MOST_TOLD])),
            related=related,
            text=f"{_called(mark)} moved: {_some(told)}.",
        )


def _called(mark: GroupMark) -> str:
    role = {"head": "Head reservation", "multislice": "Multislice group", "subslice": "Sub-slice"}
    return f"{role.get(mark.role, 'Placement group')} {mark.name}"


def _place(mark: BundleMark) -> str:
    return mark.place or f"node {mark.node}"


def _places(mark: GroupMark) -> str:
    names = [ident.rpartition("/")[2] for ident in mark.slices]
    shown = ", ".join(names[:MOST_TOLD])
    return f"{shown} and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else shown


# --- findings -------------------------------------------------------------------------------


def _findings(before: Picture, after: Picture) -> Iterator[Change]:
    for key, mark in after.findings.items():
        old = before.findings.get(key)
        if old is None:
            yield _finding(mark, "finding_opened", after.at, None, mark.severity, mark.summary)
        elif old.severity != mark.severity or old.cause != mark.cause:
            yield _finding(
                mark, "finding_changed", after.at, _weight(old), _weight(mark), mark.summary
            )
    for key, mark in before.findings.items():
        if key not in after.findings:
            start = mark.since if mark.since is not None else mark.opened
            lasted = format_duration(after.at - start)
            text = f"{mark.code} on {mark.name} closed after {lasted}: {mark.summary}"
            yield _finding(mark, "finding_closed", after.at, mark.severity, None, text)


def _weight(mark: FindingMark) -> str:
    return f"{mark.severity}/{mark.cause}" if mark.cause else mark.severity


def _finding(
    mark: FindingMark,
    kind: ChangeKind,
    at: float,
    before: str | None,
    after: str | None,
    text: str,
) -> Change:
    return Change(
        at=at,
        kind=kind,
        subject=Subject(
            kind=mark.kind,  # type: ignore[arg-type]  # was a Subject's
            id=mark.id,
            name=mark.name,
            namespace=mark.namespace,
            cluster=mark.cluster,
        ),
        before=before,
        after=after,
        code=mark.code,
        severity=mark.severity,
        cause=mark.cause,
        happened_at=mark.since if kind != "finding_closed" else None,
        text=text,
    )
