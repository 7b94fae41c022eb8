"""The figures of capacity, of time and of gangs: what they say, and that no name is markup."""

from __future__ import annotations

from datetime import timedelta, timezone

from charts.capacity import capacity_figure, tally
from charts.gangs import gang_figure
from charts.timeline import Bar, Mark, timeline_figure
from fleet.gangs import gang_of
from fleet.model import Bundle, Fleet
from tests import factories
from tests.factories import HOSTILE, NOW, gang, group, slice_


def test_capacity_counts_every_slice_once() -> None:
    report = factories.broken().report
    assert tally(report.fleet, report.statuses) == {("v6e", "4x4"): {"unknown": 1, "incomplete": 1}}
    figure = capacity_figure(report.fleet, report.statuses)
    assert [trace.name for trace in figure.data] == ["! · incomplete: 1", "? · unknown: 1"]
    assert [sum(trace.customdata) for trace in figure.data] == [1, 1]


def test_an_empty_fleet_has_an_empty_picture() -> None:
    assert not capacity_figure(Fleet(now=NOW), {}).data


def test_names_are_no_markup() -> None:
    item = slice_(HOSTILE, generation=HOSTILE, topology_name=HOSTILE)
    fleet = Fleet(now=NOW, slices=(item,))
    bars = [Bar(HOSTILE, NOW, NOW + 5, HOSTILE)]
    marks = [Mark(HOSTILE, NOW, HOSTILE, 0)]
    held = group(HOSTILE, bundles=(Bundle(index=0, chips=4.0),))
    for figure in (
        capacity_figure(fleet, {}),
        timeline_figure(bars, marks, [], NOW, NOW + 10),
        gang_figure(gang_of(fleet, held)),
    ):
        assert "<script>" not in figure.to_json().replace("\\u003c", "<")


def test_times_are_the_readers() -> None:
    zone = timezone(timedelta(hours=9))
    bars = [Bar("SliceIncomplete v6e-1", NOW - 60, NOW + 9000, "lost", "critical", still=True)]
    marks = [Mark("heads", NOW, "restarted", 7)]
    figure = timeline_figure(bars, marks, [(NOW, NOW + 60)], NOW - 3600, NOW + 3600, zone=zone)
    assert figure.layout.xaxis.range[0] == "2026-11-30 20:00:00"
    assert figure.data[0].x[0] == "2026-11-30 20:59:00"
    # What lasts beyond the picture ends at its edge.
    assert figure.data[0].x[2] == "2026-11-30 22:00:00"
    assert list(figure.data[1].customdata) == [7]
    assert len(figure.layout.shapes) == 1


def test_absurd_times_do_no_harm() -> None:
    figure = timeline_figure([Bar("x", -1e300, 1e300, "x")], [Mark("m", 1e300, "m", 0)], [], 0, 10)
    assert figure.to_json()


def test_a_gang_has_a_tile_a_rank_and_a_host_that_is_not_in_it() -> None:
    bundles, workers = gang("v6e-0", "k")
    held = group(
        bundles=(*(_placed(item) for item in bundles[:3]), Bundle(index=3, chips=4.0)),
        workers=workers[:2],
        slices=("ml/train/v6e-0",),
    )
    figure = gang_figure(gang_of(Fleet(now=NOW, slices=(slice_(),)), held))
    assert {trace.name: list(trace.text) for trace in figure.data} == {
        "R · running: 2": ["R0", "R1"],
        "V · no worker: 1": ["V2"],
        "? · waits for a host: 1": ["?3"],
        "· · host not in the group: 1": ["·"],
    }
    assert list(figure.layout.yaxis.ticktext) == ["v6e-0", "no host"]


def test_a_large_gang_stays_narrow() -> None:
    hosts = tuple(factories.host(n) for n in range(1536))
    item = slice_(hosts=hosts, hosts_expected=1536)
    held = group(slices=(item.id,), bundles=(Bundle(index=0, chips=4.0),))
    figure = gang_figure(gang_of(Fleet(now=NOW, slices=(item,)), held), width=1080)
    assert figure.layout.width <= 1080
    assert len(figure.layout.yaxis.ticktext) == 1536 // 32 + 1


def _placed(item: Bundle) -> Bundle:
    import msgspec

    return msgspec.structs.replace(item, placed=True)
