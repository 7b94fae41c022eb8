"""One Chromium and one server a bundle for all browser tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import browser as chromium
from tests.serving import served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Ends with its module: while Playwright runs, no other test could start an event loop."""
    pytest.importorskip("playwright")
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def broken(bundles: Path) -> Iterator[str]:
    with served("--bundle", str(bundles / "real_host_lost")) as base:
        yield base


@pytest.fixture(scope="session")
def healthy(bundles: Path) -> Iterator[str]:
    with served("--bundle", str(bundles / "healthy_running")) as base:
        yield base
