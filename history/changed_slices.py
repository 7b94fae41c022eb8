"""What changed of sources, Ray clusters and slices between two pictures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from diagnosis.finding import Subject
from fleet.times import format_duration, format_time
from history.change import Change, count_of, some_of
from history.marks import ClusterMark, Picture, SliceMark

# --- sources and clusters -------------------------------------------------------------------


def changed_sources(before: Picture, after: Picture) -> Iterator[Change]:
    """Sources that answer otherwise than before."""
    for name, mark in after.sources.items():
        old = before.sources.get(name)
        if old is None or old.status == mark.status:
            continue
        why = f": {mark.detail or mark.reason}" if mark.detail or mark.reason else ""
        yield Change(
            at=after.at,
            kind="source_state",
            subject=Subject(kind="source", id=name, name=name),
            before=old.status,
            after=mark.status,
            text=f"Source {name} went from {old.status} to {mark.status}{why}.",
        )


def changed_clusters(before: Picture, after: Picture) -> Iterator[Change]:
    """Ray clusters that came or went, whose head restarted, or whose slices went out of sight."""
    for key, mark in after.clusters.items():
        old = before.clusters.get(key)
        if old is None:
            yield Change(
                at=after.at,
                kind="cluster_appeared",
                subject=_of_cluster(key, mark),
                after=str(mark.slices),
                text=f"Ray cluster {key} appeared with {count_of(mark.slices, 'slice')}.",
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
                text=f"Ray cluster {key} is gone; it had {count_of(mark.slices, 'slice')}.",
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
            text=f"{mark.hidden} of {count_of(mark.slices, 'slice')} of {key} "
            f"cannot be judged{why}.",
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


def changed_slices(before: Picture, after: Picture) -> Iterator[Change]:
    """Slices that came, changed status or hosts, or went; one line for all hosts of a slice."""
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
        text=f"Slice {mark.name}: {some_of(told)}.",
    )


def _states(mark: SliceMark) -> str:
    counts = Counter(item.state for item in mark.hosts)
    return ", ".join(
        f"{counts[state]} {state.replace('_', ' ')}"
        for state in ("ready", "not_ready", "missing")
        if counts[state]
    )


def _of_slice(ident: str, mark: SliceMark) -> Subject:
    return Subject(
        kind="slice",
        id=ident,
        name=mark.name,
        namespace=mark.namespace,
        cluster=mark.cluster,
    )


def _of_cluster(ident: str, mark: ClusterMark) -> Subject:
    return Subject(
        kind="ray_cluster",
        id=ident,
        name=mark.cluster,
        namespace=mark.namespace,
        cluster=mark.cluster,
    )
