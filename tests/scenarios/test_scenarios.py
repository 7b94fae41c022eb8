"""Every scenario gets its right answer; precision and recall over all of them are 1."""

from __future__ import annotations

import pytest

from diagnosis.catalogue import CODES
from diagnosis.engine import raw_hits, replay
from tests.diagnosis.answers import Score
from tests.scenarios import SCENES, Scenario


@pytest.mark.parametrize("scenario", SCENES, ids=lambda item: item.name)
def test_scenario(scenario: Scenario) -> None:
    report = replay(scenario.frames())
    score = Score()
    score.compare(scenario.name, report, scenario.must, scenario.may, scenario.statuses)
    assert not score.wrong, "\n".join(score.wrong)
    unknown = {item.code for item in report.unknowns}
    assert set(scenario.unknown) <= unknown, sorted(unknown)
    for finding in report.findings:
        assert finding.evidence, finding.code
        assert any(action.command for action in finding.actions), finding.code
        assert finding.actions[0].kind == "look", finding.code
        assert finding.runbook == CODES[finding.code].runbook
        if CODES[finding.code].causes and finding.code != "PlacementPending":
            assert finding.cause in CODES[finding.code].causes


def test_precision_and_recall(capsys: pytest.CaptureFixture[str]) -> None:
    score = Score()
    for scenario in SCENES:
        report = replay(scenario.frames())
        score.compare(scenario.name, report, scenario.must, scenario.may, scenario.statuses)
    with capsys.disabled():
        print(f"\n{len(SCENES)} scenarios\n{score.table()}")
    assert not score.wrong, "\n".join(score.wrong)


def test_every_code_fires_somewhere_and_every_cause_too() -> None:
    codes = {code for scenario in SCENES for code, _, _ in scenario.must}
    assert codes == set(CODES)
    # Some causes never show by themselves: they fold into the finding that explains them.
    fired = {
        (hit.code, hit.finding.cause)
        for scenario in SCENES
        for fleet in scenario.frames()
        for hit in raw_hits(fleet)
    }
    missing = [
        f"{code}/{cause}"
        for code, info in CODES.items()
        for cause in info.causes
        if (code, cause) not in fired
    ]
    assert not missing, missing
