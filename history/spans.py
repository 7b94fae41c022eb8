"""Changes as spans of time, as a timeline draws them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from diagnosis.finding import Subject
from history.changes import Change


class FindingSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One finding from ``opened`` to ``closed`` (``None``: still open at the end asked for).

    ``since``: since when the fault was there, where the sources say so. Severity and cause are the
    last ones.
    """

    code: str
    subject: Subject
    severity: str
    cause: str | None
    text: str
    opened: float
    closed: float | None = None
    since: float | None = None


class StatusSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A slice's status from ``start`` until ``end``. ``gone`` while it was not there."""

    status: str
    start: float
    end: float


def finding_spans(found: Iterable[Change], start: float, end: float) -> list[FindingSpan]:
    """Findings that were open at some time between ``start`` and ``end``, oldest first.

    Args:
        found: all changes of findings up to ``end``, in any order.
    """
    open_now: dict[tuple[str, str, str], FindingSpan] = {}
    spans: list[FindingSpan] = []
    for change in sorted(found, key=lambda item: item.at):
        key = (change.code or "", change.subject.kind, change.subject.id)
        old = open_now.get(key)
        if change.kind == "finding_closed":
            if old is not None:
                del open_now[key]
                spans.append(msgspec.structs.replace(old, closed=change.at))
        elif change.kind in ("finding_opened", "finding_changed"):
            open_now[key] = FindingSpan(
                code=change.code or "",
                subject=change.subject,
                severity=change.severity or "",
                cause=change.cause,
                text=change.text,
                opened=old.opened if old is not None else change.at,
                since=change.happened_at,
            )
    spans += open_now.values()
    inside = [
        span
        for span in spans
        if span.opened <= end and (span.closed is None or span.closed >= start)
    ]
    return sorted(inside, key=lambda span: (span.opened, span.code, span.subject.id))


def status_spans(
    found: Iterable[Change], first: str | None, start: float, end: float
) -> list[StatusSpan]:
    """A slice's statuses from ``start`` to ``end``, oldest first and without holes.

    Args:
        found: the slice's ``slice_…`` changes in that time, in any order.
        first: its status at ``start``; ``None`` when it is not known, which begins with a hole.
    """
    spans: list[StatusSpan] = []
    status, at = first, start
    for change in sorted(found, key=lambda item: item.at):
        if change.kind not in ("slice_status", "slice_appeared", "slice_gone"):
            continue
        if status is None and change.kind == "slice_status":
            status = change.before
        if status is not None and change.at > at:
            spans.append(StatusSpan(status=status, start=at, end=change.at))
        status = "gone" if change.kind == "slice_gone" else change.after
        at = change.at
    if status is not None and end > at:
        spans.append(StatusSpan(status=status, start=at, end=end))
    return spans
