"""Every code has a runbook, and what a runbook says to type is what the rule says to type."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from diagnosis.catalogue import CODES
from diagnosis.engine import raw_hits, replay
from tests.scenarios import SCENES

RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
SECTIONS = (
    "What it means",
    "How to be sure",
    "What else it could be",
    "What to do",
    "How to prevent it",
)

Form = tuple[str, ...]


def form(command: str) -> Form:
    """What a command is, without the names in it: ``("kubectl", "describe", "pod")``."""
    words = shlex.split(command)
    if words[0] == "kubectl":
        rest = words[1:]
        while rest and rest[0] in ("-n", "--context"):
            rest = rest[2:]
        if rest[0] == "exec":
            return ("exec", *_inner(rest[rest.index("--") + 1 :]))
        if rest[0] == "logs":
            target = "deploy" if "deploy/" in rest[1] else "-l" if rest[1] == "-l" else "pod"
            return ("kubectl", "logs", target)
        if rest[0] == "rollout":
            return ("kubectl", "rollout", rest[1])
        return ("kubectl", rest[0], *rest[1:2])
    return ("exec", *_inner(words))


def _inner(words: list[str]) -> Form:
    if words[:2] == ["ray", "list"]:
        return ("ray", "list", words[2])
    if words[0] == "ray":
        return ("ray", words[1])
    return (words[0],)


@cache
def given() -> dict[str, set[Form]]:
    """Forms of all commands that the rules give, by code, over all scenarios."""
    forms: dict[str, set[Form]] = defaultdict(set)
    for scenario in SCENES:
        frames = scenario.frames()
        findings = list(replay(frames).findings)
        findings += [hit.finding for fleet in frames for hit in raw_hits(fleet)]
        for finding in findings:
            for action in finding.actions:
                if action.command is not None:
                    forms[finding.code].add(form(action.command))
    return forms


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("code", CODES)
def test_runbook(code: str) -> None:
    text = (RUNBOOKS / f"{code}.md").read_text()
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert tuple(titles) == SECTIONS
    typed = commands(text)
    assert typed
    strange = [line for line in typed if form(line) not in given()[code]]
    assert not strange, f"{code} gives no such command: {strange}; it gives {sorted(given()[code])}"
    for cause in CODES[code].causes:
        assert cause in text


def test_an_invented_command_is_noticed() -> None:
    assert form("kubectl -n ml drain node x") not in given()["SliceIncomplete"]


def test_a_fix_that_ends_work_says_so() -> None:
    """Whatever removes pods or groups says in words what that costs."""
    for scenario in SCENES:
        for finding in replay(scenario.frames()).findings:
            for action in finding.actions:
                if action.command is None or action.kind != "fix":
                    continue
                if " delete " in action.command or "remove_placement_group" in action.command:
                    told = action.text.lower()
                    assert re.search(r"kill|cost|nothing|lets|fails|deleted", told), action.text
