"""Why a job waits, who holds what, what would have to end; gangs; filters; hand-over."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

from diagnosis.snapshot import Snapshot
from fleet.model import ClusterView, Fleet
from tests import factories
from tests.factories import HOSTILE, NOW, gang, group, slice_, source
from tests.pages.conftest import texts

Show = Callable[..., AppTest]


def queue() -> Snapshot:
    """One slice is held and busy, one is free but its head leaked, one lost a host; eval waits."""
    held = group("train-a", created_at=NOW - 8 * 3600, job_id="01000000")
    bundles, workers = gang("v6e-0", held.key)
    bundles = tuple(msgspec.structs.replace(item, placed=True) for item in bundles)
    held = msgspec.structs.replace(
        held, bundles=bundles, workers=workers, slices=("ml/train/v6e-0",)
    )
    leaked = group("old-head", id="c3" * 18, role="head", chips=0.0, slices=("ml/train/v6e-1",))
    waits = group(
        "eval", id="b2" * 18, state="PENDING", role="head", chips=0.0, wanted_pod_type="v6e-16",
        pending_seconds=400.0, created_at=None, job_id="02000000",
    )  # fmt: skip
    lost = factories.host(2, "v6e-2", state="not_ready", problem="NodeGone", gone_since=NOW - 90)
    broken = slice_("v6e-2", hosts=(*(factories.host(n, "v6e-2") for n in (0, 1)), lost))
    sight = frozenset({"nodes", "placement_groups", "actors", "tasks", "jobs"})
    fleet = Fleet(
        now=NOW,
        slices=(
            slice_("v6e-0", held_by=(held.key,), holding="whole", workers=workers),
            slice_("v6e-1", head_held_by=(leaked.key,)),
            broken,
        ),
        placement_groups=(held, leaked, waits),
        clusters=(ClusterView(namespace="ml", cluster="train", source=source(), ray_parts=sight),),
        sources=(source(), source("ray:ml/train")),
        has_kubernetes=True,
    )
    statuses = {"ml/train/v6e-0": "running", "ml/train/v6e-1": "reserved"}
    return factories.snapshot(fleet, statuses={**statuses, "ml/train/v6e-2": "incomplete"})


class TestScheduling:
    def test_the_queue_says_why(self, show: Show) -> None:
        text = texts(show("scheduling", queue()))
        assert "1 TPU group waits, the longest for 6 min." in text
        assert "a v6e-16 slice" in text
        assert "1 head held, 1 held, 1 not whole" in text

    def test_each_slice_of_the_asked_shape_and_why_it_does_not_fit(self, show: Show) -> None:
        test = show("scheduling", queue(), {"id": "eval"})
        frames = [item.value for item in test.dataframe if "fits" in item.value]
        why = dict(zip(frames[0]["slice"], frames[0]["why"], strict=True))
        assert why == {
            "v6e-0": "held by train-a since 04:00",
            "v6e-1": "head held by a leaked reservation (old-head) since 11:00",
            "v6e-2": "2 of 4 hosts: worker 2: its Kubernetes node is gone",
        }

    def test_who_holds_what(self, show: Show) -> None:
        test = show("scheduling", queue())
        frame = next(item.value for item in test.dataframe if "holder" in item.value)
        rows = frame.set_index("holder")
        assert rows.loc["train-a", "does"] == "busy"
        assert rows.loc["train-a", "for"] == "8 h 00 min"
        assert rows.loc["old-head", "does"] == "idle"

    def test_the_planner_answers_and_keeps_the_question_in_the_address(self, show: Show) -> None:
        test = show("scheduling", queue())
        # eval comes first and takes the one with the leaked head; then train-a has to end.
        assert "1 placement group already waiting comes first." in texts(test)
        test.number_input(key="plan-n").set_value(2).run()
        assert test.query_params["n"] == "2"
        assert "num_slices=2" in test.code[-1].value
        again = show("scheduling", queue(), {"n": "2", "shape": "v6e 4x4"})
        assert "num_slices=2" in again.code[-1].value

    @pytest.mark.parametrize("query", [{"n": "-1"}, {"n": "x"}, {"n": "9" * 99}, {"shape": "v9 x"}])
    def test_nonsense_in_the_address(self, show: Show, query: dict[str, str]) -> None:
        test = show("scheduling", queue(), query)
        assert not test.error
        assert "slice_placement_group" in test.code[-1].value

    def test_nothing_waits(self, show: Show) -> None:
        text = texts(show("scheduling", factories.healthy()))
        assert "Nothing waits for TPUs." in text


class TestGang:
    def test_rank_by_rank(self, show: Show) -> None:
        test = show("gang", queue(), {"id": "train-a"})
        text = texts(test)
        assert "train-a: 4 of 4 ranks run." in text
        assert "It lies on one slice, v6e-0." in text
        frame = next(item.value for item in test.dataframe if "rank" in item.value)
        assert list(frame["rank"]) == [0, 1, 2, 3]
        assert list(frame["actor or task"]) == ["rank-0", "rank-1", "rank-2", "rank-3"]

    def test_what_is_missing(self, show: Show) -> None:
        text = texts(show("gang", factories.broken(), {"id": "train-b"}))
        assert "Rank" in text
        assert "lost" in text

    def test_without_an_address_it_asks_which(self, show: Show) -> None:
        assert "Which gang?" in texts(show("gang", queue()))
        assert "No placement group has this id" in texts(show("gang", queue(), {"id": HOSTILE}))


class TestFilters:
    def test_the_address_narrows_everything(self, show: Show) -> None:
        test = show("overview", factories.broken(), {"state": "incomplete"})
        text = texts(test)
        assert "Of what the filter leaves: The only slice cannot run." in text
        assert "PlacementPending" not in text

    def test_a_widget_writes_the_address(self, show: Show) -> None:
        test = show("overview", factories.broken(), {"namespace": "ml"})
        test.multiselect(key="filter-state").set_value(["unknown"]).run()
        assert test.query_params["state"] == "unknown"
        assert "SliceIncomplete" not in texts(test)
        test.text_input(key="filter-q").set_value("v6e-1").run()
        assert test.query_params["q"] == "v6e-1"
        assert "No slice fits the filter." in texts(test)
        test.button(key="filter-clear").click().run()
        assert not test.query_params
        assert "SliceIncomplete" in texts(test)

    def test_a_choice_outlives_the_last_slice_of_it(self, show: Show) -> None:
        test = show("overview", factories.healthy(), {"cluster": "ml/gone", "generation": HOSTILE})
        assert test.multiselect(key="filter-cluster").value == ["ml/gone"]
        assert "No slice fits the filter." in texts(test)

    def test_capacity_is_a_table_too(self, show: Show) -> None:
        test = show("overview", factories.broken())
        fold = next(item for item in test.expander if item.label == "Capacity as a table")
        assert fold is not None


class TestHandOver:
    def test_a_slice_as_text(self, show: Show) -> None:
        test = show("slice", factories.broken(), {"id": "ml/train/v6e-1"})
        text = test.code[0].value
        assert text.startswith("**v6e-1 has been incomplete for 10 min")
        assert "| 2 | its Ray node is dead | v6e-1-2 |" in text

    def test_links_out_come_from_templates(self, show: Show) -> None:
        links = {"Grafana": "https://g.example.com/?s={slice}", "Ray dashboard": None}
        test = show("slice", factories.broken(), {"id": "ml/train/v6e-1"}, links=links)
        urls = [item.proto.url for item in test.get("link_button")]
        assert urls == ["https://g.example.com/?s=v6e-1"]

    def test_hosts_have_restarts_rank_and_actor(self, show: Show) -> None:
        test = show("slice", queue(), {"id": "ml/train/v6e-0"})
        frame = next(item.value for item in test.dataframe if "restarts" in item.value)
        assert list(frame["rank"]) == ["0", "1", "2", "3"]
        assert list(frame["runs"]) == ["rank-0", "rank-1", "rank-2", "rank-3"]

    def test_the_runbook_is_in_the_page(self, show: Show) -> None:
        query = {"code": "SliceIncomplete", "subject": "ml/train/v6e-1"}
        text = texts(show("finding", factories.broken(), query))
        assert "What it means" in text


def test_runbooks_of_all_codes_can_be_read() -> None:
    from diagnosis.catalogue import CODES
    from pages._runbooks import text_of

    assert all("###" in (text_of(code) or "") for code in CODES)
    assert text_of("../../etc/passwd") is None
    assert text_of("Nope") is None
