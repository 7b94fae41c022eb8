"""A restart forgets nothing: the next process judges with the memory of the one before."""

from __future__ import annotations

from pathlib import Path

import msgspec

from collectors.bundle import read_bundle
from collectors.judging import Judging
from diagnosis.thresholds import Thresholds
from fleet.observation import Observation


def later(frame: Observation, seconds: float) -> Observation:
    return msgspec.structs.replace(frame, now=frame.now + seconds)


def test_findings_keep_their_age_over_a_restart(bundles: Path) -> None:
    (frame,) = read_bundle(bundles / "split_over_three_slices")
    first = Judging(Thresholds())
    before = first.judge(frame, {"ray": 1})
    assert before.findings
    second = Judging(Thresholds(), first.memory)
    after = second.judge(later(frame, 60.0), {"ray": 1})
    opened = {item.key: item.since for item in before.findings}
    assert {item.key: item.since for item in after.findings if item.key in opened} == opened
    assert after.status_since == before.status_since


def test_a_blip_right_after_a_restart_opens_nothing(bundles: Path) -> None:
    healthy = read_bundle(bundles / "healthy_running")[0]
    first = Judging(Thresholds())
    first.judge(healthy, {"ray": 1})
    second = Judging(Thresholds(), first.memory)
    assert second.memory is first.memory
    ray = msgspec.structs.replace(healthy.ray[0], nodes=healthy.ray[0].nodes[1:])  # type: ignore[index]
    blip = msgspec.structs.replace(later(healthy, 10.0), ray=(ray,))
    assert not second.judge(blip, {"ray": 1}).findings
    # The same answer again, because another source answered: still one look.
    assert not second.judge(later(blip, 1.0), {"ray": 1}).findings
