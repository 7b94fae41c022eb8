"""Which version this is."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path


def version() -> str:
    """The version of the folder this runs from, else of the installed package."""
    project = Path(__file__).parent.parent / "pyproject.toml"
    try:
        data = tomllib.loads(project.read_text(encoding="utf-8"))
        return str(data["project"]["version"])
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        pass
    try:
        return importlib.metadata.version("slicewatch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
