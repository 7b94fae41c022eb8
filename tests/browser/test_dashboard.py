"""A real Chromium through the dashboard of a real ``slicewatch serve``."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from tests.serving import settled

pytestmark = pytest.mark.browser

LOST = "-/default/v6e-group-0"


def read(page: Any) -> str:
    return page.inner_text('[data-testid="stMainBlockContainer"]')


def open_page(page: Any, address: str) -> None:
    page.goto(address)
    settled(page)


def address(page: Any) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(page.url)
    return parts.path, parse_qs(parts.query)


def click_marker(page: Any, number: int = 0) -> None:
    """Click the n-th marker of the trace that carries the numbers of what was drawn."""
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.locator(".js-plotly-plot").first.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """number => {
            const plot = document.querySelector('.js-plotly-plot');
            const trace = plot._fullData.findLast(one => one.customdata);
            const box = plot.getBoundingClientRect(), layout = plot._fullLayout;
            const at = axis => values => axis._offset + axis.l2p(values[number]);
            return [box.left + at(layout.xaxis)(trace.x), box.top + at(layout.yaxis)(trace.y)];
        }""",
        number,
    )
    page.mouse.move(x, y)
    page.mouse.click(x, y)


def test_a_broken_fleet_says_what_why_and_what_to_type(page: Any, broken: str) -> None:
    open_page(page, broken)
    text = read(page)
    assert "1 of 3 slices cannot run." in text
    assert text.index("SliceIncomplete") < text.index("SchedulerLivelock")
    assert "ray list nodes --detail" in text
    assert page.title() == "Slicewatch"


def test_a_healthy_fleet_fits_one_line_and_one_screen(page: Any, healthy: str) -> None:
    open_page(page, healthy)
    assert "All 2 slices are whole: 1 idle, 1 running. Nothing is wrong." in read(page)
    tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    assert tall <= 900


def test_from_a_finding_to_its_evidence_to_its_slice(page: Any, broken: str) -> None:
    open_page(page, broken)
    page.get_by_text("Evidence and next steps").first.click()
    page.wait_for_url("**/finding?**")
    settled(page)
    path, query = address(page)
    assert (path, query["code"], query["subject"]) == ("/finding", ["SliceIncomplete"], [LOST])
    assert "What to type" in read(page)
    page.get_by_text("Slice v6e-group-0", exact=True).click()
    page.wait_for_url("**/slice?**")
    settled(page)
    assert address(page) == ("/slice", {"id": [LOST]})
    assert "v6e-group-0 has been incomplete" in read(page)


def test_a_click_on_a_tile_opens_its_slice_and_back_returns(page: Any, broken: str) -> None:
    open_page(page, broken)
    click_marker(page)
    page.wait_for_url("**/slice?**")
    settled(page)
    assert address(page)[1]["id"][0].startswith("-/default/v6e-group-")
    page.get_by_role("link", name="Overview").click()
    page.wait_for_url(re.compile(r"/$"))
    settled(page)
    # Coming back must not jump to the slice again.
    assert "1 of 3 slices cannot run." in read(page)
    assert address(page)[0] == "/"


def test_a_click_on_a_host_names_it(page: Any, healthy: str) -> None:
    open_page(page, f"{healthy}/slice?id=ml/train/v6e-group-0")
    click_marker(page, 2)
    page.get_by_text(re.compile(r"worker \d is ready, pod train-v6e-group-worker")).wait_for()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/slice?id={quote(LOST)}", "v6e-group-0 has been incomplete"),
        ("/placement?id=train-a", "train-a has lost a host and waits"),
        (f"/finding?code=SliceIncomplete&subject={quote(LOST)}", "has 3 of 4 hosts"),
        ("/finding", "2 findings, worst first."),
        ("/sources", "Its source is complete."),
        ("/topologies", ""),
        ("/slice?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E", "<script>alert(1)</script>"),
    ],
)
def test_deep_links(page: Any, broken: str, path: str, expected: str) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    open_page(page, broken + path)
    assert expected in read(page)
    assert not dialogs
    assert page.locator('[data-testid="stException"]').count() == 0


@pytest.mark.parametrize("path", ["/", f"/slice?id={quote(LOST)}", "/placement", "/sources"])
def test_nothing_is_wider_than_a_telephone(browser: Any, broken: str, path: str) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        user_agent="Mozilla/5.0 (Linux; Android 14) Chrome/130.0 Mobile Safari/537.36",
    )
    page = context.new_page()
    open_page(page, broken + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    main = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
    assert main <= 390
    context.close()


def test_nothing_is_asked_of_the_internet(page: Any, healthy: str) -> None:
    foreign: list[str] = []
    page.on(
        "request",
        lambda request: (
            foreign.append(request.url)
            if not request.url.startswith((healthy, "data:", "blob:"))
            else None
        ),
    )
    open_page(page, healthy)
    open_page(page, f"{healthy}/slice?id=ml/train/v6e-group-0")
    assert foreign == []


def test_the_other_routes_are_on_the_same_port(page: Any, healthy: str) -> None:
    for path, kind in (
        ("/metrics", "text/plain"),
        ("/metrics/", "text/plain"),
        ("/healthz", "text/plain"),
        ("/readyz", "text/plain"),
        ("/api/v1/report", "application/json"),
    ):
        answer = page.request.get(healthy + path)
        assert answer.ok
        assert answer.headers["content-type"].startswith(kind)
