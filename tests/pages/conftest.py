"""Runs the dashboard's pages without a server or a browser, from hand-made snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from diagnosis.snapshot import Snapshot
from pages import _state
from tests.factories import NOW


class Fixed:
    """A source whose last look never changes."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot

    def snapshot(self) -> Snapshot | None:
        return self._snapshot


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = _state.serving()
    yield
    _state.install(before)


@pytest.fixture
def show(root: Path) -> Callable[..., AppTest]:
    """``show("slice", snapshot, {"id": …})`` runs that page once and gives what it drew."""

    def run(
        page: str,
        snapshot: Snapshot | None,
        query: dict[str, str] | None = None,
        *,
        now: float = NOW,
        **serving: object,
    ) -> AppTest:
        source = Fixed(snapshot)
        _state.install(_state.Serving(source=source, clock=lambda: now, **serving))  # type: ignore[arg-type]
        test = AppTest.from_file(root / "pages" / "shell.py", default_timeout=20)
        if page != "overview":
            # The first run registers the pages, so that one of them can be switched to.
            test.run()
            test.switch_page(f"{page}.py")
        test.query_params.update(query or {})
        return test.run()

    return run


def texts(test: AppTest) -> str:
    """All that a visitor reads, in order; a table's rows as they print."""
    parts: list[str] = []
    for element in test.main:
        for name in ("label", "value"):
            value = getattr(element, name, None)
            if value is None:
                continue
            parts.append(value.to_string() if hasattr(value, "to_string") else str(value))
    return "\n".join(parts)
