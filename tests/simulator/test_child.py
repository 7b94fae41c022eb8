from __future__ import annotations

import time
from pathlib import Path

import pytest

from simulator.child import Child, ChildError, result_of
from tests.simulator.conftest import processes_of_session, wait_for

ECHO = "tests.simulator.echo_child"


def test_orders_are_answered_out_of_turn(tmp_path: Path) -> None:
    child = Child(ECHO, log=tmp_path / "log")
    try:
        slow = child.order("sleep", seconds=0.3)
        assert child.ask("echo", timeout=10, text="hello") == {"text": "hello"}
        assert result_of(slow, 10) == {"slept": 0.3}
        with pytest.raises(ChildError, match="ValueError: no such order"):
            child.ask("what", timeout=10)
        with pytest.raises(ChildError, match="no answer within 0 s"):
            child.ask("sleep", timeout=0.01, seconds=0.2)
    finally:
        child.stop()


def test_stop_ends_it_and_its_children(tmp_path: Path) -> None:
    child = Child(ECHO, log=tmp_path / "log")
    child.ask("spawn", timeout=10)
    assert len(processes_of_session(child.pid)) == 2
    child.stop()
    child.stop()
    wait_for(lambda: processes_of_session(child.pid) == [])
    with pytest.raises(ChildError, match="has ended"):
        child.ask("echo", timeout=1, text="x")


def test_a_child_that_dies_says_its_last_words(tmp_path: Path) -> None:
    child = Child(ECHO, log=tmp_path / "log")
    began = time.monotonic()
    with pytest.raises(ChildError, match="has ended: out of luck"):
        child.ask("die", timeout=30)
    assert time.monotonic() - began < 15
    assert not child.alive
    child.stop()
