"""What all tests share: where things are, and which real programs are at hand."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from hypothesis import settings

# A loaded machine is slow, not wrong: pytest's own timeout ends what hangs.
settings.register_profile("slicewatch", deadline=None, print_blob=True)
settings.load_profile("slicewatch")

ROOT = Path(__file__).resolve().parent.parent

# Set before Ray or Streamlit are imported by any test: neither may call home.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("STREAMLIT_BROWSER_GATHER_USAGE_STATS", "false")

NEEDS = {
    "browser": ("chromium", "chromium-browser", "google-chrome"),
    "prometheus": ("promtool",),
    "kubectl": ("kubectl",),
}
"""Marker → programs of which one has to be on the path."""


def program(*names: str) -> str | None:
    """The path of the first of these programs that is installed."""
    return next((path for name in names if (path := shutil.which(name))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, by name, what needs a program that this machine lacks."""
    for item in items:
        for marker, names in NEEDS.items():
            if item.get_closest_marker(marker) and program(*names) is None:
                item.add_marker(pytest.mark.skip(reason=f"{names[0]} is not installed"))
        if item.get_closest_marker("install") and not os.environ.get("SLICEWATCH_TEST_INSTALL"):
            item.add_marker(pytest.mark.skip(reason="slow; set SLICEWATCH_TEST_INSTALL=1"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def bundles() -> Path:
    """The example clusters with known answers."""
    return ROOT / "tests" / "bundles"


@pytest.fixture
def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
