"""The walls between the rooms: what import-linter sees, and what it cannot see."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("streamlit", "ray", "pandas", "plotly", "numpy", "pyarrow", "altair")
"""What a command in a terminal must not wait for."""

PURE = ("fleet", "diagnosis")

CLOCKS = {"now", "utcnow", "today", "time", "monotonic", "perf_counter", "time_ns"}
"""Calls that would make a look impossible to replay."""


def python(root: Path, *args: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=root, capture_output=True, text=True, timeout=timeout
    )


def test_import_linter_keeps_every_contract(root: Path) -> None:
    linter = "import sys; from importlinter.cli import lint_imports_command as run; run()"
    result = python(root, "-W", "ignore", "-c", linter, "--no-cache", timeout=110)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_read_no_clock_and_touch_nothing(root: Path, room: str) -> None:
    wrong = []
    for path in sorted((root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in CLOCKS:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}: .{called.attr}()")
            if isinstance(called, ast.Name) and called.id in {
                "open",
                "print",
                "input",
                "exec",
                "eval",
                "__import__",
                "globals",
            }:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}: {called.id}()")
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_imports_the_command_line(root: Path) -> None:
    """The linter sees packages only: who may lean on the single modules at the top."""
    allowed = {
        "settings": {"cli", "collectors", "simulator", "pages", "exporter"},
        "app": {"cli"},
        "slicewatch": {"cli", "simulator"},
    }
    wrong = []
    for room in (
        "charts",
        "cli",
        "collectors",
        "diagnosis",
        "exporter",
        "fleet",
        "pages",
        "simulator",
    ):
        for path in sorted((root / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
                wrong += [
                    f"{path.relative_to(root)} imports {name}"
                    for name in names
                    if name in allowed and room not in allowed[name]
                ]
    assert not wrong, "\n".join(wrong)


def loaded_after(root: Path, code: str) -> set[str]:
    """The heavy packages that this code leaves imported in a fresh interpreter."""
    probe = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    result = python(root, "-c", probe)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1])) & set(HEAVY)


def test_the_command_line_loads_nothing_heavy(root: Path) -> None:
    assert loaded_after(root, "import slicewatch") == set()


def test_diagnosing_a_bundle_loads_nothing_heavy(root: Path, bundles: Path) -> None:
    code = (
        "import contextlib, io, sys, slicewatch\n"
        f"sys.argv = ['slicewatch', 'diagnose', '--bundle', {str(bundles / 'healthy_idle')!r}]\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    slicewatch.main()\n"
    )
    assert loaded_after(root, code) == set()


@pytest.mark.parametrize(
    "room",
    [
        "collectors.bundle",
        "collectors.runtime",
        "exporter.routes",
        "fleet.mapping",
        "diagnosis.engine",
    ],
)
def test_headless_rooms_load_nothing_heavy(root: Path, room: str) -> None:
    assert loaded_after(root, f"import {room}") == set()
