"""The whole way in a real browser: the demo's real Ray cluster, a fault made, found and mended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.test_dashboard import open_page, read
from tests.serving import served

pytestmark = [pytest.mark.browser, pytest.mark.real_ray, pytest.mark.slow, pytest.mark.timeout(600)]

FOUND = 90_000
"""Milliseconds for a real fault to show: Ray itself takes up to 30 s to notice a dead node."""


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    pytest.importorskip("ray")
    with served(command="demo", timeout=240) as base:
        yield base


def wait_for(page: Any, text: str | re.Pattern[str]) -> None:
    page.get_by_text(text).first.wait_for(timeout=FOUND)


def test_stop_a_host_and_see_it_found_and_mended(page: Any, demo: str) -> None:
    open_page(page, demo)
    wait_for(page, "All 3 slices are whole")
    # The wall of slices, and the capacity beside it.
    assert page.locator(".js-plotly-plot").count() == 2

    page.get_by_role("link", name="Break something").click()
    page.wait_for_url("**/break_something")
    page.get_by_role("button", name="Break").first.click()
    wait_for(page, re.compile("SliceIncomplete"))

    # The page drew it by itself; now follow the finding to its evidence and to its slice.
    open_page(page, demo)
    wait_for(page, re.compile(r"1 of 3 slices cannot run\."))
    card = page.locator('[class*="st-key-card-"]', has_text="SliceIncomplete").first
    card.get_by_text("Evidence and next steps").click()
    page.wait_for_url("**/finding?**")
    wait_for(page, "What to type")
    assert "kubectl --context slicewatch-demo" in read(page)
    page.get_by_text(re.compile(r"^Slice v6e-group-\d$")).click()
    page.wait_for_url("**/slice?**")
    wait_for(page, re.compile("has been (incomplete|broken)"))
    assert "not ready" in read(page) or "missing" in read(page)

    metrics = page.request.get(f"{demo}/metrics").text()
    assert re.search(r'slicewatch_finding_active\{[^}]*code="SliceIncomplete"[^}]*\} 1\.0', metrics)

    open_page(page, f"{demo}/break_something")
    page.get_by_role("button", name="Mend").first.click()
    open_page(page, demo)
    page.get_by_text("SliceIncomplete").first.wait_for(state="detached", timeout=FOUND)
    wait_for(page, re.compile("All 3 slices are whole"))
