"""A real ``slicewatch serve`` in a process of its own, and a real browser to look at it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    # A container has no user namespaces for the sandbox and no GPU: WebGL runs in software.
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(*arguments: str, command: str = "serve", timeout: float = 60.0) -> Iterator[str]:
    """Run ``slicewatch serve`` (or ``demo``) like this; gives its address once it is ready."""
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLICEW")}
    base = f"http://127.0.0.1:{port}"
    # A file, not a pipe: nobody reads while it runs, and a full pipe would stop it.
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "slicewatch", command, "--port", str(port), *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
        try:
            wait_until_ready(base, process, log, timeout)
            yield base
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(
    base: str, process: subprocess.Popen[str], log: IO[str], timeout: float
) -> None:
    """Return when ``/readyz`` says so; fail at once when the process has ended."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if process.poll() is not None:
            log.seek(0)
            raise AssertionError(f"it ended with {process.returncode}: {log.read()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{base}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        # A poll of the condition above, not a guess at how long it takes.
        time.sleep(0.1)
    raise AssertionError(f"not ready within {timeout:g} s")


@contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium as Debian packages it."""
    import shutil

    from playwright.sync_api import sync_playwright

    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield chromium
        finally:
            chromium.close()


def settled(page: Page, timeout: float = 60_000) -> None:
    """Wait until the script has run and nothing is being drawn any more."""
    page.wait_for_selector('[data-testid="stMainBlockContainer"]', timeout=timeout)
    page.wait_for_function(
        """() => document.querySelector('[data-testid="stApp"]')
            ?.getAttribute('data-test-script-state') === 'notRunning'
            && !document.querySelector('[data-testid="stSkeleton"]')""",
        timeout=timeout,
    )
    # Two frames later every picture has been painted.
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
