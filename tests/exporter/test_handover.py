"""What is pasted into a chat: readable, complete, and harmless."""

from __future__ import annotations

import re

from exporter.handover import finding_text, slice_text
from tests import factories

BROKEN = factories.broken().report


def test_a_finding() -> None:
    assert finding_text(BROKEN, BROKEN.findings[0], "https://s/finding?x=1") == (
        "**SliceIncomplete** (RayletDead), critical: Slice v6e-1 has 3 of 4 hosts: the Ray node of "
        "worker 2 is dead.\n"
        "\n"
        "- since 2026-11-30T11:58:30Z (1 min)\n"
        "- also affects: placement group train-b waits for worker 2\n"
        "- ray:ml/train, node 0202: state = `DEAD`\n"
        "- kubernetes, pod v6e-1-2: phase = `Running`\n"
        "- as of 2026-11-30T12:00:00Z; 1 of 3 sources down, 1 of 3 sources incomplete\n"
        "- https://s/finding?x=1\n"
        "\n"
        "Read the last lines of the raylet's log.\n"
        "```\n"
        "kubectl -n ml logs v6e-1-2 --tail 50\n"
        "```\n"
        "\n"
        "Delete the pod; KubeRay makes the whole replica again (kills the job).\n"
        "```\n"
        "kubectl -n ml delete pod v6e-1-2\n"
        "```\n"
    )


def test_a_slice() -> None:
    text = slice_text(BROKEN, BROKEN.fleet.slices[1])
    assert text.startswith("**v6e-1 has been incomplete for 10 min: 3 of 4 hosts.")
    assert "- critical SliceIncomplete (RayletDead): Slice v6e-1 has 3 of 4 hosts" in text
    assert "| 2 | its Ray node is dead | v6e-1-2 | gke-v6e-1-n2 | 020202020202 |" in text
    assert "train-b has lost a host" in text


def test_a_large_slice_names_only_hosts_in_trouble() -> None:
    hosts = tuple(factories.host(n) for n in range(63))
    bad = factories.host(63, state="not_ready", problem="PodFailed")
    item = factories.slice_(hosts=(*hosts, bad), hosts_expected=64)
    text = slice_text(BROKEN, item)
    assert "Hosts in trouble, of 64:" in text
    assert text.count("\n| ") == 2


def test_hostile_names_stay_text() -> None:
    report = factories.hostile().report
    for text in (
        finding_text(report, report.findings[0]),
        *(slice_text(report, item) for item in report.fleet.slices),
    ):
        assert "\x1b" not in text
        assert "\x00" not in text
        outside = re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
        assert "<script>" not in outside
        assert len(text) < 20_000
