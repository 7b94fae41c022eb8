"""Every bundle with a known answer gets that answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.bundle import read_bundle
from diagnosis.engine import replay
from diagnosis.finding import Report
from fleet.mapping import build_fleet
from tests.diagnosis.answers import Score

BUNDLES = Path(__file__).resolve().parent.parent / "bundles"
NAMES = sorted(path.parent.name for path in BUNDLES.glob("*/expect.json"))


def report_of(name: str) -> Report:
    return replay([build_fleet(look) for look in read_bundle(BUNDLES / name)])


@pytest.mark.parametrize("name", NAMES)
def test_bundle(name: str) -> None:
    right = json.loads((BUNDLES / name / "expect.json").read_text())
    report = report_of(name)
    score = Score()
    must = [tuple(item) for item in right["must"]]
    score.compare(name, report, must, right["may"], right["statuses"])
    assert not score.wrong, "\n".join(score.wrong)
    critical = any(finding.severity == "critical" for finding in report.findings)
    assert int(critical) == right["exit"]


def test_precision_and_recall_over_all_bundles(capsys: pytest.CaptureFixture[str]) -> None:
    score = Score()
    for name in NAMES:
        right = json.loads((BUNDLES / name / "expect.json").read_text())
        must = [tuple(item) for item in right["must"]]
        score.compare(name, report_of(name), must, right["may"], right["statuses"])
    with capsys.disabled():
        print(f"\n{len(NAMES)} bundles\n{score.table()}")
    assert not score.wrong, "\n".join(score.wrong)
    assert len(NAMES) >= 18
