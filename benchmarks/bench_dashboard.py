"""How long a reader waits, on a fleet of 10,000 hosts, beside a bare Streamlit page.

    python benchmarks/bench_dashboard.py [--hosts N] [--hour]

Prints, from a headless Chromium: the time from entering an address until the sentence at the top
can be read and until everything is painted, for the overview, a slice page and a bare page; and
from inside: the server's time for a refresh with a new look. ``--hour`` then draws an hour of
refreshes (1,200) and prints what the process grew by.
"""

from __future__ import annotations

import argparse
import gc
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402  # needs the path above

from benchmarks.diagnosis import hurt_fleet  # noqa: E402
from diagnosis.engine import judge  # noqa: E402
from diagnosis.memory import Memory  # noqa: E402
from diagnosis.snapshot import Snapshot  # noqa: E402
from fleet.observation import Observation  # noqa: E402
from pages import _state  # noqa: E402

POLL = 10.0
TRIES = 5
WANTED = {"overview": 2.0, "slice": 1.0, "refresh": 0.3}


class Looks:
    """A source that publishes a new look each poll, as the runtime does."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def renew(self) -> None:
        self._snapshot = msgspec.structs.replace(self._snapshot, published_at=time.time())

    def renew_for_ever(self) -> None:
        while True:
            time.sleep(POLL)
            self.renew()


def look(hosts: int) -> Snapshot:
    fleet = hurt_fleet(hosts)
    report, _ = judge(fleet, Memory())
    now = Observation(now=fleet.now)
    return Snapshot(observation=now, report=report, published_at=time.time(), stale_after=1e6)


# --- the child process: a server --------------------------------------------------------------


def serve(what: str, hosts: int, port: int) -> None:
    import streamlit as st

    from cli.launch import theme

    script = ROOT / "pages" / "shell.py"
    if what == "bare":
        script = Path(tempfile.mkdtemp()) / "bare.py"
        script.write_text("import streamlit as st\nst.text('bare')\n")
    else:
        looks = Looks(look(hosts))
        _state.install(_state.Serving(source=looks))
        threading.Thread(target=looks.renew_for_ever, daemon=True).start()
    st.App(script).run(config={**theme(), "server.port": port, "server.address": "127.0.0.1"})


@contextmanager
def serving(what: str, hosts: int) -> Iterator[str]:
    from tests.serving import free_port

    port = free_port()
    command = [sys.executable, __file__, "--serve", what, "--hosts", str(hosts)]
    child = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    base = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 180
        while time.monotonic() < end and child.poll() is None:
            try:
                with urllib.request.urlopen(f"{base}/_stcore/health", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        yield base
    finally:
        child.terminate()
        child.wait(timeout=30)


# --- from the browser -------------------------------------------------------------------------

PAINTED = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    const charts = [...document.querySelectorAll('[data-testid=stPlotlyChart]')];
    return app?.getAttribute('data-test-script-state') === 'notRunning'
        && !document.querySelector('[data-testid="stSkeleton"]')
        && charts.every(chart => chart.querySelector('.main-svg'));
}"""


def timed(context: Any, address: str) -> tuple[float, float]:
    """Seconds until there is a first sentence, and until all is painted, in a new tab."""
    page = context.new_page()
    page.goto("about:blank")
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector('[data-testid="stText"]', timeout=120_000)
    readable = time.perf_counter() - start
    page.wait_for_function(PAINTED, timeout=120_000)
    painted = time.perf_counter() - start
    page.close()
    return readable, painted


def browse(hosts: int, slice_id: str) -> None:
    from urllib.parse import quote

    from tests.serving import browser

    rows = []
    with browser() as chromium:
        pages = {"overview": ("pages", "/"), "slice": ("pages", f"/slice?id={quote(slice_id)}")}
        for what, names in (("bare", ["bare"]), ("pages", list(pages))):
            with serving(what, hosts) as base:
                context = chromium.new_context(viewport={"width": 1280, "height": 900})
                for name in names:
                    path = pages[name][1] if name in pages else "/"
                    first = timed(context, base + path)
                    again = [timed(context, base + path) for _ in range(TRIES)]
                    rows.append((name, first, again))
                context.close()
    print(f"{'page':<10}{'readable':>10}{'painted':>10}{'first visit':>13}{'wanted':>9}")
    for name, first, again in rows:
        readable, painted = (statistics.median(column) for column in zip(*again, strict=True))
        wanted = f"{WANTED[name]:.1f} s" if name in WANTED else ""
        print(f"{name:<10}{readable:>8.2f} s{painted:>8.2f} s{first[1]:>11.2f} s{wanted:>9}")


# --- from inside --------------------------------------------------------------------------------


def refreshes(snapshot: Snapshot, path: str, times: int) -> tuple[list[float], list[float]]:
    """Wall and processor seconds of runs with a new look each; memory is what is left of them."""
    from streamlit.testing.v1 import AppTest

    looks = Looks(snapshot)
    _state.install(_state.Serving(source=looks))
    tab = AppTest.from_file(ROOT / "pages" / "shell.py", default_timeout=120)
    tab.run()
    wall, cpu = [], []
    for _ in range(times):
        looks.renew()
        one, two = time.perf_counter(), time.process_time()
        tab.run()
        wall.append(time.perf_counter() - one)
        cpu.append(time.process_time() - two)
    assert not tab.exception, path
    return wall, cpu


def resident() -> float:
    """Mebibytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def hour() -> None:
    snapshot = look(1_000)
    refreshes(snapshot, "/", 100)
    gc.collect()
    before, start = resident(), time.perf_counter()
    refreshes(snapshot, "/", 1_200)
    gc.collect()
    grown = resident() - before
    print(
        f"an hour of refreshes (1,200, a new look each) of 1,000 hosts: {before:.0f} MiB before, "
        f"{grown:+.1f} MiB after, drawn in {time.perf_counter() - start:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--hour", action="store_true")
    parser.add_argument("--serve", choices=["bare", "pages"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    if given.serve:
        serve(given.serve, given.hosts, given.port)
        return
    snapshot = look(given.hosts)
    print(f"{given.hosts:,} hosts, {len(snapshot.report.findings)} findings")
    browse(given.hosts, snapshot.report.fleet.slices[1].id)
    wall, cpu = refreshes(snapshot, "/", 10)
    print(
        f"refresh of the overview with a new look, on the server: {statistics.median(wall):.3f} s "
        f"({statistics.median(cpu):.3f} s of a processor); wanted {WANTED['refresh']} s"
    )
    if given.hour:
        hour()


if __name__ == "__main__":
    main()
