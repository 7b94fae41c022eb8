"""Where history is kept by default, and what tells fleets apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from history.location import default_path, scope_of
from history.opening import open_history
from history.service import History


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


def opened(**changes: Any) -> History | None:
    fields: dict[str, Any] = {
        "on": True,
        "path": None,
        "url": None,
        "days": 14,
        "mebibytes": 100,
        "scope": "one",
        "startup_grace": 600.0,
    }
    return open_history(**{**fields, **changes})


def test_a_history_from_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert opened(on=False) is None
    history = opened()
    assert history is not None
    assert not list(tmp_path.iterdir())  # nothing is made before the first look
    assert history.state().where == str(tmp_path / "slicewatch" / "history.sqlite")
    history = opened(path=tmp_path / "own.sqlite")
    assert history is not None
    assert history.state().where == str(tmp_path / "own.sqlite")
    history = opened(url="postgresql://me:hunter2@db/slicewatch")
    assert history is not None
    assert history.state().where == "postgresql+psycopg://me:***@db/slicewatch"


def test_no_home_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("history.opening.default_path", homeless)
    history = opened()
    assert history is not None
    assert history.state().where == "/var/lib/slicewatch/history.sqlite"
