"""Where history is kept by default, and what tells fleets apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from history.location import default_path, scope_of


def test_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "slicewatch" / "history.sqlite"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_path() == Path("/home/ann/.local/state/slicewatch/history.sqlite")


def test_scopes_are_short_and_tell_fleets_apart() -> None:
    one = scope_of("gke_project_zone_prod", None, ())
    assert one.startswith("gke_project_zone_prod-")
    assert one == scope_of("gke_project_zone_prod")
    assert one != scope_of("gke_project_zone_prod", "http://ray:8265")
    assert scope_of(None, "") == ""
    assert len(scope_of("x" * 5000 + "\x00<")) < 60
