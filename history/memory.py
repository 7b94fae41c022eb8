"""The engine's memory out of a report, for a start after a stop. Pure."""

from __future__ import annotations

import msgspec

from diagnosis.finding import Report
from diagnosis.memory import Memory, Track

GAP = 900.0
"""Seconds without looks after which what was being timed starts anew. A rolling update takes a
minute or two; after a quarter of an hour nobody can say that a condition held all along."""


def memory_of(report: Report) -> Memory:
    """What can be told of the engine's memory from its report alone.

    Findings stay open with their ``since``, slices keep the time of their status. What the engine
    times without showing it (how long chips have been idle) is not in a report and starts anew.
    """
    now = report.fleet.now
    tracks = {}
    for finding in report.unconfirmed:
        tracks[finding.key] = Track(finding=finding, first_seen=now, last_seen=now)
    for finding in report.findings:
        first = finding.since if finding.since is not None else now
        tracks[finding.key] = Track(
            finding=finding, first_seen=first, last_seen=now, streak=2, open=True
        )
    return Memory(
        looks=2,
        at=now,
        tracks=tracks,
        statuses={
            key: (status, report.status_since[key])
            for key, status in report.statuses.items()
            if key in report.status_since
        },
    )


def after_gap(memory: Memory, now: float) -> Memory:
    """The memory as it may be used ``now``, after a time without looks.

    Open findings and statuses stay: what is still so at the next look was most likely so all
    along, and what is not closes by rule. Timers do not outlive a gap, and a finding that one look
    alone had shown is not confirmed by one after it.
    """
    if memory.at is not None and 0 <= now - memory.at <= GAP:
        return memory
    return msgspec.structs.replace(
        memory,
        marks={},
        attempts={},
        tracks={key: track for key, track in memory.tracks.items() if track.open},
    )
