"""What changed from one look to the next. Pure: two reports in, changes out."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis.finding import Report, Subject
from fleet.times import format_duration, format_time
from history.change import CHANGE_KINDS, Change, ChangeKind, count_of
from history.changed_groups import changed_findings, changed_groups
from history.changed_slices import changed_clusters, changed_slices, changed_sources
from history.marks import Picture
from history.picture import picture_of

UNWATCHED = 660.0
"""Seconds between two looks that are worth a word. Polls take seconds, a rolling update minutes."""

WATCH = Subject(kind="source", id="slicewatch", name="slicewatch")


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
        return (_began(after), *changed_findings(Picture(at=after.at), after))
    return (
        *_resumed(before, after),
        *changed_sources(before, after),
        *changed_clusters(before, after),
        *changed_slices(before, after),
        *changed_groups(before, after),
        *changed_findings(before, after),
    )


def stirred(before: Picture | None, after: Picture) -> bool:
    """Did something change that makes no line of its own but shows on a page (workers)?"""
    if before is None:
        return True
    return any(
        key in before.groups and before.groups[key].workers != mark.workers
        for key, mark in after.groups.items()
    )


def _began(after: Picture) -> Change:
    return Change(
        at=after.at,
        kind="watch_began",
        subject=WATCH,
        text=f"The first look: {count_of(len(after.slices), 'slice')}, "
        f"{count_of(len(after.groups), 'TPU placement group')}, "
        f"{count_of(len(after.findings), 'finding')} open.",
    )


def _resumed(before: Picture, after: Picture) -> Iterator[Change]:
    gap = after.at - before.at
    if gap > UNWATCHED:
        yield Change(
            at=after.at,
            kind="watch_resumed",
            subject=WATCH,
            before=format_time(before.at),
            after=format_time(after.at),
            text=f"Nobody looked for {format_duration(gap)}: "
            "when in that time the changes listed here happened is not known.",
        )


__all__ = ["CHANGE_KINDS", "Change", "ChangeKind", "changes", "compare", "stirred"]
