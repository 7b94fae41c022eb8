"""Runs the dashboard's pages without a server or a browser, from hand-made snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from streamlit.testing.v1 import AppTest

from diagnosis.snapshot import Snapshot
from pages import _state
from tests.factories import NOW


class Fixed:
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
def show(root: object) -> Callable[..., AppTest]:
    """``show("slice", snapshot, id=…)`` runs that page once and gives what it drew."""

    def run(
        page: str, snapshot: Snapshot | None, *, now: float = NOW, **options: object
    ) -> AppTest:
        query = {key: options.pop(key) for key in ("id", "code", "subject") if key in options}
        _state.install(
            _state.Serving(source=Fixed(snapshot), clock=lambda: now, **options)  # type: ignore[arg-type]
        )
        test = AppTest.from_file(f"{root}/pages/shell.py", default_timeout=20)
        test.query_params.update(query)
        if page != "overview":
            test.switch_page(f"{page}.py")
            test.query_params.update(query)
        test.run()
        return test

    return run


def texts(test: AppTest) -> str:
    """All that a visitor reads, in order."""
    parts = []
    for element in test.main:
        value = getattr(element, "value", None)
        label = getattr(element, "label", None)
        parts += [str(item) for item in (label, value) if item is not None]
    return "\n".join(parts)
