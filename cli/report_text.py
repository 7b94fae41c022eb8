"""A report for the terminal: what is wrong, why, what to type; then the slices, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from cli.terminal import clean, style, wrap
from diagnosis.finding import Finding, Report
from exporter.words import headline, hosts_ratio, ordered, shape, source_sentence, status_of
from fleet.times import format_duration, format_time

MAX_EVIDENCE = 12
"""Evidence lines a finding in the terminal; JSON has them all."""
MAX_UNKNOWN = 5
MAX_SLICES = 100
"""Slices in the terminal, worst first."""

_SEVERITY = {
    "critical": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "info": {"fg": "blue", "bold": True},
}


def report_lines(report: Report) -> Iterator[str]:
    """The whole report; a healthy and fully seen fleet is one line."""
    yield from wrap(headline(report), 0)
    if _nothing_to_say(report):
        return
    for source in report.fleet.sources:
        if source.status not in ("ok", "suspended") or not source.complete:
            first, *rest = wrap(f"Source {source.name} is {source_sentence(source)}", 2)
            yield style(first, fg="yellow")
            yield from rest
    for finding in report.findings:
        yield ""
        yield from finding_lines(finding, report.fleet.now)
    yield from _unknown_lines(report)
    yield from _slice_lines(report)
    yield ""
    yield f"As of {format_time(report.fleet.now) or 'an unknown time'}."


def _nothing_to_say(report: Report) -> bool:
    return not (
        report.findings
        or report.unknowns
        or any(status_of(report, item) == "unknown" for item in report.fleet.slices)
        or any(
            source.status in ("down", "degraded") or not source.complete
            for source in report.fleet.sources
            if source.status != "suspended"
        )
    )


def finding_lines(finding: Finding, now: float) -> Iterator[str]:
    """One finding: its sentence first, then whom it affects, why, and what to type."""
    head = style(finding.severity.upper(), **_SEVERITY[finding.severity])
    cause = f" ({clean(finding.cause)})" if finding.cause else ""
    age = f", since {format_duration(now - finding.since)}" if finding.since is not None else ""
    kind = finding.subject.kind.replace("_", " ")
    yield f"{head}  {clean(finding.code)}{cause}: {kind} {clean(finding.subject.name)}{age}"
    yield from (f"  {line}" if number == 0 else line for number, line in _body(finding.summary, 2))
    for number, text in enumerate(finding.affects):
        yield from _labelled("Affects" if number == 0 else "", text)
    yield from _evidence_lines(finding)
    for number, action in enumerate(finding.actions):
        yield from _labelled("Next" if number == 0 else "", action.text)
        if action.command:
            # Never wrapped: it is there to be pasted.
            yield " " * 13 + style(clean(action.command), fg="cyan")
    if finding.runbook:
        yield from _labelled("Runbook", finding.runbook)


def _evidence_lines(finding: Finding) -> Iterator[str]:
    """What was read, with source and object once for all their fields."""
    label, last = "Why", None
    for item in finding.evidence[:MAX_EVIDENCE]:
        if (item.source, item.object) != last:
            last = (item.source, item.object)
            yield from _labelled(label, f"{item.object} ({item.source})")
            label = ""
        lines = wrap(f"{item.field} = {item.value}", 15)
        yield from (" " * 13 + line if number == 0 else line for number, line in enumerate(lines))
    hidden = len(finding.evidence) - MAX_EVIDENCE
    if hidden > 0:
        yield from _labelled("", f"… and {hidden} more (--format json)")


def _body(text: str, indent: int) -> Iterator[tuple[int, str]]:
    return iter(enumerate(wrap(text, indent)))


def _labelled(label: str, text: str) -> Iterator[str]:
    start = f"  {label:<9}"
    for number, line in enumerate(wrap(text, len(start)) or [""]):
        yield (style(start, dim=True) if label else start) + line if number == 0 else line


def _unknown_lines(report: Report) -> Iterator[str]:
    if not report.unknowns:
        return
    reasons: dict[str, set[str]] = {}
    for item in report.unknowns:
        reasons.setdefault(item.reason, set()).add(item.code)
    yield ""
    yield style("Not judged, for want of data", bold=True)
    for reason, codes in list(reasons.items())[:MAX_UNKNOWN]:
        yield from ("  " + line if n == 0 else line for n, line in _unknown(reason, codes))
    if len(reasons) > MAX_UNKNOWN:
        yield f"  … and {len(reasons) - MAX_UNKNOWN} more reasons"


def _unknown(reason: str, codes: set[str]) -> Iterator[tuple[int, str]]:
    return iter(enumerate(wrap(f"{reason}: {', '.join(sorted(codes))}", 4)))


def _slice_lines(report: Report) -> Iterator[str]:
    slices = report.fleet.slices
    if not slices:
        return
    yield ""
    yield style("Slices", bold=True)
    rows = []
    for item in ordered(report, slices)[:MAX_SLICES]:
        groups = [report.fleet.group(key) for key in item.held_by]
        held = ", ".join(clean(group.label) for group in groups if group is not None)
        rows.append(
            (
                status_of(report, item),
                clean(item.id),
                clean(shape(item)),
                clean(hosts_ratio(item)),
                held or "–",
            )
        )
    widths = [min(60, max(len(row[column]) for row in rows)) for column in range(4)]
    for row in rows:
        cells = [f"{row[column]:<{widths[column]}}" for column in range(4)]
        yield "  " + "  ".join((*cells, row[4])).rstrip()
    if len(slices) > MAX_SLICES:
        yield f"  … and {len(slices) - MAX_SLICES:,} more, none of them worse (--format json)"
