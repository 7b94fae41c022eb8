"""History as a whole, on SQLite and on PostgreSQL: recorded, asked, restarted, kept small."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from diagnosis.snapshot import Snapshot
from history.service import QUEUE, History
from tests import factories
from tests.history.watching import Watch, keep, kinds, training

BUSY = "v6e-16-group-0"
BUSY_ID = f"ml/train/{BUSY}"
EVER = 4e9

Keep = Callable[..., History]


@pytest.fixture
def watch() -> Watch:
    found = Watch()
    training(found)
    return found


@pytest.fixture
def kept(url: str, watch: Watch) -> Iterator[Keep]:
    """Opens histories on the test's database and closes what the test left open."""
    opened: list[History] = []

    def make(**more: Any) -> History:
        opened.append(keep(url, watch, **more))
        return opened[-1]

    yield make
    for history in opened:
        history.close()


def test_changes_can_be_asked_by_time_kind_and_subject(kept: Keep, watch: Watch) -> None:
    history = kept()
    start = watch.look().observation.now
    watch.look()
    watch.world.lose_host(BUSY, 1, ago=3)
    lost = watch.look().observation.now
    opened = watch.look().observation.now
    found = history.changes(start, opened)
    assert found[-1].kind == "watch_began"
    assert {"slice_status", "hosts_changed", "group_state", "finding_opened"} <= set(kinds(found))
    assert [change.at for change in found] == sorted((c.at for c in found), reverse=True)
    assert kinds(history.changes(opened, opened)) == ["finding_opened"]
    assert history.changes(opened + 1, EVER) == []
    (status,) = history.changes(0, EVER, kinds=["slice_status"])
    assert (status.at, status.before, status.after) == (lost, "running", "incomplete")
    about = history.changes(0, EVER, subject=BUSY_ID)
    assert {"slice_status", "group_state", "finding_opened"} <= set(kinds(about))
    assert history.changes(0, EVER, subject="ml/train/v6e-16-group-1") == []
    assert history.changes(0, EVER, subject=[]) == []
    assert history.changes(0, EVER, kinds=[]) == []
    assert len(history.changes(0, EVER, limit=2)) == 2
    (finding,) = history.changes(0, EVER, kinds=["finding_opened"])
    assert (finding.code, finding.severity) == ("SliceIncomplete", "critical")


def test_any_moment_can_be_looked_at_again(kept: Keep, watch: Watch) -> None:
    history = kept()
    looks: list[Snapshot] = [watch.look(), watch.look()]
    watch.world.lose_host(BUSY, 1, ago=3)
    looks += [watch.look() for _ in range(4)]
    first = looks[0].observation.now
    assert history.look_at(first - 1) is None
    for look in looks:
        found = history.look_at(look.observation.now + 0.001)
        assert found is not None
        assert found.report.statuses == look.report.statuses
        assert [f.key for f in found.report.findings] == [f.key for f in look.report.findings]
    broken = history.look_at(looks[3].observation.now)
    assert broken is not None
    assert broken.report == looks[3].report
    assert broken.published_at == looks[3].published_at
    assert broken.stale_after > 1e7
    assert history.look_at(EVER) is history.look_at(EVER)
    span = history.span()
    assert span is not None
    assert span[0] == first
    moments = history.moments(0, EVER)
    assert moments[0] == first
    assert moments == sorted(moments)
    assert len(moments) < len(looks)  # nothing changed in some


def test_an_empty_history_says_so(kept: Keep) -> None:
    history = kept()
    assert history.span() is None
    assert history.moments(0, EVER) == []
    assert history.changes(0, EVER) == []
    assert history.look_at(EVER) is None
    assert history.last_memory() is None
    assert history.findings(0, EVER) == []
    assert history.statuses(BUSY_ID, 0, EVER) == []
    assert history.gaps(0, EVER) == []
    assert history.flush(10)
    assert history.state().status == "ok"
    assert history.state().problem == ""


def test_a_restart_loses_nothing(kept: Keep, watch: Watch) -> None:
    history = kept()
    watch.look()
    watch.world.lose_host(BUSY, 1, ago=3)
    for _ in range(3):
        before = watch.look()
    memory = watch.memory
    history.close()
    told = len(kept().changes(0, EVER))

    history = kept()
    found = history.last_memory(watch.world.now + 20)
    assert found == memory
    watch.memory = found
    after = watch.look(20)
    assert [(f.key, f.since) for f in after.report.findings] == [
        (f.key, f.since) for f in before.report.findings
    ]
    assert len(history.changes(0, EVER)) == told  # nothing is opened twice, nothing is new
    end = watch.look().observation.now
    (span,) = [s for s in history.findings(0, end) if s.code == "SliceIncomplete"]
    assert span.closed is None
    assert span.opened < before.observation.now


def test_what_changed_during_a_stop_is_told_after_it(kept: Keep, watch: Watch) -> None:
    history = kept()
    last = watch.look().observation.now
    watch.look(record=False)
    history.close()
    for group in watch.world.groups:
        group["state"] = "REMOVED"
    history = kept()
    again = watch.look(7200).observation.now
    told = kinds(history.changes(again, again))
    assert told.count("group_removed") == 2
    assert "watch_resumed" in told
    assert history.gaps(0, EVER) == [(last, again)]


def test_a_snapshot_without_memory_still_keeps_findings_open(kept: Keep, watch: Watch) -> None:
    history = kept()
    history.record(factories.broken())
    assert history.flush(10)
    memory = history.last_memory(factories.NOW)
    assert memory is not None
    assert {key for key, track in memory.tracks.items() if track.open} == {
        finding.key for finding in factories.broken().report.findings
    }


def test_statuses_and_findings_as_spans(kept: Keep, watch: Watch) -> None:
    history = kept()
    start = watch.look().observation.now
    watch.look()
    watch.world.lose_host(BUSY, 1, ago=3)
    lost = watch.look().observation.now
    opened = watch.look().observation.now
    for group in watch.world.groups:
        group["state"] = "REMOVED"
    watch.world.ray_node(f"ray-{BUSY}-1").update(state="ALIVE", end_time_ms=0)
    back = watch.look().observation.now
    closed = watch.look().observation.now
    end = watch.look().observation.now
    statuses = history.statuses(BUSY_ID, start - 100, end)
    assert [(s.status, s.start, s.end) for s in statuses][:2] == [
        ("running", start, lost),
        ("incomplete", lost, back),
    ]
    assert statuses[-1].end == end
    later = history.statuses(BUSY_ID, opened, back)
    assert [(s.status, s.start, s.end) for s in later] == [("incomplete", opened, back)]
    (span,) = [s for s in history.findings(start, end) if s.code == "SliceIncomplete"]
    assert (span.opened, span.closed) == (opened, closed)
    assert history.findings(start, lost) == []
    assert history.findings(closed + 1, end) == []


def test_hostile_subjects_come_back(kept: Keep, watch: Watch) -> None:
    history = kept()
    history.record(factories.hostile())
    assert history.flush(10)
    ident = f"ml/train/{factories.HOSTILE}"
    found = history.changes(0, EVER, subject=ident)
    assert kinds(found) == ["finding_opened"]
    assert history.changes(0, EVER, subject=ident.replace("*", "%").replace("x", "_")) == []
    assert found[0].subject.name == factories.HOSTILE.replace("\x00", "�")
    look = history.look_at(EVER)
    assert look is not None
    assert look.report.findings == factories.hostile().report.findings


def test_scopes_keep_fleets_apart(url: str, watch: Watch) -> None:
    one, two = History(url, scope="one", tick=0.05), History(url, scope="two", tick=0.05)
    try:
        one.record(factories.healthy())
        two.record(factories.broken())
        assert one.flush(10)
        assert two.flush(10)
        assert {one.state().status, two.state().status} == {"ok"}
        assert "2 slices" in one.changes(0, EVER)[-1].text
        assert len(two.changes(0, EVER, kinds=["finding_opened"])) == 3
        assert one.changes(0, EVER, kinds=["finding_opened"]) == []
    finally:
        one.close()
        two.close()


# --- retention ----------------------------------------------------------------------------------


def test_what_is_too_old_goes(kept: Keep, watch: Watch) -> None:
    history = kept(keep_days=1.0, every=600.0)
    for _ in range(30):
        watch.look(3600)
    first = watch.world.now - 86400
    watch.look(3600)
    assert history.flush(10)
    wait_for(lambda: oldest(history) >= first - 3 * 3600)
    assert history.look_at(EVER) is not None
    for moment in history.moments(0, EVER):
        assert history.look_at(moment) is not None  # no look lost the whole one it is told against
    assert all(change.at >= first - 3600 for change in history.changes(0, EVER))


def test_what_is_too_much_goes_oldest_first(kept: Keep, watch: Watch, url: str) -> None:
    for _ in range(15):
        watch.world.add()
    room = 130_000 if url.endswith(".sqlite") else 50_000  # a file counts its empty tables too
    history = kept(keep_bytes=room, every=600.0)
    last = 0.0
    for _ in range(40):
        last = watch.look(3600).observation.now
    assert history.flush(10)
    wait_for(lambda: 0 < history.state().used_bytes <= room)
    moments = history.moments(0, EVER)
    assert moments[-1] == last
    assert 1 < len(moments) < 40


def oldest(history: History) -> float:
    span = history.span()
    return span[0] if span is not None else 0.0


def wait_for(condition: Callable[[], bool], timeout: float = 20.0) -> None:
    """Housekeeping runs each 50 ms in these tests."""
    done = threading.Event()
    for _ in range(int(timeout / 0.05)):
        if condition():
            return
        done.wait(0.05)
    raise AssertionError("it never came true")


def test_looks_are_kept_at_an_interval_when_nothing_changes(kept: Keep, watch: Watch) -> None:
    history = kept(every=60.0)
    for _ in range(31):
        watch.look()
    moments = history.moments(0, EVER)
    assert [round(two - one) for one, two in pairwise(moments)] == [60] * 5


def test_changes_are_all_kept_when_looks_are_too_dear_for_the_space(
    kept: Keep, watch: Watch
) -> None:
    """A churning fleet in little space: looks thin out, the list of changes does not."""
    history = kept(keep_bytes=2_000_000, keep_days=365.0)
    watch.look()
    for number in range(20):
        watch.world.waiting(f"job-{number}", age=1)
        watch.look()
    assert kinds(history.changes(0, EVER)).count("group_created") == 20
    assert len(history.moments(0, EVER)) < 10


# --- never in the way ---------------------------------------------------------------------------


def test_recording_never_waits(kept: Keep, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    history = kept()
    watch.look()
    gate, entered = threading.Event(), threading.Event()

    def stuck(snapshot: Snapshot) -> None:
        entered.set()
        assert gate.wait(30)

    assert history._recorder is not None
    monkeypatch.setattr(history._recorder, "take", stuck)
    history.record(watch.look(record=False))
    assert entered.wait(10)
    for _ in range(20):
        history.record(watch.look(record=False))
    assert history.state().dropped == 20 - QUEUE
    gate.set()
    assert history.flush(10)


def test_a_bug_in_history_ends_history_only(
    kept: Keep, watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    history = kept()
    watch.look()

    def broken(snapshot: Snapshot) -> None:
        raise KeyError("bug")

    assert history._recorder is not None
    monkeypatch.setattr(history._recorder, "take", broken)
    history.record(watch.look(record=False))
    history.flush(10)
    wait_for(lambda: history.state().status == "off")
    assert "fault of its own" in history.state().problem
    history.record(watch.look(record=False))  # and nothing raises
    history.close()


def test_after_closing_nothing_is_taken_and_nothing_raises(kept: Keep, watch: Watch) -> None:
    history = kept()
    watch.look()
    history.close()
    history.record(watch.look(record=False))
    history.close()
