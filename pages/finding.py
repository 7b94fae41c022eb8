"""One finding: what, whom it affects, why, what to type. Its address can be put into an alert."""

from __future__ import annotations

from functools import partial

import streamlit as st

from diagnosis.catalogue import CODES
from diagnosis.finding import Action, Finding
from diagnosis.snapshot import Snapshot
from exporter.handover import finding_text
from pages import _cards, _handover, _parts, _runbooks
from pages._parts import cell

MAX_SHOWN = 5
"""Findings of one address shown in full (a name may be that of several groups)."""


def find(current: Snapshot, code: str, subject: str) -> list[Finding]:
    """The open findings that an address means; ``subject`` is an id or, in metrics, a name."""
    same_code = [item for item in current.report.findings if item.code == code]
    exact = [item for item in same_code if item.subject.id == subject]
    return exact or [
        item
        for item in same_code
        if item.subject.name == subject or item.subject.id.endswith(f"/{subject}")
    ]


def body(current: Snapshot) -> None:
    """The finding of the address; all of them where it names none."""
    code = st.query_params.get("code", "")
    subject = st.query_params.get("subject", "")
    if not code and not subject:
        _all(current)
        return
    found = find(current, code, subject)
    if not found:
        _gone(current, code, subject)
    for number, finding in enumerate(found[:MAX_SHOWN]):
        _cards.finding_card(current, finding, f"full-{number}", full=True)
        _evidence(finding, number)
        _steps(finding)
        with st.container(horizontal=True, gap="medium"):
            _cards.subject_link(finding)
        _handover.bar(
            current,
            partial(finding_text, current.report, finding),
            f"finding-{number}",
            subject=finding.subject.id,
        )
        _runbooks.runbook(finding)
    _meaning(code)
    _parts.link("finding", "All findings")


def _all(current: Snapshot) -> None:
    report = current.report
    if report.findings:
        _parts.sentence(f"{len(report.findings):,} findings, worst first.", "headline")
        _cards.findings_table(current, report.findings, "all")
    elif report.unknowns:
        _parts.sentence("No finding, but some checks could not be made.", "headline")
        _parts.link("sources", "Which, and why")
    else:
        _parts.sentence("Nothing is wrong.", "headline")
    if report.unconfirmed:
        st.subheader("Seen once")
        st.caption("In the last look only: one more look, and they are findings or gone.")
        _cards.findings_table(current, report.unconfirmed, "unconfirmed")


def _gone(current: Snapshot, code: str, subject: str) -> None:
    _parts.sentence("This finding is not open in the last look.", "headline")
    _parts.sentence(f"Asked for {code or 'any code'} about {subject or 'any subject'}.")
    doubts = [item for item in current.report.unknowns if item.code == code]
    if doubts:
        st.warning(
            "That does not mean that it is mended: the check could not be made for want of data."
        )
        for item in doubts[:MAX_SHOWN]:
            _parts.sentence(item.reason)
    else:
        st.caption("It was mended, or the address is not quite right.")
    same = [item for item in current.report.findings if item.subject.id == subject]
    if same:
        st.caption("Open about the same:")
        _cards.findings_section(current, same, "same", here=False)


def _evidence(finding: Finding, number: int) -> None:
    st.subheader("Why")
    rows = [
        {
            "source": cell(item.source),
            "object": cell(item.object),
            "field": cell(item.field),
            "value": cell(item.value, 1000),
        }
        for item in finding.evidence
    ]
    _parts.table(
        rows,
        f"evidence-{number}",
        empty="The rule named no evidence.",
        alt="What was read: source, object, field and value",
    )


def _steps(finding: Finding) -> None:
    st.subheader("What to type")
    if not finding.actions:
        st.caption("No step is known.")
    for action in finding.actions:
        _step(action)


def _step(action: Action) -> None:
    _parts.sentence(action.text)
    if action.command:
        _parts.command(action.command)
    if action.kind == "fix":
        st.caption("This changes something.")


def _meaning(code: str) -> None:
    info = CODES.get(code)
    if info is None:
        return
    with st.expander("What this code means"):
        st.markdown(info.meaning)
        if info.causes:
            _parts.table(
                [{"cause": name, "meaning": text} for name, text in info.causes.items()],
                "causes",
                empty="",
                alt="Causes of this code and what they mean",
            )
        if info.silent_on:
            st.caption(f"Not flagged: {info.silent_on}")


_parts.page(body)
