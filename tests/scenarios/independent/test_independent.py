"""Each independent scene, through the real reader of bundles, gets the answer written beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.bundle import read_bundle
from diagnosis.engine import replay
from diagnosis.finding import Report
from fleet.mapping import build_fleet
from tests.diagnosis.answers import Score
from tests.scenarios.independent import (  # noqa: F401 - importing registers their scenes
    scenes_gangs,
    scenes_hardware,
    scenes_identity,
    scenes_placement,
    scenes_slices,
    scenes_sources,
)
from tests.scenarios.independent.payloads import write
from tests.scenarios.independent.registry import SCENES, Scene

TOTAL = Score()


def judged(scene: Scene, folder: Path) -> Report:
    made = scene.make()
    frames = made if isinstance(made, list) else [made]
    return replay([build_fleet(look) for look in read_bundle(write(folder, *frames))])


def differences(scene: Scene, report: Report) -> list[str]:
    score = Score()
    statuses = {key: [value] for key, value in scene.statuses.items()}
    score.compare(scene.name, report, scene.must, scene.may, statuses)
    TOTAL.wanted += score.wanted
    TOTAL.found += score.found
    TOTAL.false += score.false
    wrong = list(score.wrong)
    critical = any(finding.severity == "critical" for finding in report.findings)
    if scene.exit is not None and int(critical) != scene.exit:
        wrong.append(f"exit code {int(critical)}, not {scene.exit}")
    unknown = {item.code for item in report.unknowns}
    wrong += [f"{code} should be unknown" for code in scene.unknown if code not in unknown]
    there = {finding.code for finding in report.findings}
    wrong += [f"{code} should not be there" for code in scene.not_there if code in there]
    return wrong


@pytest.mark.parametrize("scene", SCENES, ids=lambda item: item.name)
def test_scene(scene: Scene, tmp_path: Path) -> None:
    report = judged(scene, tmp_path)
    wrong = differences(scene, report)
    said = [
        f"  {f.severity} {f.code}/{f.cause} {f.subject.name}: {f.summary}" for f in report.findings
    ]
    said += [f"  {key}: {value}" for key, value in report.statuses.items()]
    assert not wrong, "\n".join([*wrong, "what was said:", *said])


def test_precision_and_recall(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{len(SCENES)} independent scenes\n{TOTAL.table()}")
