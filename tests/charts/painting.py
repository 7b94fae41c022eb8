"""Figures in a real browser: Plotly's own JavaScript, no dashboard around it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAINT = """async figure => {
  const before = performance.now();
  await Plotly.newPlot('figure', figure.data, figure.layout, {displayModeBar: false});
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - before;
}"""

TURN = """async frames => {
  const plot = document.getElementById('figure'), times = [];
  for (let at = 0; at < frames; at++) {
    const angle = at * 0.06, before = performance.now();
    const eye = {x: 1.7 * Math.sin(angle), y: -1.7 * Math.cos(angle), z: 0.75};
    await Plotly.relayout(plot, {'scene.camera.eye': eye});
    await new Promise(done => requestAnimationFrame(done));
    times.push(performance.now() - before);
  }
  return times.sort((a, b) => a - b)[Math.floor(frames / 2)];
}"""

HIT = """number => {
  const plot = document.getElementById('figure'), layout = plot._fullLayout;
  const trace = plot._fullData.findLast(one => one.customdata);
  plot.hit = null;
  plot.on('plotly_click', event => { plot.hit = event.points[0].customdata; });
  const box = plot.getBoundingClientRect();
  return [box.left + layout.xaxis._offset + layout.xaxis.l2p(trace.x[number]),
          box.top + layout.yaxis._offset + layout.yaxis.l2p(trace.y[number])];
}"""


def blank(browser: Browser, *, width: int = 1120, height: int = 900, dark: bool = False) -> Page:
    """A page with Plotly on it and room for one figure."""
    page = browser.new_page(viewport={"width": width, "height": height})
    ground = "#14171A" if dark else "#FAFAF8"
    page.set_content(f"<body style='margin:8px;background:{ground}'><div id='figure'></div></body>")
    page.add_script_tag(content=get_plotlyjs())
    return page


def paint(page: Page, figure: go.Figure) -> float:
    """Draw a figure; gives the seconds until the browser has painted it."""
    return float(page.evaluate(PAINT, json.loads(figure.to_json()))) / 1000


def turn(page: Page, frames: int = 15) -> float:
    """Turn a 3D figure; gives the median of the seconds that a frame takes."""
    return float(page.evaluate(TURN, frames)) / 1000


def click(page: Page, number: int) -> Any:
    """Click the ``number``-th marker that can be hit; gives its ``customdata``."""
    x, y = page.evaluate(HIT, number)
    page.mouse.move(x, y)
    page.wait_for_function("document.querySelector('.hoverlayer').children.length > 0")
    page.mouse.click(x, y)
    page.wait_for_function("document.getElementById('figure').hit !== null")
    return page.evaluate("document.getElementById('figure').hit")
