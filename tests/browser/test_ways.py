"""The five people who come to the dashboard, each on their way, in a real Chromium.

``docs/walkthrough.md`` tells the same ways with pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests import fleet_bundle
from tests.browser.test_dashboard import LOST, address, open_page, read
from tests.serving import served, settled

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = fleet_bundle.write(tmp_path_factory.mktemp("large") / "fleet.tar.gz")
    with served("--bundle", str(path)) as base:
        yield base


def choose_row(page: Any, table: int, row: int) -> None:
    """Click the box at the left of a row; a table is a canvas, so its cells are places."""
    frame = page.locator('[data-testid="stDataFrame"]').nth(table)
    frame.scroll_into_view_if_needed()
    frame.click(position={"x": 14, "y": 35 + 35 * row + 17})


def follow(page: Any, name: str | re.Pattern[str], url: str) -> None:
    page.get_by_role("link", name=name).first.click()
    page.wait_for_url(url)
    settled(page)


def test_paged_at_three_in_the_morning_with_a_link(page: Any, broken: str) -> None:
    """The alert's link says what, why and what to type; one click shows where."""
    open_page(page, f"{broken}/finding?code=SliceIncomplete&subject={quote(LOST)}")
    top = page.locator('[class*="st-key-card-full-0"]').bounding_box()
    assert top["y"] + top["height"] < 900, "the answer is on the first screen"
    text = read(page)
    assert text.index("has 3 of 4 hosts") < text.index("Why") < text.index("What to type")
    assert "ray list nodes --detail" in text
    page.get_by_text("Runbook: SliceIncomplete").click()
    page.get_by_text("A TPU slice works only as a whole").first.wait_for()
    follow(page, "Slice v6e-group-0", "**/slice?**")
    assert "v6e-group-0 has been incomplete" in read(page)
    page.get_by_role("button", name="Copy as text").click()
    page.get_by_text("Markdown for a chat or a ticket.").wait_for()


def test_why_does_my_job_wait(page: Any, broken: str) -> None:
    """From the front page in two clicks to every slice of the shape and why it is not had."""
    open_page(page, broken)
    follow(page, "Scheduling", "**/scheduling")
    assert "2 TPU groups wait" in read(page)
    choose_row(page, 0, 0)
    page.wait_for_url("**/scheduling?**")
    settled(page)
    assert "wants-slice asks for slice v6e-group-1." in read(page)
    follow(page, "Placement group wants-slice", "**/placement?**")
    assert "wants-slice waits" in read(page)


def test_who_holds_what(page: Any, broken: str) -> None:
    """Who holds what, since when; then rank by rank."""
    open_page(page, f"{broken}/scheduling")
    tables = page.locator('[data-testid="stDataFrame"]').count()
    choose_row(page, tables - 1, 1)
    page.wait_for_url("**/placement?**")
    settled(page)
    assert "train-a" in read(page)
    follow(page, "Rank by rank", "**/gang?**")
    text = read(page)
    assert "train-a: 3 of 4 ranks run." in text
    assert "It lies on one slice, v6e-group-0." in text
    assert page.locator(".js-plotly-plot").count() == 1


def test_looking_after_two_hundred_slices(page: Any, large: str) -> None:
    """The sentence, the worst first, capacity; a filter that can be sent to somebody."""
    open_page(page, large)
    text = read(page)
    assert "2 of 200 slices cannot run." in text
    assert "Capacity" in text
    page.get_by_text("Filter", exact=True).click()
    page.get_by_role("textbox", name="Words").fill("v6e-16-group")
    page.get_by_role("textbox", name="Words").press("Enter")
    page.wait_for_url("**q=v6e-16-group**")
    settled(page)
    assert "Of what the filter leaves:" in read(page)
    sent = page.url
    page.goto("about:blank")
    open_page(page, f"{sent}&state=incomplete")
    page.get_by_text(re.compile("Of what the filter leaves: ")).wait_for()
    assert address(page)[1] == {"q": ["v6e-16-group"], "state": ["incomplete"]}


def test_the_post_mortem_next_morning(page: Any, broken: str) -> None:
    """What changed when; any page as it was at a moment; and the way back."""
    open_page(page, f"{broken}/history")
    text = read(page)
    assert "changes in" in text
    assert page.locator(".js-plotly-plot").count() == 1
    open_page(page, f"{broken}/slice?id={quote(LOST)}")
    assert "has been incomplete" in read(page)
    for _ in range(3):
        page.get_by_role("button", name="Earlier").click()
        settled(page)
    page.get_by_text(re.compile("v6e-group-0 .*running")).first.wait_for()
    assert "at" in address(page)[1]
    # The navigation stays at that moment, the button leaves it.
    page.get_by_role("link", name="Overview").first.click()
    page.wait_for_url(re.compile(r"/\?.*at="))
    settled(page)
    page.get_by_role("button", name="Last look").click()
    page.get_by_text("1 of 3 slices cannot run.").wait_for()
    assert "at" not in address(page)[1]


def test_a_colleagues_bundle_is_opened_and_shown(page: Any, healthy: str, tmp_path: Path) -> None:
    path = fleet_bundle.write(tmp_path / "colleague.tar.gz")
    open_page(page, f"{healthy}/bundle")
    page.locator('input[type="file"]').set_input_files(str(path))
    page.get_by_text("2 of 200 slices cannot run.").wait_for()
    follow(page, "Overview of it", "**bundle=**")
    assert "Bundle colleague.tar.gz" in read(page)
    assert "2 of 200 slices cannot run." in read(page)
    page.get_by_role("button", name="Close the bundle").click()
    page.get_by_text("All 2 slices are whole").wait_for()


def test_a_bundle_of_what_is_shown_is_downloaded(page: Any, broken: str, tmp_path: Path) -> None:
    open_page(page, f"{broken}/slice?id={quote(LOST)}")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Bundle of this look").click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    assert path.name.startswith("slicewatch-2026")
    from collectors.bundle import read_bundle

    assert len(read_bundle(path)) == 1


def test_every_control_can_be_reached_with_the_keyboard(page: Any, broken: str) -> None:
    open_page(page, f"{broken}/slice?id={quote(LOST)}")
    seen = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("(document.activeElement?.innerText || '').trim().slice(0, 40)"))
    # An icon's name may stand before or after a label.
    words = {line for text in seen for line in text.split("\n")}
    assert {"Overview", "Copy as text", "Bundle of this look"} <= words


@pytest.mark.parametrize("path", ["/scheduling", "/gang?id=train-a", "/history", "/bundle"])
def test_new_pages_fit_a_telephone(browser: Any, broken: str, path: str) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        user_agent="Mozilla/5.0 (Linux; Android 14) Chrome/130.0 Mobile Safari/537.36",
    )
    page = context.new_page()
    open_page(page, broken + path)
    main = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
    assert main <= 390
    context.close()


def test_pictures_and_tables_have_words_for_those_who_do_not_see(page: Any, broken: str) -> None:
    open_page(page, broken)
    found = page.evaluate(
        """() => [...document.querySelectorAll('[data-testid=stPlotlyChart],'
            + '[data-testid=stDataFrame]')].map(one => {
                const label = one.closest('[aria-label]') || one.querySelector('[aria-label]');
                return label ? label.getAttribute('aria-label') : '';
            })"""
    )
    assert found
    assert all(found)
