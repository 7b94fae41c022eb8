"""What history may lean on, and who must not wait for it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ALLOWED = {"fleet", "diagnosis", "history", "msgspec", "sqlalchemy", "zstandard"}
PURE = (
    "change",
    "changed_groups",
    "changed_slices",
    "changes",
    "marks",
    "memory",
    "picture",
    "spans",
)
"""Two reports in, changes out: no database, no clock."""


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_history_leans_on_fleet_and_diagnosis_alone(root: Path) -> None:
    for path in (root / "history").glob("*.py"):
        foreign = {name.partition(".")[0] for name in imported(path)} - set(sys.stdlib_module_names)
        assert foreign <= ALLOWED, path.name


@pytest.mark.parametrize("name", PURE)
def test_comparing_is_pure(root: Path, name: str) -> None:
    found = imported(root / "history" / f"{name}.py")
    assert not found & {"time", "os", "pathlib", "threading", "logging", "sqlite3", "sqlalchemy"}
    ours = {item.partition(".")[2] for item in found if item.startswith("history.")}
    assert ours <= set(PURE)


@pytest.mark.parametrize(
    "code", ["import history.changes", "import slicewatch", "import cli.diagnose, cli.capture"]
)
def test_the_command_line_does_not_wait_for_databases(root: Path, code: str) -> None:
    probe = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", probe], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert not {"sqlalchemy", "psycopg", "zstandard"} & set(json.loads(result.stdout))
