"""Comparing a report with its right answer, and the table of precision and recall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from diagnosis.catalogue import CODES
from diagnosis.finding import Finding, Report

Must = tuple[str, str | None, str | None]


class Score:
    """Counts by code: faults that were there, found, and false alarms."""

    def __init__(self) -> None:
        self.wanted: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.false: Counter[str] = Counter()
        self.wrong: list[str] = []

    def compare(
        self,
        name: str,
        report: Report,
        must: Iterable[Must],
        may: Iterable[str] = (),
        statuses: dict[str, Iterable[str]] | None = None,
    ) -> None:
        wanted = list(must)
        for code, cause, text in wanted:
            self.wanted[code] += 1
            if any(fits(finding, code, cause, text) for finding in report.findings):
                self.found[code] += 1
            else:
                self.wrong.append(f"{name}: {code}/{cause}/{text} was not found")
        allowed = {code for code, _, _ in wanted} | set(may)
        for finding in report.findings:
            if finding.severity != "info" and finding.code not in allowed:
                self.false[finding.code] += 1
                self.wrong.append(f"{name}: false alarm {finding.code}: {finding.summary}")
        for slice_id, right in (statuses or {}).items():
            if report.statuses.get(slice_id) not in tuple(right):
                self.wrong.append(
                    f"{name}: {slice_id} is {report.statuses.get(slice_id)}, not {tuple(right)}"
                )

    def table(self) -> str:
        lines = [f"{'code':<24}{'faults':>8}{'found':>8}{'false':>8}{'recall':>9}{'precision':>11}"]
        for code in CODES:
            there, hits, false = self.wanted[code], self.found[code], self.false[code]
            if not there and not false:
                continue
            recall = f"{hits / there:.2f}" if there else "-"
            precision = f"{hits / (hits + false):.2f}" if hits + false else "-"
            lines.append(f"{code:<24}{there:>8}{hits:>8}{false:>8}{recall:>9}{precision:>11}")
        return "\n".join(lines)


def fits(finding: Finding, code: str, cause: str | None, text: str | None) -> bool:
    return (
        finding.code == code
        and (cause is None or finding.cause == cause)
        and (
            text is None
            or text in finding.summary
            or text in finding.subject.id
            or text in finding.subject.name
        )
    )
