"""What the runtime publishes by one swap: the last report and how the sources behaved."""

from __future__ import annotations

import msgspec

from diagnosis.finding import Report
from diagnosis.memory import Memory
from fleet.observation import Observation

POLL_BUCKETS_SECONDS: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Bounds of the poll duration histogram: a local head answers in 10 ms, a dying one in 30 s."""


class PollStats(msgspec.Struct, frozen=True, kw_only=True):
    """One source since the process started. ``bucket_counts`` are cumulative, one a bound of
    ``POLL_BUCKETS_SECONDS`` plus ``+Inf`` at the end; ``errors`` counts polls by failure reason."""

    source: str
    bucket_counts: tuple[int, ...]
    sum_seconds: float
    polls: int
    errors: dict[str, int] = {}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """``observation`` is what a capture writes; ``report`` what everything shows.

    ``published_at`` is wall time in epoch seconds. ``stale_after`` seconds without a new snapshot
    make ``/readyz`` fail and pages say so. ``memory`` is what the next look is judged with: history
    keeps it, so that a restart forgets nothing.
    """

    observation: Observation
    report: Report
    published_at: float
    stale_after: float = 30.0
    stats: tuple[PollStats, ...] = ()
    memory: Memory | None = None
