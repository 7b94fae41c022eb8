"""The report in sentences, the same ones in the terminal and on every page.

Names come from clusters and are put in as they are: whoever shows a sentence escapes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from diagnosis.finding import Finding, Report
from fleet.fitting import PROBLEMS
from fleet.model import SLICE_STATUSES, Host, PlacementGroup, Slice, SliceStatusName
from fleet.observation import SourceStatus
from fleet.times import format_duration

CANNOT_RUN: frozenset[SliceStatusName] = frozenset({"incomplete", "broken"})

ROLES: dict[str, str] = {
    "slice": "a whole slice",
    "multislice": "several whole slices",
    "subslice": "a sub-slice",
    "head": "a slice's head",
    "other": "bundles",
}

WORST_FIRST: tuple[SliceStatusName, ...] = (
    "broken",
    "incomplete",
    "unknown",
    "forming",
    "shared",
    "running",
    "reserved",
    "idle",
)

NOTHING_FOUND = "No TPU slice was found."


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 slice``, ``3 slices``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def status_of(report: Report, item: Slice) -> SliceStatusName:
    """The slice's status; one that nobody judged is ``unknown``."""
    return report.statuses.get(item.id, "unknown")


def ordered(report: Report, slices: Iterable[Slice]) -> list[Slice]:
    """Worst first, then by id: the order never depends on how rows arrived."""
    rank = {status: place for place, status in enumerate(WORST_FIRST)}
    return sorted(slices, key=lambda item: (rank[status_of(report, item)], natural(item.id)))


def natural(text: str) -> tuple[tuple[str, int], ...]:
    """A sort key that puts ``group-9`` before ``group-10``."""
    parts = re.findall(r"(\D*)([0-9]{0,9})", text)
    return tuple((words, int(digits or 0)) for words, digits in parts)


def since(report: Report, item: Slice) -> float | None:
    """When the slice got its status; ``None`` when the first look already showed it.

    The first look knows no earlier one: "idle for 0 s" would be a guess.
    """
    moment = report.status_since.get(item.id)
    return moment if moment is not None and moment < report.fleet.now else None


def headline(report: Report) -> str:
    """One sentence that sums the fleet up, worst first; it never claims health for the unseen."""
    slices = report.fleet.slices
    tally = Counter(status_of(report, item) for item in slices)
    failed = sum(tally[status] for status in CANNOT_RUN)
    parts = []
    if not slices:
        parts.append(NOTHING_FOUND)
    elif failed:
        parts.append(_failed(failed, len(slices)))
    elif tally["unknown"] == len(slices):
        parts.append(f"Nothing can be said about the {count(len(slices), 'slice')}.")
    else:
        parts.append(_all_well(tally, len(slices)))
    if tally["unknown"] and (failed or tally["unknown"] < len(slices)):
        parts.append(f"{count(tally['unknown'], 'slice')} cannot be seen well enough to say.")
    stuck = _stuck(report)
    if stuck:
        parts.append(f"{count(stuck, 'placement group')} cannot go on.")
    silent = [source.name for source in report.fleet.sources if source.status == "down"]
    parts.append(_findings(report, bool(tally["unknown"] or silent)))
    if silent:
        parts.append(f"{count(len(silent), 'source')} cannot be reached.")
    return " ".join(part for part in parts if part)


def _failed(failed: int, total: int) -> str:
    if total == 1:
        return "The only slice cannot run."
    return f"{failed:,} of {total:,} slices cannot run."


def _all_well(tally: Counter[SliceStatusName], total: int) -> str:
    """Nothing failed: what the slices that can be seen are up to."""
    seen = total - tally["unknown"]
    present = [
        (status, tally[status])
        for status in SLICE_STATUSES
        if tally[status] and status != "unknown"
    ]
    words = ", ".join(f"{number:,} {status}" for status, number in present)
    if tally["forming"]:
        return f"{count(seen, 'slice')}: {words}."
    if seen < total:
        return f"{seen:,} of {total:,} slices are whole: {words}."
    if total == 1:
        return f"The only slice is whole and {present[0][0]}."
    return f"All {total:,} slices are whole: {words}."


def _stuck(report: Report) -> int:
    """Groups with a critical finding of their own."""
    ids = {
        finding.subject.id
        for finding in report.findings
        if finding.severity == "critical" and finding.subject.kind == "placement_group"
    }
    return sum(bool(ids & {group.key, group.id}) for group in report.fleet.placement_groups)


def _findings(report: Report, blind: bool) -> str:
    if not report.findings:
        # "Nothing is wrong" is a claim about everything: only when everything was seen.
        return "" if blind or report.unknowns else "Nothing is wrong."
    if len(report.findings) == 1:
        return f"1 finding ({report.findings[0].severity})."
    tally = Counter(finding.severity for finding in report.findings)
    words = ", ".join(f"{number:,} {severity}" for severity, number in tally.items())
    return f"{count(len(report.findings), 'finding')}: {words}."


def shape(item: Slice) -> str:
    """``v6e 4x4``; what is not known is left out."""
    return " ".join(part for part in (item.generation, item.topology_name) if part) or "shape ?"


def hosts_ratio(item: Slice) -> str:
    """``3 of 4 hosts``; ``3 hosts`` where the topology is not known."""
    if item.hosts_expected is None:
        return f"{count(item.hosts_alive, 'host')}, unknown how many it needs"
    return f"{item.hosts_alive:,} of {count(item.hosts_expected, 'host')}"


def host_name(host: Host) -> str:
    """``worker 2``, or its pod or key where it has no worker id."""
    return f"worker {host.worker_id}" if host.worker_id is not None else host.pod_name or host.key


def host_trouble(host: Host) -> str:
    """Why this host cannot work, in words; empty when it can."""
    if host.duplicate:
        return "another live host claims the same worker id or hostname"
    if host.problem is not None:
        return PROBLEMS.get(host.problem, host.problem)
    return "" if host.state == "ready" else host.state.replace("_", " ")


def slice_sentence(report: Report, item: Slice) -> str:
    """What a slice is up to, in a sentence or two."""
    status = status_of(report, item)
    moment = since(report, item)
    start = f"{item.name} is {status}: {hosts_ratio(item)}"
    if moment is not None:
        age = format_duration(report.fleet.now - moment)
        start = f"{item.name} has been {status} for {age}: {hosts_ratio(item)}"
    if status == "unknown" and item.blind:
        return f"{start}. It cannot be judged: {', '.join(item.blind)}."
    troubled = [host for host in item.hosts if host_trouble(host)]
    if troubled:
        named = "; ".join(f"{host_name(host)}: {host_trouble(host)}" for host in troubled[:3])
        more = f"; and {len(troubled) - 3:,} more" if len(troubled) > 3 else ""
        return f"{start}. {named}{more}."
    holders = _holders(report, item)
    return f"{start}, held by {holders}." if holders else f"{start}."


def _holders(report: Report, item: Slice) -> str:
    groups = [group for key in item.held_by if (group := report.fleet.group(key)) is not None]
    names = [group.label for group in groups[:3]]
    if len(groups) > 3:
        names.append(f"{len(groups) - 3:,} more")
    if not names and item.workers:
        return f"{count(len(item.workers), 'worker')} without a placement group"
    return ", ".join(names)


def group_sentence(report: Report, group: PlacementGroup) -> str:
    """What a placement group is up to, and how long it has waited."""
    want = ROLES.get(group.role, group.role)
    placed = len(group.bundles) - len(group.unplaced)
    if group.waiting:
        wait = f" for {format_duration(group.pending_seconds)}" if group.pending_seconds else ""
        tries = f" after {count(group.attempts, 'attempt')}" if group.attempts else ""
        verb = "has lost a host and waits" if group.state == "RESCHEDULING" else "waits"
        said = f" ({group.scheduling_state})" if group.scheduling_state else ""
        return (
            f"{group.label} {verb}{wait}{tries}{said}: "
            f"{placed:,} of {count(len(group.bundles), 'bundle')} placed."
        )
    names = {item.id: item.name for item in report.fleet.slices}
    where = ", ".join(names.get(key, key) for key in group.slices) or "no slice"
    alive = sum(worker.alive for worker in group.workers)
    return (
        f"{group.label} holds {want} ({count(len(group.bundles), 'bundle')}) on {where}; "
        f"{count(alive, 'worker')} running."
    )


def findings_about_group(report: Report, group: PlacementGroup) -> list[Finding]:
    """Findings about a group, then those of which it is a consequence, worst first each.

    A consequence is folded into its cause, which names the group in ``affects``.
    """
    own = [
        finding
        for finding in report.findings
        if finding.subject.kind == "placement_group" and finding.subject.id in (group.key, group.id)
    ]
    starts = (f"placement group {group.label} ", f"placement group {group.label}:")
    place = (group.namespace, group.cluster)
    behind = [
        finding
        for finding in report.findings
        if finding not in own
        and (finding.subject.namespace, finding.subject.cluster) == place
        and any(text.startswith(starts) for text in finding.affects)
    ]
    return own + behind


def findings_by_group(report: Report) -> dict[str, list[Finding]]:
    """:func:`findings_about_group` for all groups at once, by their keys; the others have none."""
    ids: dict[str, list[str]] = {}
    labels: dict[tuple[str, str, str], list[str]] = {}
    for group in report.fleet.placement_groups:
        for ident in {group.key, group.id}:
            ids.setdefault(ident, []).append(group.key)
        place = (group.namespace, group.cluster, group.label)
        labels.setdefault(place, []).append(group.key)
    own: dict[str, list[Finding]] = {}
    behind: dict[str, list[Finding]] = {}
    for finding in report.findings:
        subject = finding.subject
        mine = ids.get(subject.id, []) if subject.kind == "placement_group" else []
        for key in mine:
            own.setdefault(key, []).append(finding)
        named = {
            key
            for text in finding.affects
            for label in _labels_in(text)
            for key in labels.get((subject.namespace, subject.cluster, label), ())
        }
        for key in named.difference(mine):
            behind.setdefault(key, []).append(finding)
    return {key: own.get(key, []) + behind.get(key, []) for key in {*own, *behind}}


def _labels_in(text: str) -> list[str]:
    """What "placement group NAME …" may name: a name can hold spaces and colons itself."""
    start = "placement group "
    if not text.startswith(start):
        return []
    rest = text[len(start) : len(start) + 300]
    return [rest[:place] for place, char in enumerate(rest) if char in " :"]


def findings_about_slice(report: Report, item: Slice) -> list[Finding]:
    """Findings about a slice, then those about the placement groups that lie on it."""
    own = list(report.findings_of("slice", item.id))
    keys = {*item.held_by, *item.head_held_by}
    keys |= {group.key for group in report.fleet.placement_groups if item.id in group.slices}
    return own + [
        finding
        for finding in report.findings
        if finding.subject.kind == "placement_group" and finding.subject.id in keys
    ]


def source_sentence(source: SourceStatus) -> str:
    """How one source answered: ``degraded: 100 of 302 placement_groups``."""
    lost = [
        f"{part.rows:,} of {part.total:,} {part.part}"
        if part.total >= 0
        else f"only {part.rows:,} {part.part}"
        for part in source.truncated
    ]
    lost += [f"no {part}" for part in source.missing]
    lost += [f"unreadable fields in {part}" for part in source.malformed]
    detail = source.detail or "; ".join(lost)
    return f"{source.status}: {detail}" if detail else source.status


def completeness(sources: Iterable[SourceStatus]) -> str:
    """``all 3 sources complete``, or which are not."""
    asked = [source for source in sources if source.status != "suspended"]
    bad = [source for source in asked if source.status == "down" or not source.complete]
    if not asked:
        return "no source"
    if not bad:
        return "its source is complete" if len(asked) == 1 else f"all {len(asked)} sources complete"
    down = sum(source.status == "down" for source in bad)
    words = [f"{down} of {count(len(asked), 'source')} down"] if down else []
    if len(bad) > down:
        words.append(f"{len(bad) - down} of {count(len(asked), 'source')} incomplete")
    return ", ".join(words)
