"""What changed of placement groups and findings between two pictures. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis.finding import Subject
from fleet.times import format_duration
from history.change import MOST_TOLD, Change, ChangeKind, some_of
from history.marks import BundleMark, FindingMark, GroupMark, Picture

MOST_RELATED = 16

# --- placement groups -----------------------------------------------------------------------


def changed_groups(before: Picture, after: Picture) -> Iterator[Change]:
    """Placement groups that came, changed their state, moved or went."""
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
            text=f"{_called(mark)} moved: {some_of(told)}.",
        )


def _of_group(ident: str, mark: GroupMark) -> Subject:
    return Subject(
        kind="placement_group",
        id=ident,
        name=mark.name,
        namespace=mark.namespace,
        cluster=mark.cluster,
    )


def _called(mark: GroupMark) -> str:
    role = {"head": "Head reservation", "multislice": "Multislice group", "subslice": "Sub-slice"}
    return f"{role.get(mark.role, 'Placement group')} {mark.name}"


def _place(mark: BundleMark) -> str:
    return mark.place or "a node that is not known"


def _places(mark: GroupMark) -> str:
    names = [ident.rpartition("/")[2] for ident in mark.slices]
    shown = ", ".join(names[:MOST_TOLD])
    return f"{shown} and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else shown


# --- findings -------------------------------------------------------------------------------


def changed_findings(before: Picture, after: Picture) -> Iterator[Change]:
    """Findings that opened, changed severity or cause, or closed."""
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
