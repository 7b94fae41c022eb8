"""A report narrowed to what somebody asked to see."""

from __future__ import annotations

import msgspec

from diagnosis.finding import Finding, Report
from fleet.choosing import Choice, chosen_groups, chosen_slices, contains


def narrowed(report: Report, choice: Choice) -> Report:
    """The same report with only the slices, groups and findings that fit the choice.

    Sources and unknowns stay whole: what cannot be seen may well have fitted. Findings of other
    subjects (pods, nodes, worker groups) stay where they lie in a Ray cluster that fits and, with
    words, where one of their texts holds them; with a generation or a state asked for, only
    findings about slices and groups that fit can stay.
    """
    if choice.all:
        return report
    slices = chosen_slices(report.fleet, report.statuses, choice)
    groups = chosen_groups(report.fleet, slices, choice)
    subjects = {("slice", item.id) for item in slices}
    subjects |= {("placement_group", ident) for group in groups for ident in (group.key, group.id)}
    keep = [item for item in report.findings if _fits(item, choice, subjects)]
    clusters = [
        view for view in report.fleet.clusters if choice.place_fits(view.namespace, view.cluster)
    ]
    return msgspec.structs.replace(
        report,
        fleet=msgspec.structs.replace(
            report.fleet,
            slices=slices,
            placement_groups=groups,
            clusters=tuple(clusters),
        ),
        findings=tuple(keep),
    )


def _fits(finding: Finding, choice: Choice, subjects: set[tuple[str, str]]) -> bool:
    subject = finding.subject
    if (subject.kind, subject.id) in subjects:
        return True
    if choice.generations or choice.states:
        return False
    if subject.kind == "source":
        place = subject.name.removeprefix("ray:").split("/")
        fits = len(place) != 2 or choice.place_fits(place[0], place[1])
        return fits and contains(choice.words, _texts(finding))
    return choice.place_fits(subject.namespace, subject.cluster) and bool(
        contains(choice.words, _texts(finding))
        if choice.words
        else subject.kind not in ("slice", "placement_group")
    )


def _texts(finding: Finding) -> tuple[str | None, ...]:
    return (
        finding.code,
        finding.cause,
        finding.summary,
        finding.subject.id,
        finding.subject.name,
        *finding.affects,
    )
