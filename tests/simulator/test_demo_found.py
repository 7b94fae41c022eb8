"""Each fault of the demo is found by ``slicewatch diagnose`` from outside, and gone once mended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.demo import Demo
from tests.simulator.conftest import settled, wait_for

pytestmark = [pytest.mark.real_ray, pytest.mark.timeout(300)]

Found = set[tuple[str, str | None, str]]


def diagnose(demo: Demo, root: Path) -> Found:
    """Code, cause and subject's name of each finding that is more than information."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "slicewatch", "diagnose", "--format", "json"),
            *("--kubernetes", "on", "--kubeconfig", str(demo.kubeconfig)),
            *("--placement-pending", "2", "--head-leak", "2", "--request-timeout", "30"),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=90,
        env={key: value for key, value in os.environ.items() if not key.startswith("SLICEWATCH_")},
    )
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert [source["status"] for source in report["sources"]] == ["ok", "ok"]
    return {
        (item["code"], item["cause"], item["subject"]["name"])
        for item in report["findings"]
        if item["severity"] != "info"
    }


def test_a_healthy_demo_has_no_findings(demo: Demo, root: Path) -> None:
    wait_for(lambda: diagnose(demo, root) == set(), 60, every=1)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("split_group", [("PlacementSplit", None, "eval-split")]),
        ("squat", [("PlacementPending", "Squatter", "train-b")]),
        ("leak_head", [("HeadReservationLeaked", None, "v5p-group-0")]),
        ("stall_pod", [("SliceIncomplete", "PodCrashLooping", None)]),
        ("no_capacity", [("SliceIncomplete", "ScaleUpFailed", "v5p-group-0")]),
        (
            "stop_host",
            [("SchedulerLivelock", None, None), ("SliceIncomplete", "NodeNotReady", None)],
        ),
    ],
)
def test_each_fault_is_found_and_gone_once_mended(
    demo: Demo, root: Path, key: str, expected: list[tuple[str, str | None, str | None]]
) -> None:
    demo.control.inject(key)
    settled(demo, key, active=True)
    last: Found = set()

    def all_there() -> bool:
        nonlocal last
        last = diagnose(demo, root)
        return all(
            any(found[:2] == item[:2] and item[2] in (None, found[2]) for found in last)
            for item in expected
        )

    try:
        wait_for(all_there, 60, every=1)
    finally:
        print(key, sorted(map(str, last)))
        demo.control.mend(key)
    settled(demo, key, active=False)
    wait_for(lambda: diagnose(demo, root) == set(), 90, every=1)
