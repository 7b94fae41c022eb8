"""The pins: one truth about versions in requirements*.txt, constraints.txt and pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LISTS = ("headless", "dashboard", "", "dev")


def list_path(root: Path, name: str) -> Path:
    return root / ("requirements-" + name + ".txt" if name else "requirements.txt")


def own(path: Path) -> dict[str, Requirement]:
    """The requirements that this very file names, by canonical name."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    found = [Requirement(line) for line in lines if line and not line.startswith("-")]
    return {canonicalize_name(item.name): item for item in found}


def version(requirement: Requirement) -> str:
    match = re.fullmatch(r"==([^,*]+)", str(requirement.specifier))
    assert match, f"{requirement} is not pinned exactly"
    return match.group(1)


@pytest.fixture(scope="module")
def constraints(root: Path) -> dict[str, Requirement]:
    return own(root / "constraints.txt")


@pytest.mark.parametrize("name", LISTS)
def test_every_requirement_is_pinned_to_its_constraint(
    root: Path, constraints: dict[str, Requirement], name: str
) -> None:
    for key, item in own(list_path(root, name)).items():
        assert key in constraints, f"{item} is not in constraints.txt"
        assert version(item) == version(constraints[key])


def test_constraints_cover_all_that_the_requirements_pull_in(
    root: Path, constraints: dict[str, Requirement]
) -> None:
    waiting = [item for name in LISTS for item in own(list_path(root, name)).values()]
    seen: set[tuple[str, frozenset[str]]] = set()
    missing: set[str] = set()
    while waiting:
        item = waiting.pop()
        key = canonicalize_name(item.name)
        if (key, frozenset(item.extras)) in seen:
            continue
        seen.add((key, frozenset(item.extras)))
        if key not in constraints:
            missing.add(key)
        try:
            needs = metadata.requires(key) or []
        except metadata.PackageNotFoundError:
            continue  # an environment made from another list: nothing to follow
        for text in needs:
            need = Requirement(text)
            extras = item.extras or {""}
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(need)
    assert not missing - {"setuptools", "pip", "wheel"}


def test_package_metadata_allows_the_pinned_versions(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for ranges, name in (
        (project["dependencies"], "headless"),
        (extras["dashboard"], "dashboard"),
        (extras["demo"], ""),
    ):
        pinned = own(list_path(root, name))
        allowed = {canonicalize_name(item.name): item for item in map(Requirement, ranges)}
        assert set(allowed) == set(pinned)
        for key, item in allowed.items():
            assert item.specifier.contains(version(pinned[key]), prereleases=True)


def test_headless_pulls_in_no_dashboard_and_no_ray(root: Path) -> None:
    assert not {"streamlit", "ray", "pandas", "plotly"} & set(own(list_path(root, "headless")))
    assert "ray" not in own(list_path(root, "dashboard"))


DISTRIBUTIONS = {
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "pydantic_settings": "pydantic-settings",
    "yaml": "pyyaml",
}
ROOMS = {
    "headless": (
        "settings.py",
        "slicewatch.py",
        "cli",
        "collectors",
        "diagnosis",
        "exporter",
        "fleet",
        "history",
    ),
    "dashboard": ("app.py", "charts", "pages"),
    "": ("simulator",),
}
"""Which list has to be enough for which rooms; each list includes the ones before it."""


def imported(place: Path) -> set[str]:
    """Top-level names that are imported anywhere in a file or a folder."""
    found = set()
    for path in [place] if place.is_file() else place.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add((node.module or "").partition(".")[0])
    return found


def test_what_is_imported_is_required_where_it_is_imported(root: Path) -> None:
    ours = {Path(name).stem for names in ROOMS.values() for name in names}
    listed: set[str] = set()
    for name, rooms in ROOMS.items():
        listed |= set(own(list_path(root, name)))
        for room in rooms:
            foreign = imported(root / room) - set(sys.stdlib_module_names) - ours
            if room == "cli":
                foreign -= {"streamlit"}  # only `serve` without --headless, which says so
            missing = {DISTRIBUTIONS.get(item, item) for item in foreign} - listed
            assert not missing, f"{room} imports {missing}"


def test_the_version_is_said_once_everywhere(root: Path) -> None:
    stated = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    for path in (root / "deploy" / "kubernetes").rglob("*.yaml"):
        for tag in re.findall(r"(?:image: slicewatch:|newTag: )([\w.]+)", path.read_text()):
            assert tag == stated, path
