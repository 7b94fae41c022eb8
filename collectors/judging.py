"""Looks into reports, with the engine's memory of earlier looks carried along.

Sources answer at different moments. A finding opens when two looks in a row show it, and "two
looks" has to mean two answers of each source: judging twice because another source answered in
between must not confirm a blip. So a look counts once every source that answers has answered
anew; a look in between is judged as a better version of the last one that counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from diagnosis.engine import judge
from diagnosis.finding import Report
from diagnosis.memory import Memory
from diagnosis.thresholds import Thresholds
from fleet.mapping import build_fleet
from fleet.observation import Observation


class Judging:
    """Carries the memory. Used from one thread at a time."""

    def __init__(self, thresholds: Thresholds, memory: Memory | None = None) -> None:
        """``memory``: what an earlier process remembered, so that a restart forgets nothing."""
        self._thresholds = thresholds
        self._before = memory or Memory()
        self._after = self._before
        self._versions: Mapping[str, int] = {}
        self._counted = 0

    def judge(self, observation: Observation, versions: Mapping[str, int]) -> Report:
        """The report of one look.

        Args:
            observation: what all sources said last.
            versions: for each source that answers, how many answers it has given.
        """
        fleet = build_fleet(observation, startup_grace=self._thresholds.slice_startup_grace)
        counts = not self._counted or all(
            count > self._versions.get(name, -1) for name, count in versions.items()
        )
        # What the very first look shows opens at once, so only that look may be judged like it.
        first = self._counted == 1 and not self._before.looks
        before = self._after if counts or first else self._before
        report, after = judge(fleet, before, self._thresholds)
        if counts:
            self._before, self._after = before, after
            self._versions = dict(versions)
            self._counted += 1
        return report

    @property
    def memory(self) -> Memory:
        """What the next look will be judged with."""
        return self._after
