"""From a fleet to a report: run the rules, fold, and open and close findings over time.

One look (``memory=None``) judges what it sees. With a memory, a finding opens when two looks in a
row show it, or when the APIs' own timestamps date it further back than a blip; it closes after two
looks in a row without it. While its rule cannot judge (a source is down, a head has just
restarted), an open finding stays as it was last seen and says so: a monitor that goes blind must
not call the fault mended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from diagnosis.catalogue import CODES
from diagnosis.finding import SEVERITIES, Evidence, Finding, Report, Unknown
from diagnosis.folding import fold
from diagnosis.memory import Attempts, FindingKey, Mark, Memory, Track
from diagnosis.rules.base import Hit, Outcome, Rule, available, cluster_subject, unknown
from diagnosis.rules.dynamic import judge_unused_slices
from diagnosis.rules.registry import RULES
from diagnosis.rules.sources import judge_sources
from diagnosis.status import broken_slices, status_of
from diagnosis.thresholds import Thresholds
from diagnosis.view import View
from fleet.model import ClusterView, Fleet, SliceStatusName
from fleet.times import format_time

TWO_HEADS_FOR = 120.0
"""Two live heads hold judgements back this long at most: a head that stays is no restart."""

NOT_SEEN = "last seen"

RANK = {code: place for place, code in enumerate(CODES)}
"""The catalogue's order, from the hardware up to the work on it."""

DEFAULTS = Thresholds()


def judge(
    fleet: Fleet, memory: Memory | None = None, thresholds: Thresholds = DEFAULTS
) -> tuple[Report, Memory]:
    """Judge one look.

    Args:
        fleet: what was seen; its ``now`` is the only clock.
        memory: what earlier looks left; ``None`` for a single look that judges what it sees.
        thresholds: the numbers that rules compare against.

    Returns:
        The report, and the memory for the next look. Never raises on strange input.
    """
    view = _view(fleet, thresholds, memory)
    hits: list[Hit] = []
    unknowns: list[Unknown] = []
    for outcome in _outcomes(view):
        if isinstance(outcome, Hit):
            hits.append(outcome)
        else:
            unknowns.append(outcome)
    hits = _distinct(hits)
    folded = fold(hits)
    codes = broken_slices(hits)
    statuses: dict[str, SliceStatusName] = {
        item.id: status_of(view, item, codes) for item in fleet.slices
    }
    blind = _Blind(unknowns)
    tracks = _track(view, folded, blind)
    findings = [track.finding for track in tracks.values() if track.open]
    waiting = [track.finding for track in tracks.values() if not track.open and track.missed == 0]
    since = _status_since(view, statuses, findings)
    report = Report(
        fleet=fleet,
        findings=tuple(sorted(findings, key=_order)),
        unconfirmed=tuple(sorted(waiting, key=_order)),
        unknowns=tuple(
            sorted(
                dict.fromkeys(unknowns),
                key=lambda item: (
                    item.code,
                    item.subject.id if item.subject else "",
                    item.reason,
                ),
            )
        ),
        statuses=statuses,
        status_since=since,
    )
    after = Memory(
        looks=(memory.looks if memory is not None else 0) + 1,
        eager=memory.eager if memory is not None else True,
        at=fleet.now,
        tracks=tracks,
        marks=_marks(view, blind),
        attempts={
            group.key: Attempts(at=fleet.now, count=group.attempts)
            for group in fleet.placement_groups
            if group.waiting and group.attempts is not None
        },
        seats=view.seats,
        statuses={key: (status, since[key]) for key, status in statuses.items()},
    )
    return report, after


def replay(fleets: Iterable[Fleet], thresholds: Thresholds = DEFAULTS) -> Report:
    """The report after several looks in a row (a bundle's frames, oldest first).

    One frame is a single look.

    Raises:
        ValueError: there is no frame at all.
    """
    frames = list(fleets)
    if not frames:
        raise ValueError("no frames to judge")
    if len(frames) == 1:
        return judge(frames[0], None, thresholds)[0]
    memory = Memory(eager=False)
    for fleet in frames[:-1]:
        _, memory = judge(fleet, memory, thresholds)
    return judge(frames[-1], memory, thresholds)[0]


def raw_hits(fleet: Fleet, thresholds: Thresholds = DEFAULTS) -> list[Hit]:
    """What the rules say of a single look, before folding: for tests and for ``--why``."""
    view = _view(fleet, thresholds, None)
    return _distinct([item for item in _outcomes(view) if isinstance(item, Hit)])


def _view(fleet: Fleet, thresholds: Thresholds, memory: Memory | None) -> View:
    view = View(fleet, thresholds, memory)
    view.held_off = {
        cluster.id: reason
        for cluster in fleet.clusters
        if (reason := _hold_off(view, cluster)) is not None
    }
    return view


# --- running rules --------------------------------------------------------------------------


def _hold_off(view: View, cluster: ClusterView) -> str | None:
    """Why Ray's side of a cluster cannot be judged right now (facts/ray_2_60.md, row limits)."""
    since = cluster.head_since
    age = view.now - since if since is not None else None
    limit = view.thresholds.head_restart_hold_off
    if cluster.heads_alive > 1 and (age is None or age < max(TWO_HEADS_FOR, limit)):
        return f"{cluster.heads_alive} heads are ALIVE at once: the head has just restarted"
    if age is not None and age < limit:
        return f"the Ray head started {max(age, 0.0):.0f} s ago; its picture is not settled yet"
    return None


def _outcomes(view: View) -> Iterator[Outcome]:
    yield from judge_sources(view)
    yield from judge_unused_slices(view)
    for cluster in view.fleet.clusters:
        if cluster.suspended:
            continue
        for rule in RULES:
            yield from _run(view, cluster, rule)


def _run(view: View, cluster: ClusterView, rule: Rule) -> Iterator[Outcome]:
    if rule.kubernetes_only and not cluster.has_kubernetes:
        return
    needs = [need for need in rule.needs if need.startswith("ray:") or cluster.has_kubernetes]
    lacking = [need for need in needs if not available(view, cluster, need)]
    if not any(available(view, cluster, part) for part in rule.either):
        lacking += rule.either
    if lacking:
        yield unknown(rule.code, cluster_subject(cluster), _lack(cluster, lacking))
        if not rule.partial:
            return
    reason = view.held_off.get(cluster.id)
    if reason is not None and rule.ray_side:
        yield unknown(rule.code, cluster_subject(cluster), reason)
        return
    yield from rule.judge(view, cluster)


def _lack(cluster: ClusterView, lacking: list[str]) -> str:
    told = ", ".join(need.replace(":", "'s ").replace("_", " ") for need in lacking)
    ray = any(need.startswith("ray:") for need in lacking)
    detail = cluster.source.detail if ray and cluster.source.detail else ""
    return f"{told} not answered in full" + (f" ({detail[:160]})" if detail else "")


def _distinct(hits: list[Hit]) -> list[Hit]:
    """One hit a subject and code, the worst first; in an order that rows cannot change."""
    ordered = sorted(
        hits,
        key=lambda item: (
            item.code,
            item.finding.subject.kind,
            item.finding.subject.id,
            SEVERITIES.index(item.finding.severity),
            item.finding.cause or "",
            item.finding.summary,
        ),
    )
    unique: dict[FindingKey, Hit] = {}
    for item in ordered:
        unique.setdefault(item.finding.key, item)
    return list(unique.values())


def _order(finding: Finding) -> tuple[int, float, int, str]:
    """Worst first, then newest first; of one moment, the slice before what hangs on it."""
    return (
        SEVERITIES.index(finding.severity),
        -(finding.since or 0.0),
        RANK.get(finding.code, len(RANK)),
        finding.subject.id,
    )


# --- over time ------------------------------------------------------------------------------


class _Blind:
    """What could not be judged in this look, to ask about a finding of an earlier one."""

    def __init__(self, unknowns: Iterable[Unknown]) -> None:
        self._reasons: dict[tuple[str, str], str] = {}
        for item in unknowns:
            key = item.subject.id if item.subject is not None else ""
            self._reasons.setdefault((item.code, key), item.reason)

    def reason(self, finding: Finding) -> str | None:
        subject = finding.subject
        cluster = f"{subject.namespace}/{subject.cluster}" if subject.cluster else ""
        for key in (subject.id, cluster, ""):
            found = self._reasons.get((finding.code, key))
            if found is not None:
                return found
        return None

    def hides(self, code: str, cluster: str) -> bool:
        return (code, cluster) in self._reasons


def _track(view: View, hits: list[Hit], blind: _Blind) -> dict[FindingKey, Track]:
    memory = view.memory
    now = view.now
    before = memory.tracks if memory is not None else {}
    at_once = memory is None or (memory.looks == 0 and memory.eager)
    after: dict[FindingKey, Track] = {}
    for item in hits:
        finding = item.finding
        old = before.get(finding.key)
        first = old.first_seen if old is not None else now
        streak = old.streak + 1 if old is not None and old.missed == 0 else 1
        dated = (
            item.dated and finding.since is not None and now - finding.since > view.thresholds.blip
        )
        is_open = (old is not None and old.open) or streak >= 2 or dated or at_once
        if finding.since is None and memory is not None:
            finding = msgspec.structs.replace(finding, since=first)
        after[finding.key] = Track(
            finding=finding, first_seen=first, last_seen=now, streak=streak, open=is_open
        )
    for key, old in before.items():
        if key in after or not old.open:
            continue
        reason = blind.reason(old.finding)
        if reason is not None:
            after[key] = msgspec.structs.replace(
                old, finding=_frozen(old.finding, old.last_seen, reason), missed=old.missed
            )
        elif old.missed == 0:
            after[key] = msgspec.structs.replace(old, missed=1)
    return after


def _frozen(finding: Finding, last_seen: float, reason: str) -> Finding:
    """An open finding whose rule is blind, marked with when it was last seen and why not since."""
    evidence = [item for item in finding.evidence if item.field != NOT_SEEN]
    evidence.insert(
        0,
        Evidence(
            source="slicewatch",
            object=finding.subject.name,
            field=NOT_SEEN,
            value=f"{format_time(last_seen) or '?'}; cannot be judged since: {reason}",
        ),
    )
    return msgspec.structs.replace(finding, evidence=tuple(evidence))


def _marks(view: View, blind: _Blind) -> dict[str, Mark]:
    """Marks of this look, and those of the last that one look without them does not end."""
    marks = dict(view.marks)
    for key, mark in (view.memory.marks if view.memory is not None else {}).items():
        if key in marks:
            continue
        code, cluster, *_ = (*key.split("|"), "", "")
        if blind.hides(code, cluster):
            marks[key] = mark
        elif mark.missed == 0:
            marks[key] = msgspec.structs.replace(mark, missed=1)
    return marks


def _status_since(
    view: View, statuses: dict[str, SliceStatusName], findings: list[Finding]
) -> dict[str, float]:
    """When each slice got its status: as remembered, else as the APIs date it, else now."""
    known = view.memory.statuses if view.memory is not None else {}
    dated: dict[str, float] = {}
    for finding in findings:
        if finding.subject.kind == "slice" and finding.since is not None:
            before = dated.get(finding.subject.id, finding.since)
            dated[finding.subject.id] = min(before, finding.since)
    since: dict[str, float] = {}
    for item in view.fleet.slices:
        status = statuses[item.id]
        old = known.get(item.id)
        if old is not None and old[0] == status:
            since[item.id] = old[1]
            continue
        guess: float | None = None
        if old is None:
            guess = _guess(view, item.id, status, dated)
        since[item.id] = min(guess, view.now) if guess is not None else view.now
    return since


def _guess(
    view: View, slice_id: str, status: SliceStatusName, dated: dict[str, float]
) -> float | None:
    item = view.slices[slice_id]
    if status in ("incomplete", "broken"):
        return dated.get(slice_id, item.first_seen)
    if status == "forming":
        return item.first_seen
    if status in ("reserved", "running", "shared"):
        begun = [
            at
            for group in view.holders_of(item)
            if (at := group.created_at or group.requested_at) is not None
        ]
        return max(begun, default=None)
    return None


__all__ = ["Memory", "Thresholds", "judge", "replay"]
