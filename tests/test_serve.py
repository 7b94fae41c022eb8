"""Servers as people start them: each way gives the same routes on one port."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving import free_port, served, wait_until_ready


def get(url: str, headers: dict[str, str] | None = None) -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


@contextmanager
def started(root: Path, command: list[str], environment: dict[str, str]) -> Iterator[str]:
    port = free_port()
    command = [word.replace("PORT", str(port)) for word in command]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SLICEWATCH_")}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=root, env={**clean, **environment}, stdout=log, stderr=log, text=True
        )
        try:
            base = f"http://127.0.0.1:{port}"
            wait_until_ready(base, process, log, 60)
            yield base
        finally:
            process.terminate()
            process.wait(timeout=30)


def check_routes(base: str) -> None:
    for path in ("/metrics", "/metrics/"):
        status, kind, text = get(base + path)
        assert (status, kind.split(";")[0]) == (200, "text/plain")
        assert "slicewatch_slice_status" in text
    assert get(f"{base}/healthz")[2] == "ok\n"
    status, kind, text = get(f"{base}/api/v1/report")
    assert (status, kind) == (200, "application/json")
    assert json.loads(text)["schema"] == "slicewatch/v1"
    assert get(f"{base}/api/v9/nothing")[:2] == (404, "application/json")


@pytest.mark.parametrize("way", ["streamlit", "uvicorn"])
def test_the_application_without_our_command_line(root: Path, bundles: Path, way: str) -> None:
    commands = {
        "streamlit": ["-m", "streamlit", "run", "app.py", "--server.port", "PORT"],
        "uvicorn": ["-m", "uvicorn", "app:app", "--port", "PORT"],
    }
    environment = {"SLICEWATCH_BUNDLE": str(bundles / "healthy_running")}
    with started(root, [sys.executable, *commands[way]], environment) as base:
        check_routes(base)
        status, kind, text = get(f"{base}/slice?id=x")
        assert (status, kind.split(";")[0]) == (200, "text/html")
        assert "<title>Streamlit" in text


def test_headless_needs_no_streamlit_ray_pandas_or_plotly(root: Path, bundles: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('streamlit', 'ray', 'pandas', 'plotly', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        "import slicewatch\n"
        "sys.exit(slicewatch.run(['serve', '--headless', '--port', 'PORT', '--bundle', BUNDLE]))\n"
    ).replace("BUNDLE", repr(str(bundles / "healthy_running")))
    with started(root, [sys.executable, "-c", code], {}) as base:
        check_routes(base)
        assert get(f"{base}/")[0] == 404


def test_a_token_guards_metrics_and_api(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = str(bundles / "healthy_running")
    with served("--headless", "--bundle", bundle, "--api-token", "s3cret") as base:
        assert get(f"{base}/metrics")[0] == 401
        assert get(f"{base}/metrics", {"Authorization": "Bearer s3cret"})[0] == 200
        assert get(f"{base}/readyz")[0] == 200


def test_live_and_nothing_answers_yet(root: Path) -> None:
    """It starts, says that it is not ready or what is down, and never claims health."""
    port = free_port()
    arguments = ["serve", "--headless", "--port", str(port), "--ray-address", "127.0.0.1:1"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "slicewatch", *arguments],
            cwd=root,
            stdout=log,
            stderr=log,
            text=True,
        )
        try:
            base = f"http://127.0.0.1:{port}"
            wait_until_ready(base, process, log, 60)
            text = get(f"{base}/metrics")[2]
            assert 'slicewatch_source_up{source="ray:-/default"} 0.0' in text
            assert "slicewatch_slice_status" not in text
        finally:
            process.terminate()
            process.wait(timeout=30)
        log.seek(0)
        assert "Traceback" not in log.read()
