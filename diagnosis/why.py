"""The reasoning about one slice or placement group, also when nothing is wrong with it."""

from __future__ import annotations

import difflib

from diagnosis.finding import Finding, Report, Unknown
from diagnosis.view import host_name, names_of
from fleet.model import PlacementGroup, Slice
from fleet.times import format_duration

STATUS_WORDS: dict[str, str] = {
    "idle": "whole and free",
    "reserved": "whole and held, without a worker on every host",
    "running": "whole, held as a whole, with a worker on every host",
    "shared": "whole, held in part or by several",
    "forming": "young and not whole yet",
    "incomplete": "hosts are missing",
    "broken": "its hosts are there and cannot work as one slice",
    "unknown": "not enough can be seen to say",
}


def why(report: Report, name: str) -> list[str]:
    """What is known of one object and what follows from it, in sentences.

    Args:
        report: the look to explain.
        name: a slice's name or id, or a placement group's name, id or key.

    Raises:
        LookupError: there is no such object; the message names the nearest ones.
    """
    slices = [item for item in report.fleet.slices if name in (item.id, item.name)]
    groups = [
        item for item in report.fleet.placement_groups if name in (item.key, item.id, item.name)
    ]
    if not slices and not groups:
        known = sorted(
            {item.name for item in report.fleet.slices}
            | {item.name or item.id for item in report.fleet.placement_groups}
        )
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LookupError(f"no slice or placement group is called {name!r}{hint}")
    lines: list[str] = []
    for item in slices:
        lines += _slice(report, item)
    for group in groups:
        lines += _group(report, group)
    return lines


def _slice(report: Report, item: Slice) -> list[str]:
    status = report.statuses.get(item.id, "unknown")
    since = report.status_since.get(item.id)
    lasting = f" for {format_duration(report.fleet.now - since)}" if since is not None else ""
    shape = " ".join(part for part in (item.generation, item.topology_name) if part) or "shape ?"
    lines = [f"Slice {item.id} ({shape}) is {status}{lasting}: {STATUS_WORDS[status]}."]
    expected = item.hosts_expected
    if expected is None:
        lines.append(f"{item.hosts_alive} hosts are live; how many it needs is not known.")
    else:
        verdict = "whole" if item.whole else "not whole"
        lines.append(f"{verdict}: {item.hosts_alive} of {expected} hosts.")
    for host in item.hosts:
        if host.state != "ready":
            why_not = host.problem or host.state
            told = f" ({host.problem_detail})" if host.problem_detail else ""
            lines.append(f"{host_name(host)}: {why_not}{told}.")
    seen = " and ".join(item.seen_by) or "nobody"
    lines.append(f"Seen by {seen}.")
    lines += [f"Cannot be seen: {reason}." for reason in item.blind]
    labels = {group.key: group.label for group in report.fleet.placement_groups}
    heads = [labels.get(key, key) for key in item.head_held_by]
    offered = any(host.offers_head for host in item.hosts)
    if heads:
        lines.append(f"head held by {names_of(heads)}.")
    else:
        lines.append("head free." if offered else "no host offers a head.")
    holders = [labels.get(key, key) for key in item.held_by]
    lines.append(f"held by {names_of(holders)} ({item.holding})." if holders else "held by nobody.")
    alive = [worker for worker in item.workers if worker.alive]
    covered = {worker.host_key for worker in alive}
    lines.append(
        f"{len(alive)} workers run on {len(covered)} of its hosts."
        if alive
        else "no worker runs on it."
    )
    waiting = [
        group.label
        for group in report.fleet.placement_groups
        if group.waiting
        and (group.namespace, group.cluster) == (item.namespace, item.cluster)
        and item.name in group.wanted_slices
    ]
    lines.append(f"{names_of(waiting)} waits for it." if waiting else "nothing waits for it.")
    return lines + _verdicts(report, "slice", item.id, f"{item.namespace}/{item.cluster}")


def _group(report: Report, group: PlacementGroup) -> list[str]:
    placed = len(group.bundles) - len(group.unplaced)
    wait = f" for {format_duration(group.pending_seconds)}" if group.waiting else ""
    lines = [
        f"Placement group {group.label} ({group.key}) is {group.state or '?'}{wait}, "
        f"role {group.role}.",
        f"{placed} of {len(group.bundles)} bundles are on live hosts, {group.chips:g} TPUs in all.",
    ]
    names = {item.id: item.name for item in report.fleet.slices}
    if group.slices:
        lines.append(f"It lies on {names_of(names.get(key, key) for key in group.slices)}.")
    if group.wanted_slices:
        lines.append(f"Its selectors name {names_of(group.wanted_slices)}.")
    if group.wanted_pod_type:
        lines.append(f"It wants a slice of shape {group.wanted_pod_type}.")
    if group.attempts is not None and group.waiting:
        lines.append(
            f"Ray has tried {group.attempts:,} times ({group.scheduling_state or 'no state told'})."
        )
    alive = sum(worker.alive for worker in group.workers)
    dead = sum(worker.dead and not worker.on_purpose for worker in group.workers)
    lines.append(f"{alive} of its workers run, {dead} died.")
    return lines + _verdicts(
        report, "placement_group", group.key, f"{group.namespace}/{group.cluster}"
    )


def _verdicts(report: Report, kind: str, subject_id: str, cluster: str) -> list[str]:
    own = report.findings_of(kind, subject_id)
    lines = [_found(finding) for finding in own]
    name = subject_id.rpartition("/")[2]
    lines += [
        f"also touched by {finding.code}: {finding.summary}"
        for finding in report.findings
        if finding not in own and _mentions(report, finding, kind, subject_id, name)
    ]
    if not lines:
        lines.append("nothing is wrong with it that can be seen.")
    waiting = [
        finding
        for finding in report.unconfirmed
        if (finding.subject.kind, finding.subject.id) == (kind, subject_id)
    ]
    lines += [f"seen once, waits for a second look: {finding.summary}" for finding in waiting]
    return lines + [
        f"not judged for {code}: {reason}."
        for code, reason in sorted(_unknown(report.unknowns, subject_id, cluster))
    ]


def _found(finding: Finding) -> str:
    cause = f" ({finding.cause})" if finding.cause else ""
    return f"{finding.severity}: {finding.code}{cause}: {finding.summary}"


def _mentions(report: Report, finding: Finding, kind: str, subject_id: str, name: str) -> bool:
    if kind == "placement_group":
        group = report.fleet.group(subject_id)
        name = group.label if group is not None else name
    return any(name in text for text in (finding.summary, *finding.affects))


def _unknown(unknowns: tuple[Unknown, ...], subject_id: str, cluster: str) -> set[tuple[str, str]]:
    return {
        (item.code, item.reason)
        for item in unknowns
        if item.subject is None or item.subject.id in (subject_id, cluster)
    }
