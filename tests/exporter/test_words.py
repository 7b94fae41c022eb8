from __future__ import annotations

from exporter import words
from fleet.model import Fleet
from fleet.observation import Truncation
from tests import factories
from tests.factories import NOW, group, slice_, source


def report(*statuses: str, findings: tuple = (), **fleet: object):
    slices = tuple(slice_(f"s{number}") for number in range(len(statuses)))
    fleet.setdefault("sources", (source(),))
    names = {item.id: status for item, status in zip(slices, statuses, strict=True)}
    return factories.snapshot(
        Fleet(now=NOW, slices=slices, **fleet), findings=findings, statuses=names
    ).report


def test_headline_of_the_well() -> None:
    assert words.headline(report("idle")) == "The only slice is whole and idle. Nothing is wrong."
    assert words.headline(report("running", "idle", "running")) == (
        "All 3 slices are whole: 1 idle, 2 running. Nothing is wrong."
    )
    assert words.headline(report("forming", "idle")) == (
        "2 slices: 1 idle, 1 forming. Nothing is wrong."
    )


def test_headline_never_claims_health_for_the_unseen() -> None:
    assert words.headline(report("unknown")) == "Nothing can be said about the 1 slice."
    assert words.headline(report("unknown", "idle")) == (
        "1 of 2 slices are whole: 1 idle. 1 slice cannot be seen well enough to say."
    )
    dark = report("idle", sources=(source(status="down"),))
    assert words.headline(dark) == "The only slice is whole and idle. 1 source cannot be reached."
    nothing = report(sources=(source(status="down"),))
    assert "Nothing is wrong" not in words.headline(nothing)


def test_headline_of_the_broken() -> None:
    text = words.headline(factories.broken().report)
    assert text.startswith("1 of 2 slices cannot run.")


def test_a_slice_in_words() -> None:
    broken = factories.broken().report
    assert words.slice_sentence(broken, broken.fleet.slices[1]) == (
        "v6e-1 has been incomplete for 10 min: 3 of 4 hosts. worker 2: its Ray node is dead."
    )
    healthy = factories.healthy().report
    assert words.slice_sentence(healthy, healthy.fleet.slices[0]) == (
        "v6e-0 has been idle for 10 min: 4 of 4 hosts."
    )


def test_a_slice_of_unknown_shape() -> None:
    item = slice_(hosts_expected=None)
    assert words.hosts_ratio(item) == "4 hosts, unknown how many it needs"
    assert words.shape(slice_(generation=None, topology_name=None)) == "shape ?"


def test_a_group_in_words() -> None:
    healthy = factories.healthy().report
    assert words.group_sentence(healthy, healthy.fleet.placement_groups[0]) == (
        "train-a holds a whole slice (4 bundles) on v6e-1; 4 workers running."
    )
    waiting = group("", state="PENDING", scheduling_state="QUEUED", pending_seconds=61.0)
    assert words.group_sentence(healthy, waiting) == (
        "a1a1a1a1a1a1… waits for 1 min (QUEUED): 0 of 0 bundles placed."
    )


def test_completeness() -> None:
    down, cut = source("b", status="down", complete=False), source("c", complete=False)
    asleep = source("d", status="suspended")
    assert words.completeness([]) == "no source"
    assert words.completeness([source(), asleep]) == "its source is complete"
    assert words.completeness([source(), down, cut]) == (
        "1 of 3 sources down, 1 of 3 sources incomplete"
    )


def test_a_source_in_words() -> None:
    assert words.source_sentence(source()) == "ok"
    cut = source(
        status="degraded",
        truncated=(
            Truncation(part="actors", total=12000, rows=10000),
            Truncation(part="tasks", total=-1, rows=10000),
        ),
        missing=("jobs",),
    )
    assert words.source_sentence(cut) == (
        "degraded: 10,000 of 12,000 actors; only 10,000 tasks; no jobs"
    )


def test_order_is_worst_first_and_stable() -> None:
    one = report("idle", "broken", "unknown", "incomplete")
    order = [item.name for item in words.ordered(one, one.fleet.slices)]
    assert order == ["s1", "s3", "s2", "s0"]
    assert order == [item.name for item in words.ordered(one, one.fleet.slices[::-1])]


def test_a_group_that_waits_behind_another_finding_has_its_reason() -> None:
    waiting = group("eval", id="b2" * 18, state="PENDING")
    loop = factories.finding(
        code="SchedulerLivelock",
        subject=factories.Subject(
            kind="ray_cluster", id="ml/train", name="train", namespace="ml", cluster="train"
        ),
        affects=("placement group eval waits for 40 s",),
    )
    one = report("idle", findings=(loop,), placement_groups=(waiting, group("eval-2")))
    assert words.findings_about_group(one, waiting) == [loop]
    assert words.findings_about_group(one, group("eval-2")) == []


def test_a_slice_shows_what_is_wrong_with_its_groups() -> None:
    broken = factories.broken().report
    lost = broken.fleet.slices[1]
    split = factories.finding(
        code="PlacementSplit",
        subject=factories.Subject(
            kind="placement_group", id=lost.held_by[0], name="a", namespace="ml", cluster="train"
        ),
    )
    both = factories.snapshot(broken.fleet, findings=(*broken.findings, split)).report
    codes = [item.code for item in words.findings_about_slice(both, lost)]
    assert codes == ["SliceIncomplete", "PlacementSplit"]
