"""What the engine remembers over a stop."""

from __future__ import annotations

from diagnosis.engine import judge
from diagnosis.memory import Memory
from fleet.mapping import build_fleet
from history.memory import GAP, after_gap, memory_of
from tests.history.watching import Watch, training

BUSY = "v6e-16-group-0"


def watch_with_a_fault() -> Watch:
    watch = Watch()
    training(watch)
    watch.look()
    watch.world.lose_host(BUSY, 1, ago=3)
    for _ in range(3):
        watch.look()
    return watch


def test_a_memory_made_of_the_report_keeps_findings_open_and_their_since() -> None:
    watch = watch_with_a_fault()
    assert watch.last is not None
    report = watch.last.report
    assert report.findings
    watch.memory = memory_of(report)
    later = watch.look().report
    assert [(f.key, f.since) for f in later.findings] == [(f.key, f.since) for f in report.findings]
    assert later.status_since == report.status_since


def test_a_finding_that_is_mended_during_the_stop_closes_by_rule() -> None:
    watch = watch_with_a_fault()
    watch.memory = after_gap(watch.memory, watch.world.now + 3600)
    for group in watch.world.groups:
        group["state"] = "REMOVED"
    watch.world.ray_nodes = [n for n in watch.world.ray_nodes if n["state"] != "DEAD"]
    watch.world.without_pod(f"{BUSY}-pod-1")
    fresh, _ = judge(build_fleet(watch.world.observation()), Memory())
    first = watch.look(3600).report
    assert [f.code for f in first.findings] >= [f.code for f in fresh.findings]
    watch.look()
    third = watch.look().report
    assert {f.key for f in third.findings} == {f.key for f in fresh.findings}


def test_timers_do_not_outlive_a_gap() -> None:
    watch = watch_with_a_fault()
    memory = watch.memory
    at = watch.world.now
    assert after_gap(memory, at + GAP - 1) is memory
    later = after_gap(memory, at + GAP + 1)
    assert not later.marks
    assert not later.attempts
    assert later.statuses == memory.statuses
    assert {key for key, track in memory.tracks.items() if track.open} == set(later.tracks)
    assert after_gap(memory, at - 5).marks == {}
