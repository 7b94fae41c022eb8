"""A narrowed report holds what was asked for and claims nothing about the rest."""

from __future__ import annotations

import pytest

from exporter.choosing import narrowed
from exporter.words import headline
from fleet.choosing import Choice
from tests import factories

BROKEN = factories.broken().report


def test_without_a_choice_it_is_the_same_report() -> None:
    assert narrowed(BROKEN, Choice()) is BROKEN


@pytest.mark.parametrize(
    ("choice", "slices", "codes"),
    [
        (Choice(states=("incomplete",)), ["v6e-1"], ["SliceIncomplete"]),
        (Choice(states=("unknown",)), ["v6e-0"], []),
        (
            Choice(namespaces=("ml",)),
            ["v6e-0", "v6e-1"],
            ["SliceIncomplete", "PlacementPending", "SourceDown"],
        ),
        (Choice(namespaces=("prod",)), [], []),
        (Choice(text="eval"), [], ["PlacementPending"]),
        (Choice(text="train-b"), ["v6e-1"], ["SliceIncomplete"]),
        (Choice(generations=("v6e",)), ["v6e-0", "v6e-1"], ["SliceIncomplete"]),
    ],
)
def test_narrowed(choice: Choice, slices: list[str], codes: list[str]) -> None:
    found = narrowed(BROKEN, choice)
    assert [item.name for item in found.fleet.slices] == slices
    assert [item.code for item in found.findings] == codes
    assert found.fleet.sources == BROKEN.fleet.sources
    assert found.unknowns == BROKEN.unknowns
    assert "Nothing is wrong" not in headline(found)


def test_findings_by_group_are_those_about_each_group() -> None:
    from exporter.words import findings_about_group, findings_by_group

    for report in (BROKEN, factories.hostile().report, factories.healthy().report):
        found = findings_by_group(report)
        for group in report.fleet.placement_groups:
            assert found.get(group.key, []) == findings_about_group(report, group)
