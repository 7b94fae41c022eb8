"""Findings as cards: the sentence first, then whom it affects, then what to type."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from diagnosis.finding import Finding, Severity
from diagnosis.snapshot import Snapshot
from pages._parts import MAX_SENTENCE, ago, cell, command, lazily, link, pick, sentence, when
from pages._text import plain, printable

COLOURS: dict[Severity, str] = {"critical": "red", "warning": "orange", "info": "blue"}


def subject_link(finding: Finding) -> None:
    """A link to what the finding is about, where there is a page for it."""
    subject = finding.subject
    if subject.kind == "slice":
        link("slice", f"Slice {subject.name}", id=subject.id)
    elif subject.kind == "placement_group":
        link("placement", f"Placement group {subject.name}", id=subject.id)
    elif subject.kind == "source":
        link("sources", "Sources")


def finding_card(
    current: Snapshot,
    finding: Finding,
    key: str,
    *,
    full: bool = False,
    here: bool = False,
    folded: bool = False,
) -> None:
    """One finding with its first step and a link to the rest.

    ``folded``: what is beside the sentence (whom it affects, the command) opens with a click.
    ``full``: without step and links, for the page that shows all of them below the card.
    ``here``: the page is that of the finding's subject, so no link leads there.
    """
    with st.container(border=True, key=f"card-{key}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(finding.severity, color=COLOURS[finding.severity])  # type: ignore[arg-type]
            cause = f" · {plain(finding.cause)}" if finding.cause else ""
            st.markdown(f"**{plain(finding.code)}**{cause}", width="content")
            since = ago(current, finding.since)
            st.caption(
                f"for {since}" if finding.since is not None else "since an unknown time",
                help=f"Since {when(finding.since)}" if finding.since is not None else None,
                width="content",
            )
        sentence(finding.summary, f"card-{key}")
        if full:
            _affects(finding, None)
            return
        if folded:
            with lazily("Whom it affects, and the first step", key) as unfolded:
                if unfolded:
                    _first(finding)
        else:
            _first(finding)
        with st.container(horizontal=True, gap="medium"):
            link("finding", "Evidence and next steps", **finding_params(finding))
            if not here or finding.subject.kind != "slice":
                subject_link(finding)


def _first(finding: Finding) -> None:
    _affects(finding, 3)
    if finding.actions:
        sentence(finding.actions[0].text)
        if finding.actions[0].command:
            command(finding.actions[0].command)


def _affects(finding: Finding, most: int | None) -> None:
    if not finding.affects:
        return
    hidden = len(finding.affects[most:]) if most is not None else 0
    more = f"; and {hidden:,} more" if hidden else ""
    st.text(printable(f"Also affects: {'; '.join(finding.affects[:most])}", MAX_SENTENCE) + more)


def finding_params(finding: Finding) -> dict[str, str]:
    """The query of the finding's own address, as an alert would write it."""
    return {"code": finding.code, "subject": finding.subject.id}


def findings_section(
    current: Snapshot, findings: Sequence[Finding], key: str, *, here: bool = True
) -> None:
    """Cards for the findings about one thing, or a line that there are none."""
    if not findings:
        if current.report.unknowns:
            st.caption("No finding about it; some checks could not be made, see Sources.")
        else:
            st.caption("No finding about it.")
        return
    for number, finding in enumerate(findings):
        finding_card(current, finding, f"{key}-{number}", here=here)


def findings_table(current: Snapshot, findings: Sequence[Finding], key: str) -> None:
    """Many findings, a row each; choosing one opens it."""
    rows = [
        {
            "severity": finding.severity,
            "code": cell(finding.code),
            "cause": cell(finding.cause),
            "about": cell(finding.subject.name),
            "what": cell(finding.summary),
            "for": ago(current, finding.since),
        }
        for finding in findings
    ]
    pick(
        rows,
        [finding_params(finding) for finding in findings],
        key,
        "finding",
        empty="No finding.",
        alt="Findings with severity, code, cause, subject and age",
    )
