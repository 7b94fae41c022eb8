"""Several processes with one database: one writes, the others take over, nothing is told twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from history.errors import HistoryError
from history.service import History
from tests.history.conftest import Server
from tests.history.test_service import EVER, wait_for
from tests.history.watching import Watch, kinds, training

pytestmark = pytest.mark.postgres


@pytest.fixture
def watch() -> Watch:
    found = Watch()
    training(found)
    return found


@pytest.fixture
def replicas(server: Server) -> Iterator[list[History]]:
    url = server.database()
    found = [History(url, lease_seconds=1.5, tick=0.05) for _ in range(3)]
    yield found
    for history in found:
        history.close()


def statuses(replicas: list[History]) -> Counter[str]:
    return Counter(history.state().status for history in replicas)


def everybody_looks(replicas: list[History], watch: Watch) -> None:
    """Each replica polls by itself, some milliseconds after the other."""
    for number, history in enumerate(replicas):
        history.record(watch.look(10.0 if number == 0 else 0.3, record=False))
    for history in replicas:
        assert history.flush(20)


def test_one_writes_and_events_are_not_doubled(replicas: list[History], watch: Watch) -> None:
    everybody_looks(replicas, watch)
    assert statuses(replicas) == {"ok": 1, "standby": 2}
    watch.world.lose_host("v6e-16-group-0", 1, ago=3)
    for _ in range(3):
        everybody_looks(replicas, watch)
    answers = [history.changes(0, EVER) for history in replicas]
    assert answers[0] == answers[1] == answers[2]
    told = Counter(kinds(answers[0]))
    assert told["watch_began"] == 1
    assert told["slice_status"] == 1
    assert told["group_state"] == 1
    assert told["finding_opened"] == 1
    assert {history.span() for history in replicas} == {replicas[0].span()}
    assert replicas[2].last_memory() is not None


def writer(replicas: list[History]) -> History:
    return next(history for history in replicas if history.state().status == "ok")


def test_another_takes_over_at_once_when_the_writer_stops(
    replicas: list[History], watch: Watch
) -> None:
    everybody_looks(replicas, watch)
    first = writer(replicas)
    first.close()
    rest = [history for history in replicas if history is not first]
    wait_for(lambda: statuses(rest)["ok"] == 1)
    watch.world.lose_host("v6e-16-group-0", 1, ago=3)
    everybody_looks(rest, watch)
    told = Counter(kinds(rest[0].changes(0, EVER)))
    assert (told["watch_began"], told["slice_status"], told["group_state"]) == (1, 1, 1)


def test_another_takes_over_when_the_writer_hangs_and_it_comes_back_in_line(
    replicas: list[History], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody_looks(replicas, watch)
    first = writer(replicas)
    gate, stuck = threading.Event(), threading.Event()
    assert first._recorder is not None
    real = first._recorder.tidy

    def hang() -> None:
        stuck.set()
        assert gate.wait(30)
        real()

    monkeypatch.setattr(first._recorder, "tidy", hang)
    assert stuck.wait(10)
    rest = [history for history in replicas if history is not first]
    wait_for(lambda: statuses(rest)["ok"] == 1)
    watch.world.lose_host("v6e-16-group-0", 1, ago=3)
    everybody_looks(rest, watch)
    first.record(watch.look(0.1, record=False))  # what it saw, too, before it knows better
    monkeypatch.setattr(first._recorder, "tidy", real)
    gate.set()
    assert first.flush(20)
    assert first.state().status == "standby"
    everybody_looks(replicas, watch)
    told = Counter(kinds(first.changes(0, EVER)))
    assert (told["watch_began"], told["slice_status"], told["group_state"]) == (1, 1, 1)


def test_a_writer_that_slept_through_its_lease_writes_nothing_of_old(
    replicas: list[History], watch: Watch
) -> None:
    """Fencing: the others wrote and stopped meanwhile, so the lease is free again."""
    everybody_looks(replicas, watch)
    first = writer(replicas)
    rest = [history for history in replicas if history is not first]
    assert first._recorder is not None
    first._recorder._writer.release()
    wait_for(lambda: statuses(rest)["ok"] == 1)
    watch.world.lose_host("v6e-16-group-0", 1, ago=3)
    everybody_looks(rest, watch)
    for history in rest:
        history.close()
    for _ in range(3):
        first.record(watch.look(record=False))
        assert first.flush(20)
    wait_for(lambda: first.state().status == "ok")
    first.record(watch.look(record=False))
    assert first.flush(20)
    told = Counter(kinds(first.changes(0, EVER)))
    assert (told["watch_began"], told["slice_status"], told["group_state"]) == (1, 1, 1)


def test_replicas_that_start_at_once_make_the_tables_once(server: Server, watch: Watch) -> None:
    url = server.database()
    look = watch.look(record=False)
    replicas = [History(url, tick=0.05) for _ in range(6)]
    threads = [threading.Thread(target=history.record, args=(look,)) for history in replicas]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(history.flush(20) for history in replicas)
        assert statuses(replicas) == {"ok": 1, "standby": 5}
        assert kinds(replicas[0].changes(0, EVER)) == ["watch_began"]
    finally:
        for history in replicas:
            history.close()


def test_a_server_that_goes_away_costs_history_until_it_is_back(
    server: Server, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("history.recorder.FIRST_RETRY", 0.1)
    monkeypatch.setattr("history.recorder.LAST_RETRY", 0.1)
    history = History(server.database(), tick=0.05)
    watch.history = history
    try:
        watch.look()
        server.stop()
        watch.world.waiting("meanwhile", age=1)
        watch.look()
        wait_for(lambda: history.state().status == "failing")
        assert history.state().problem
        with pytest.raises(HistoryError):
            history.changes(0, EVER)
        server.start()
        wait_for(lambda: watch.look() is not None and history.state().status == "ok")
        assert kinds(history.changes(0, EVER)).count("group_created") == 1
        assert kinds(history.changes(0, EVER)).count("watch_began") == 1
    finally:
        if server._process is None:
            server.start()
        history.close()
