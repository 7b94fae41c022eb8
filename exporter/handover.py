"""A finding, a slice or a gang as Markdown, for a chat or a ticket.

Names come from clusters: in running text they are escaped, commands stand in fences that their
text cannot close.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from diagnosis.finding import Finding, Report
from exporter.words import (
    completeness,
    findings_about_slice,
    group_sentence,
    host_name,
    host_trouble,
    shape,
    slice_sentence,
)
from fleet.model import Slice
from fleet.times import format_duration, format_time

MOST_HOSTS = 20
"""Hosts in a text; of more only those in trouble are named."""

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~$@:])")
_LONGEST = 500


def finding_text(report: Report, finding: Finding, url: str | None = None) -> str:
    """One finding: what, whom it affects, what was read, what to type."""
    cause = f" ({_say(finding.cause)})" if finding.cause else ""
    lines = [f"**{_say(finding.code)}**{cause}, {finding.severity}: {_say(finding.summary)}", ""]
    if finding.since is not None:
        age = format_duration(report.fleet.now - finding.since)
        lines.append(f"- since {format_time(finding.since)} ({age})")
    lines += [f"- also affects: {_say(text)}" for text in finding.affects[:5]]
    lines += [
        f"- {_say(item.source)}, {_say(item.object)}: {_say(item.field)} = {_code(item.value)}"
        for item in finding.evidence[:10]
    ]
    lines.append(f"- {_looked(report)}")
    if url:
        lines.append(f"- {url}")
    for action in finding.actions:
        lines += ["", _say(action.text)]
        if action.command:
            lines += _fence(action.command)
    return "\n".join(lines) + "\n"


def slice_text(report: Report, item: Slice, url: str | None = None) -> str:
    """One slice: what it is up to, its findings, its hosts, who holds it."""
    lines = [f"**{_say(slice_sentence(report, item))}**", ""]
    place = f"Ray cluster {_code(f'{item.namespace}/{item.cluster}')}"
    pools = f", node pool {_code(', '.join(item.node_pools))}" if item.node_pools else ""
    lines += [f"- {_say(shape(item))}, {place}{pools}", f"- {_looked(report)}"]
    if url:
        lines.append(f"- {url}")
    for finding in findings_about_slice(report, item)[:5]:
        cause = f" ({_say(finding.cause)})" if finding.cause else ""
        lines.append(f"- {finding.severity} {_say(finding.code)}{cause}: {_say(finding.summary)}")
    for key in item.held_by[:5]:
        group = report.fleet.group(key)
        lines.append(f"- {_say(group_sentence(report, group) if group else key)}")
    hosts = list(item.hosts)
    if len(hosts) > MOST_HOSTS:
        hosts = [host for host in hosts if host_trouble(host)][:MOST_HOSTS]
        lines += ["", f"Hosts in trouble, of {len(item.hosts):,}:"]
    if hosts:
        lines += ["", "| worker | state | pod | node | Ray node |", "|---|---|---|---|---|"]
    for host in hosts:
        state = host_trouble(host) or "ready"
        cells = (
            host_name(host).removeprefix("worker "),
            state,
            host.pod_name,
            host.node_name,
            host.ray_node_id and host.ray_node_id[:12],
        )
        lines.append("| " + " | ".join(_say(cell or "–") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _looked(report: Report) -> str:
    when = format_time(report.fleet.now) or "an unknown time"
    return f"as of {when}; {completeness(report.fleet.sources)}"


def _printable(text: object) -> str:
    flat = " ".join(str(text)[: _LONGEST + 1].split())
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in flat)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


_ODD = re.compile(r"[<>\[\]`*|@]|\s#|^#")


def _say(text: object) -> str:
    """Text that Markdown shows as it is. Only what is odd is escaped: names stay readable."""
    shown = _printable(text)
    return _MARKS.sub(r"\\\1", shown) if _ODD.search(shown) else shown


def _code(text: object) -> str:
    shown = _printable(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else "(empty)"


def _fence(text: str) -> Iterable[str]:
    body = "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}"
        for char in text[:5000]
    )
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return (ticks, body, ticks)
