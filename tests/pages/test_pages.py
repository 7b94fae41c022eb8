"""Each page in each state: healthy, broken, no data yet, empty, hostile names, stale, a bundle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from tests import factories
from tests.factories import HOSTILE, NOW
from tests.pages.conftest import texts

Show = Callable[..., AppTest]
PAGES = [
    "overview", "finding", "slice", "scheduling", "placement", "gang", "history", "bundle",
    "sources", "topologies",
]  # fmt: skip
STATES = {
    "none": None,
    "empty": factories.empty(),
    "healthy": factories.healthy(),
    "broken": factories.broken(),
    "hostile": factories.hostile(),
}
LIVE = [page for page in PAGES if page not in ("topologies", "bundle")]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("page", PAGES)
def test_no_page_raises_in_any_state(show: Show, page: str, state: str) -> None:
    test = show(page, STATES[state])
    assert not test.exception
    assert not test.error
    assert texts(test)


@pytest.mark.parametrize("page", LIVE)
def test_before_the_first_look_a_page_says_what_to_do(show: Show, page: str) -> None:
    text = texts(show(page, None))
    assert "No look has been taken yet" in text
    assert "slicewatch diagnose" in text
    assert "whole" not in text


@pytest.mark.parametrize("page", LIVE)
def test_each_page_says_how_old_and_how_complete_it_is(show: Show, page: str) -> None:
    assert "Live · looked 2 s ago · all 2 sources complete" in texts(show(page, STATES["healthy"]))
    broken = texts(show(page, STATES["broken"]))
    assert ":orange-badge[incomplete]" in broken
    assert "1 of 3 sources down, 1 of 3 sources incomplete" in broken


@pytest.mark.parametrize("page", LIVE)
def test_old_data_are_called_old(show: Show, page: str) -> None:
    test = show(page, STATES["healthy"], now=NOW + 300)
    assert "These data are old" in test.warning[0].value


def test_a_bundle_says_when_it_was_captured_and_never_grows_old(show: Show) -> None:
    test = show(
        "overview",
        STATES["healthy"],
        now=NOW + 1e6,
        bundle="incident.tar.gz",
        refresh_seconds=None,
    )
    text = texts(test)
    assert "Bundle incident\\.tar\\.gz · captured 2026-11-30 12:00:00 UTC" in text
    assert not test.warning


class TestOverview:
    def test_a_healthy_fleet_is_one_line(self, show: Show) -> None:
        text = texts(show("overview", STATES["healthy"]))
        assert "All 2 slices are whole: 1 idle, 1 running. Nothing is wrong." in text

    def test_what_is_wrong_comes_first_and_worst_first(self, show: Show) -> None:
        text = texts(show("overview", STATES["broken"]))
        order = [
            "1 of 2 slices cannot run. 1 slice cannot be seen well enough to say.",
            "SliceIncomplete",
            "Slice v6e-1 has 3 of 4 hosts",
            "placement group train-b waits for worker 2",
            "kubectl -n ml logs v6e-1-2 --tail 50",
            "PlacementPending",
            "All slices as a table",
        ]
        places = [text.index(part) for part in order]
        assert places == sorted(places)
        assert "Nothing is wrong" not in text

    def test_an_empty_fleet_says_what_makes_a_slice_appear(self, show: Show) -> None:
        text = texts(show("overview", STATES["empty"]))
        assert "No TPU slice was found" in text
        assert "google.com/tpu" in text

    def test_many_findings_become_a_table(self, show: Show) -> None:
        many = tuple(
            factories.finding(summary=f"summary {number}", since=NOW - number)
            for number in range(40)
        )
        fleet = factories.broken().report.fleet
        test = show("overview", factories.snapshot(fleet, findings=many))
        labels = [item.label for item in test.expander]
        # The worst is open, three more are folded, the rest is a table.
        assert labels.count("Whom it affects, and the first step") == 3
        assert "36 more findings" in labels


class TestSlice:
    def test_it_says_what_it_is_up_to(self, show: Show) -> None:
        text = texts(show("slice", STATES["broken"], {"id": "ml/train/v6e-1"}))
        assert "v6e-1 has been incomplete for 10 min: 3 of 4 hosts." in text
        assert "worker 2: its Ray node is dead" in text
        assert "SliceIncomplete" in text
        assert "raylet exited" in text
        assert "Back-off restarting failed container" in text
        assert "train-b" in text

    def test_a_healthy_one_has_no_finding(self, show: Show) -> None:
        text = texts(show("slice", STATES["healthy"], {"id": "ml/train/v6e-1"}))
        assert "v6e-1 has been running for 10 min: 4 of 4 hosts, held by train-a." in text
        assert "No finding about it." in text

    def test_one_that_cannot_be_seen_says_why(self, show: Show) -> None:
        text = texts(show("slice", STATES["broken"], {"id": "ml/train/v6e-0"}))
        assert "cannot be judged: placement groups were cut" in text

    def test_an_unknown_id_is_shown_as_text_with_a_way_out(self, show: Show) -> None:
        wanted = "ml/train/gone <b>x</b>"
        test = show("slice", STATES["healthy"], {"id": wanted})
        assert "No slice has this id in the last look." in texts(test)
        assert wanted in [item.value for item in test.text]
        assert "v6e-1" in texts(test)

    def test_a_hostile_slice_is_shown(self, show: Show) -> None:
        test = show("slice", STATES["hostile"], {"id": f"ml/train/{HOSTILE}"})
        assert not test.exception
        assert "<script>" in texts(test)


class TestPlacement:
    @pytest.mark.parametrize("wanted", ["ml/train/" + "b2" * 18, "b2" * 18, "eval"])
    def test_a_group_is_found_by_key_id_and_name(self, show: Show, wanted: str) -> None:
        text = texts(show("placement", STATES["broken"], {"id": wanted}))
        assert "eval waits for 6 min after 12 attempts" in text
        assert "AllSlicesBusy" in text

    def test_bundles_say_where_they_are(self, show: Show) -> None:
        text = texts(show("placement", STATES["broken"], {"id": "a1" * 18}))
        assert "its host is gone" in text
        assert "v6e-1-3" in text
        assert "rank-3" in text

    def test_the_list_puts_waiting_ones_first(self, show: Show) -> None:
        text = texts(show("placement", STATES["broken"]))
        assert "2 placement groups, 2 waiting. Those of ml/train cannot all be seen." in text
        assert text.index("Waiting") < text.index("eval") < text.index("Placed")

    def test_an_unknown_id(self, show: Show) -> None:
        text = texts(show("placement", STATES["healthy"], {"id": "nope"}))
        assert "No placement group has this id" in text


class TestFinding:
    def test_it_holds_evidence_and_all_steps(self, show: Show) -> None:
        query = {"code": "SliceIncomplete", "subject": "ml/train/v6e-1"}
        test = show("finding", STATES["broken"], query)
        text = texts(test)
        assert "DEAD" in text
        assert "docs/runbooks/SliceIncomplete.md" in text
        assert [item.value for item in test.code][:2] == [
            "kubectl -n ml logs v6e-1-2 --tail 50",
            "kubectl -n ml delete pod v6e-1-2",
        ]
        assert "This changes something." in text

    def test_the_address_of_a_metric_finds_it_too(self, show: Show) -> None:
        query = {"code": "PlacementPending", "subject": "eval"}
        assert "all are busy" in texts(show("finding", STATES["broken"], query))

    def test_one_that_is_gone_says_so(self, show: Show) -> None:
        query = {"code": "SliceIncomplete", "subject": "ml/train/v6e-1"}
        text = texts(show("finding", STATES["healthy"], query))
        assert "This finding is not open in the last look." in text
        assert "It was mended" in text

    def test_one_that_could_not_be_judged_is_not_called_mended(self, show: Show) -> None:
        query = {"code": "ReservationIdle", "subject": "ml/train/x"}
        test = show("finding", STATES["broken"], query)
        assert "does not mean that it is mended" in test.warning[0].value
        assert "tasks were not answered" in texts(test)

    def test_without_an_address_it_lists_all(self, show: Show) -> None:
        assert "3 findings, worst first." in texts(show("finding", STATES["broken"]))
        assert "Nothing is wrong." in texts(show("finding", STATES["healthy"]))


class TestSources:
    def test_it_names_what_is_missing_and_what_that_leaves_undone(self, show: Show) -> None:
        text = texts(show("sources", STATES["broken"]))
        assert "100 of 302 placement groups arrived" in text
        assert "placement_groups 100/302" in text
        assert "refused 7, timed_out 1" in text
        assert "HeadReservationLeaked" in text
        assert "suspended" in text

    def test_a_complete_look_says_so(self, show: Show) -> None:
        text = texts(show("sources", STATES["healthy"]))
        assert "All 2 sources complete." in text
        assert "None: every rule had the data that it needs." in text


def test_a_page_that_fails_says_so_in_a_sentence(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("boom")

    monkeypatch.setattr("pages._cards.finding_card", fail)
    test = show("overview", STATES["broken"])
    assert not test.exception
    assert "fault of Slicewatch" in test.error[0].value
    assert "boom" not in texts(test)


def test_the_demo_page_is_there_in_the_demo_only(show: Show) -> None:
    class Fault:
        key, label, text, active, busy = "host", "Stop a host", "Kills a raylet.", False, False

    class Demo:
        done: list[str] = []

        def faults(self) -> list[Fault]:
            return [Fault()]

        def inject(self, key: str) -> None:
            self.done.append(key)

        def mend(self, key: str) -> None:
            self.done.append(f"-{key}")

    test = show("break_something", STATES["broken"], demo=Demo())
    test.button[0].click().run()
    assert Demo.done == ["host"]
    assert "SliceIncomplete" in texts(test)
    with pytest.raises(ValueError, match="break_something"):
        show("break_something", STATES["broken"])
