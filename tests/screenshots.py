"""Pictures of each page, healthy and broken, wide and narrow, light and dark, into docs/images.

``python -m tests.screenshots [NAME …]`` takes those whose file name contains a NAME; all without.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.serving import ROOT, browser, served, settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = ROOT / "docs" / "images"
HEIGHT, TALLEST = 900, 3000
PHONE = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Mobile Safari/537.36"
)


class Shot(NamedTuple):
    name: str
    bundle: str
    path: str


LOST = "real_host_lost"
SHOTS = (
    Shot("overview-broken", LOST, "/"),
    Shot("overview-healthy", "healthy_running", "/"),
    Shot("overview-blind", "truncated_state_api", "/"),
    Shot("slice-broken", LOST, "/slice?id=-/default/v6e-group-0"),
    Shot("slice-healthy", "healthy_running", "/slice?id=ml/train/v6e-group-0"),
    Shot("placement-broken", LOST, "/placement"),
    Shot("placement-healthy", "healthy_running", "/placement"),
    Shot("finding", LOST, "/finding?code=SliceIncomplete&subject=-/default/v6e-group-0"),
    Shot("findings", LOST, "/finding"),
    Shot("sources-healthy", "healthy_running", "/sources"),
    Shot("sources-blind", "truncated_state_api", "/sources"),
    Shot("topologies", "healthy_running", "/topologies"),
)
ALL_FORMS = (
    ("wide-light", 1280, "light"),
    ("wide-dark", 1280, "dark"),
    ("narrow-light", 390, "light"),
    ("narrow-dark", 390, "dark"),
)


def take(page: Page, url: str, path: Path, width: int) -> None:
    """One picture of the whole page: measured first, then drawn in a window of that height."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    draw(page, url)
    content = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    if content > HEIGHT:
        # Figures keep the size that they were drawn in: draw it all again in the taller window.
        page.set_viewport_size({"width": width, "height": min(content + 10, TALLEST)})
        draw(page, url)
    page.screenshot(path=path)


def draw(page: Page, url: str) -> None:
    page.goto(url)
    settled(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-testid=stPlotlyChart]')]"
        ".every(chart => chart.querySelector('.main-svg'))"
    )
    page.mouse.move(0, 0)


@contextmanager
def window(chromium: Browser, width: int, scheme: str) -> Iterator[Page]:
    """A browser window of one form; what it has loaded once it does not load again."""
    context = chromium.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        timezone_id="Etc/UTC",
        user_agent=PHONE if width < 500 else None,
    )
    try:
        yield context.new_page()
    finally:
        context.close()


def main(names: list[str]) -> None:
    """Take the pictures whose file name contains one of ``names``; all without."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for bundle in dict.fromkeys(shot.bundle for shot in SHOTS):
            with served("--bundle", str(ROOT / "tests" / "bundles" / bundle)) as base:
                for form, width, scheme in ALL_FORMS:
                    with window(chromium, width, scheme) as page:
                        for shot in SHOTS:
                            path = IMAGES / f"{shot.name}-{form}.png"
                            if shot.bundle == bundle and wanted(shot, form, names):
                                take(page, base + shot.path, path, width)
                                print(path.relative_to(ROOT))


def wanted(shot: Shot, form: str, names: list[str]) -> bool:
    if form == "narrow-dark" and shot.name != "overview-broken":
        return False
    return not names or any(name in f"{shot.name}-{form}" for name in names)


if __name__ == "__main__":
    main(sys.argv[1:])
