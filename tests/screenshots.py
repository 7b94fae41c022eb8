"""Pictures of each page, healthy and broken, wide and narrow, light and dark, into docs/images.

``python -m tests.screenshots [NAME …]`` takes those whose file name contains a NAME; all without.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.serving import ROOT, browser, served, settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = ROOT / "docs" / "images"
TALLEST = 3000
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
FORMS = (("wide-light", 1280, "light"), ("wide-dark", 1280, "dark"), ("narrow-light", 390, "light"))
EXTRA = {"overview-broken": (("narrow-dark", 390, "dark"),)}


def take(chromium: Browser, url: str, path: Path, width: int, scheme: str) -> None:
    """One picture of the whole page: measured first, then drawn in a window of that height."""
    height = 900
    for attempt in range(2):
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            timezone_id="Etc/UTC",
            user_agent=PHONE if width < 500 else None,
        )
        page = context.new_page()
        page.goto(url)
        settled(page)
        page.wait_for_function(
            "() => [...document.querySelectorAll('[data-testid=stPlotlyChart]')]"
            ".every(chart => chart.querySelector('.main-svg'))"
        )
        page.mouse.move(0, 0)
        content = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        if content <= height or attempt == 1:
            page.screenshot(path=path)
        context.close()
        if content <= height:
            return
        height = min(content + 10, TALLEST)


def main(names: list[str]) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for bundle in dict.fromkeys(shot.bundle for shot in SHOTS):
            wanted = [
                (shot, form)
                for shot in SHOTS
                if shot.bundle == bundle
                for form in (*FORMS, *EXTRA.get(shot.name, ()))
                if not names or any(name in f"{shot.name}-{form[0]}" for name in names)
            ]
            if not wanted:
                continue
            with served("--bundle", str(ROOT / "tests" / "bundles" / bundle)) as base:
                for shot, (form, width, scheme) in wanted:
                    path = IMAGES / f"{shot.name}-{form}.png"
                    take(chromium, base + shot.path, path, width, scheme)
                    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
