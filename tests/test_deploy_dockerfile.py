"""The Dockerfile without an engine: what it copies is enough to run, and what it says is sane.

``build`` here is a reading of the Dockerfile: for one target, every stage it is made from, the
files that its COPY lines take out of the context (as .dockerignore leaves it), in a fresh folder.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Stage:
    name: str
    parent: str
    lines: list[str] = field(default_factory=list)

    def arguments(self, instruction: str) -> list[str]:
        return [
            line.partition(" ")[2].strip()
            for line in self.lines
            if line.partition(" ")[0].upper() == instruction
        ]


@pytest.fixture(scope="module")
def stages(root: Path) -> dict[str, Stage]:
    text = (root / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    found: dict[str, Stage] = {}
    current: Stage | None = None
    for line in filter(str.strip, joined):
        if match := re.match(r"FROM (\S+) AS (\S+)", line, re.IGNORECASE):
            current = found[match[2]] = Stage(match[2], match[1])
        elif current:
            current.lines.append(line.strip())
    return found


def chain(stages: dict[str, Stage], target: str) -> list[Stage]:
    """The stages a target is made from, base first."""
    stage = stages[target]
    before = chain(stages, stage.parent) if stage.parent in stages else []
    return [*before, stage]


def last(stages: dict[str, Stage], target: str, instruction: str) -> str:
    return [text for stage in chain(stages, target) for text in stage.arguments(instruction)][-1]


def ignored(root: Path, path: str) -> bool:
    """Whether .dockerignore keeps this path out of the context: the last pattern that fits wins."""
    out = False
    for line in (root / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        keep = pattern.startswith("!")
        pattern = pattern.lstrip("!")
        parts = Path(path).parts
        prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        short = pattern.removeprefix("**/")
        names = [*prefixes, *parts] if pattern.startswith("**/") else prefixes
        if any(fnmatch.fnmatchcase(name, short) for name in names):
            out = not keep
    return out


def build(root: Path, stages: dict[str, Stage], target: str, folder: Path) -> Path:
    """Lay out in ``folder`` what the target's image holds in its WORKDIR."""
    for stage in chain(stages, target):
        for text in stage.arguments("COPY"):
            words = shlex.split(text)
            if words[0].startswith("--from"):
                continue
            *sources, goal = words
            for source in sources:
                origin = root / source
                assert origin.exists(), f"COPY {source}: no such file"
                assert not ignored(root, source), f"COPY {source}: .dockerignore hides it"
                if origin.is_file():
                    shutil.copy2(origin, folder / Path(goal) / origin.name)
                    continue
                for path in origin.rglob("*"):
                    inside = path.relative_to(root).as_posix()
                    if path.is_file() and not ignored(root, inside):
                        place = folder / goal / path.relative_to(origin)
                        place.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(path, place)
    return folder


def test_three_targets_and_the_dashboard_is_the_default(stages: dict[str, Stage]) -> None:
    assert list(stages)[-1] == "dashboard"
    assert {"headless", "dashboard", "demo"} <= set(stages)


def test_the_base_is_pinned_by_version(root: Path) -> None:
    text = (root / "Dockerfile").read_text()
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11\.\d+-slim-bookworm$", text, re.MULTILINE)
    outside = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    names = set(re.findall(r" AS (\S+)", text))
    assert set(outside) - names == {"${PYTHON_IMAGE}"}


@pytest.mark.parametrize("target", ["headless", "dashboard", "demo"])
def test_nobody_is_root_and_health_is_checked(stages: dict[str, Stage], target: str) -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last(stages, target, "USER"))
    assert "/healthz" in last(stages, target, "HEALTHCHECK")
    assert json.loads(last(stages, target, "ENTRYPOINT")) == ["python", "-m", "slicewatch"]


@pytest.mark.parametrize("target", ["headless", "dashboard", "demo"])
def test_no_build_tools_are_left(stages: dict[str, Stage], target: str) -> None:
    for stage in chain(stages, target):
        for text in stage.arguments("RUN"):
            assert not re.search(r"pip install|apt-get install|gcc|build-essential", text)


def test_each_image_installs_its_own_list(stages: dict[str, Stage]) -> None:
    def lists(name: str) -> set[str]:
        return {
            found
            for stage in chain(stages, name)
            for text in stage.arguments("RUN")
            for found in re.findall(r"-r (\S+)", text)
        }

    assert lists("env-headless") == {"requirements-headless.txt"}
    assert lists("env-dashboard") == lists("env-headless") | {"requirements-dashboard.txt"}
    assert lists("env-demo") == lists("env-dashboard") | {"requirements.txt"}
    for target in ("headless", "dashboard", "demo"):
        assert f"--from=env-{target} " in last(stages, target, "COPY")


def test_no_secret_and_no_rubbish_gets_into_the_context(root: Path) -> None:
    for path in (
        ".env",
        ".git/config",
        "tests/conftest.py",
        "fleet/__pycache__/x.pyc",
        ".venv/x",
        "docs/images/a.png",
        "kubeconfig",
    ):
        assert ignored(root, path), path
    for path in ("app.py", "fleet/model.py", "requirements.txt", "diagnosis/rules/gangs.py"):
        assert not ignored(root, path), path


@pytest.mark.parametrize("target", ["headless", "dashboard", "demo"])
def test_what_is_copied_is_enough_for_the_command_line(
    root: Path, stages: dict[str, Stage], bundles: Path, tmp_path: Path, target: str
) -> None:
    folder = build(root, stages, target, tmp_path)
    for args in (["--help"], ["diagnose", "--bundle", str(bundles / "healthy_idle")]):
        result = subprocess.run(
            [sys.executable, "-m", "slicewatch", *args],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(folder),
        )
        assert result.returncode == 0, result.stderr


def environment(folder: Path) -> dict[str, str]:
    """The image's variables, and nothing of this machine's clusters."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def running(folder: Path, args: list[str], port: int, log: Path):
    """The server as the image starts it; ended, and waited for, whatever happens."""
    env = environment(folder) | {"SLICEWATCH_HOST": "127.0.0.1", "SLICEWATCH_PORT": str(port)}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "slicewatch", *args],
            cwd=folder,
            stdout=out,
            stderr=out,
            env=env,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=5)


def get(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 40) -> bytes:
    """The page once it answers; fails when the server has ended or the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bytes(answer.read())
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


@pytest.mark.parametrize("target", ["headless", "dashboard"])
def test_the_copied_files_serve(
    root: Path, stages: dict[str, Stage], tmp_path: Path, free_port: int, target: str
) -> None:
    folder = build(root, stages, target, tmp_path)
    args = [*json.loads(last(stages, target, "CMD")), "--ray-address", "http://127.0.0.1:9"]
    log = tmp_path / "server.log"
    with running(folder, args, free_port, log) as process:
        base = f"http://127.0.0.1:{free_port}"
        assert get(base + "/healthz", process, log).strip() == b"ok"
        assert b"slicewatch_build_info" in get(base + "/metrics", process, log)
    assert process.returncode in (0, -15, 143), log.read_text()


@pytest.mark.install
@pytest.mark.timeout(600)
def test_the_headless_list_installs_and_runs_alone(
    root: Path, stages: dict[str, Stage], bundles: Path, tmp_path: Path
) -> None:
    """What `env-headless` does, with nothing of this environment: a fresh venv and pip."""
    folder = build(root, stages, "headless", tmp_path)
    for name in ("constraints.txt", "requirements-headless.txt"):
        shutil.copy2(root / name, folder / name)
    subprocess.run([sys.executable, "-m", "venv", "env"], cwd=folder, check=True, timeout=120)
    python = folder / "env" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "-r", "requirements-headless.txt"],
        cwd=folder,
        check=True,
        timeout=420,
    )
    result = subprocess.run(
        [python, "-m", "slicewatch", "diagnose", "--bundle", bundles / "healthy_idle"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(folder),
    )
    assert result.returncode == 0, result.stderr
