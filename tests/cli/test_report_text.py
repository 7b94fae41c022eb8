from __future__ import annotations

import pytest

from cli import terminal
from cli.report_text import report_lines
from tests import factories


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(terminal, "width", lambda: 100)


def test_a_healthy_cluster_is_one_line() -> None:
    assert list(report_lines(factories.healthy().report)) == [
        "All 2 slices are whole: 1 idle, 1 running. Nothing is wrong."
    ]


def test_a_broken_one_says_what_why_and_what_to_type() -> None:
    text = "\n".join(report_lines(factories.broken().report))
    assert text.startswith(
        "1 of 2 slices cannot run. 1 slice cannot be seen well enough to say. 3 findings:"
    )
    assert (
        "\nCRITICAL  SliceIncomplete (RayletDead): slice v6e-1, since 1 min\n"
        "  Slice v6e-1 has 3 of 4 hosts: the Ray node of worker 2 is dead.\n"
        "  Affects  placement group train-b waits for worker 2\n"
        "  Why      node 0202 (ray:ml/train)\n"
        "             state = DEAD\n"
        "           pod v6e-1-2 (kubernetes)\n"
        "             phase = Running\n"
        "  Next     Read the last lines of the raylet's log.\n"
        "             kubectl -n ml logs v6e-1-2 --tail 50\n"
    ) in text
    assert "  incomplete  ml/train/v6e-1  v6e 4x4  3 of 4 hosts  train-b\n" in text
    assert "  placement groups were cut: HeadReservationLeaked, ReservationIdle\n" in text
    assert text.index("CRITICAL") < text.index("WARNING") < text.index("Slices")
    assert text.endswith("As of 2026-11-30T12:00:00Z.")


def test_a_terminal_obeys_nothing_of_a_cluster() -> None:
    text = "\n".join(report_lines(factories.hostile().report))
    assert all(char.isprintable() or char == "\n" for char in text)


def test_an_unseen_fleet_is_not_one_line() -> None:
    dark = factories.snapshot(
        factories.Fleet(now=factories.NOW, sources=(factories.source(status="down"),))
    )
    lines = list(report_lines(dark.report))
    assert lines[0] == "No TPU slice was found. 1 source cannot be reached."
    assert any("Source kubernetes is down" in line for line in lines)


def test_colours_only_where_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = factories.broken().report
    assert "\x1b" not in "\n".join(report_lines(broken))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31m" in "\n".join(report_lines(broken))
