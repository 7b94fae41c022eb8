"""The simulator's fleets and faults, written to a bundle and read back, get their right answers.

They were invented by other hands than the rules and the scenes beside this file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.bundle import read_bundle
from diagnosis.engine import replay
from diagnosis.finding import Report
from fleet.mapping import build_fleet
from simulator.fleet import FleetBuilder, frames
from simulator.fleet_faults import FAULTS
from tests.diagnosis.answers import Must, Score

SLICE, GROUP = "v6e-4x4-1", "train-a"

ANSWERS: dict[str, tuple[tuple[Must, ...], tuple[str, ...]]] = {
    # fault: (must, may)
    "raylet_dead": ((("SliceIncomplete", "RayletDead", SLICE),), ()),
    "machine_lost": ((("SliceIncomplete", "NodeNotReady", SLICE),), ()),
    "node_gone": ((("SliceIncomplete", "NodeGone", SLICE),), ()),
    "crash_loop": ((("SliceIncomplete", "PodCrashLooping", SLICE),), ()),
    "pod_failed": ((("SliceIncomplete", "PodFailed", SLICE),), ()),
    "container_ended": ((("SliceIncomplete", None, SLICE),), ()),
    "pod_missing": ((("SliceIncomplete", "PodMissing", SLICE),), ()),
    "never_joined": ((("SliceIncomplete", "RayNodeNeverJoined", SLICE),), ()),
    "unschedulable": ((("SliceIncomplete", "PodUnschedulable", SLICE),), ()),
    "no_capacity": ((("SliceIncomplete", "ScaleUpFailed", SLICE),), ()),
    "duplicate_worker_id": ((("DuplicateWorkerId", None, SLICE),), ()),
    "webhook_bypassed": ((("MissingSliceIdentity", None, None),), ()),
    "spans_node_pools": ((("SliceSpansNodePools", None, SLICE),), ()),
    "chip_count": ((("ChipCountMismatch", None, SLICE),), ()),
    "no_headless_service": ((("HostnamesUnresolvable", None, "v6e-4x4"),), ()),
    "host_count": ((("HostCountMismatch", None, "v6e-4x4"),), ()),
    "split": ((("PlacementSplit", None, "eval-split"),), ()),
    "subset": ((("PlacementSubset", None, "notebook"),), ()),
    "squat": ((("PlacementPending", "Squatter", "train-b"),), ("PlacementSubset",)),
    "leak_head": ((("HeadReservationLeaked", None, SLICE),), ()),
    "slice_gone": ((("PlacementPending", "SliceGone", "train-d"),), ()),
    "bundle_too_large": ((("PlacementPending", "BundleTooLarge", "train-e"),), ()),
    "member_dead": ((("GangMemberDead", None, GROUP),), ()),
    "gang_incomplete": ((("GangIncomplete", None, GROUP),), ()),
    "idle": ((("ReservationIdle", None, GROUP),), ()),
    "stalled": ((("GangStalled", None, GROUP),), ()),
    # Nothing is wrong yet, or no longer.
    "forming": ((), ()),
    "restarted": ((), ()),
}
ELSEWHERE = {"all_busy", "queued_behind"}
"""Need more than the small fleet: see below."""

WHERE = {"slice_name": SLICE, "worker": 1, "group": GROUP, "slices": (SLICE, "v6e-4x4-2")}


def small(kubernetes: bool = True, marks: str = "indexed") -> FleetBuilder:
    return (
        FleetBuilder()
        .cluster("ml", "train", kubernetes=kubernetes, marks=marks)  # type: ignore[arg-type]
        .slices("v6e", "4x4", 3)
        .slices("v5p", "2x2x2")
        .slices("v6e", "2x2")
        .gang(GROUP, "v6e-4x4-0")
    )


def report_of(files: dict[str, bytes], folder: Path) -> Report:
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return replay([build_fleet(look) for look in read_bundle(folder)])


def check(report: Report, name: str, must: tuple[Must, ...], may: tuple[str, ...] = ()) -> None:
    score = Score()
    score.compare(name, report, must, may)
    assert not score.wrong, "\n".join(score.wrong)


def test_every_fault_has_an_answer() -> None:
    assert set(FAULTS) == set(ANSWERS) | ELSEWHERE


@pytest.mark.parametrize("kind", ANSWERS)
def test_fault(kind: str, tmp_path: Path) -> None:
    where = {name: WHERE[name] for name in FAULTS[kind].needs}
    age = 240.0 if kind == "forming" else 1200.0
    must, may = ANSWERS[kind]
    check(report_of(small().fault(kind, age=age, **where).payloads(), tmp_path), kind, must, may)


def test_a_host_of_a_gang_is_lost_and_the_scheduler_loops(tmp_path: Path) -> None:
    fleet = small().fault("raylet_dead", slice_name="v6e-4x4-0", worker=1).fault("queued_behind")
    check(
        report_of(fleet.payloads(), tmp_path),
        "livelock",
        (
            ("SliceIncomplete", "RayletDead", "v6e-4x4-0"),
            ("SchedulerLivelock", None, GROUP),
        ),
    )


def test_a_host_of_a_gang_restarted_alone(tmp_path: Path) -> None:
    fleet = small().fault("restarted", slice_name="v6e-4x4-0", worker=1)
    report = report_of(fleet.payloads(), tmp_path)
    check(report, "restarted", (("HostRestartedAlone", None, "v6e-4x4-0"),), ("GangMemberDead",))


def test_all_slices_are_busy(tmp_path: Path) -> None:
    fleet = small().gang("b", "v6e-4x4-1").gang("c", "v6e-4x4-2")
    fleet.fault("all_busy", slice_name="v6e-4x4-0")
    report = report_of(fleet.payloads(), tmp_path)
    check(report, "busy", (("PlacementPending", "AllSlicesBusy", "v6e-16"),))


def test_a_stall_shows_over_frames(tmp_path: Path) -> None:
    looks = []
    for minute in range(0, 16, 3):
        builder = FleetBuilder(now=small().fleet.now + 60 * minute)
        builder.cluster().slices("v6e", "4x4").gang(GROUP).fault("stalled", group=GROUP)
        looks.append(builder.build())
    report = report_of(frames(looks), tmp_path)
    check(report, "stalled", (("GangStalled", None, GROUP),))


@pytest.mark.parametrize("marks", ["indexed", "legacy"])
@pytest.mark.parametrize("kubernetes", [True, False])
def test_a_healthy_fleet_is_silent(marks: str, kubernetes: bool, tmp_path: Path) -> None:
    check(report_of(small(kubernetes, marks).payloads(), tmp_path), "healthy", ())


@pytest.mark.parametrize("seed", range(6))
def test_large_fleets_are_silent(seed: int, tmp_path: Path) -> None:
    report = report_of(FleetBuilder(seed).fill(450).payloads(), tmp_path)
    check(report, f"fill-{seed}", ())
    assert not {"unknown", "broken", "incomplete"} & set(report.statuses.values())
