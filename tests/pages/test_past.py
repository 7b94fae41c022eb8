"""A bundle's frames and history as time: every page as it was, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from cli.replay import Replay, opener
from collectors.bundle import read_bundle
from diagnosis.snapshot import Snapshot
from diagnosis.thresholds import Thresholds
from history.errors import HistoryError
from pages import _state
from pages._state import Place
from tests import factories
from tests.factories import HOSTILE, NOW
from tests.pages.conftest import texts

Show = Callable[..., AppTest]
LOST = "-/default/v6e-group-0"


@pytest.fixture(scope="module")
def replay(bundles: Path) -> Replay:
    return Replay(read_bundle(bundles / "real_host_lost"), Thresholds(), "real_host_lost")


@pytest.fixture
def at(show: Show, replay: Replay) -> Callable[..., AppTest]:
    """``at("slice", number, …)`` shows a page of the bundle at its n-th frame."""

    def run(page: str, frame: int | None, query: dict[str, str] | None = None) -> AppTest:
        moment = {} if frame is None else {"at": f"{replay.moments(0, 9e9)[frame]:.3f}"}
        return show(
            page, replay.snapshot(), {**(query or {}), **moment}, bundle="real_host_lost",
            past=replay, refresh_seconds=None,
        )  # fmt: skip

    return run


def test_frames_are_judged_in_their_order(replay: Replay) -> None:
    moments = replay.moments(0, 9e9)
    assert len(moments) == replay.frames == 4
    looks = [replay.look_at(moment) for moment in moments]
    assert [look.observation.now for look in looks if look] == moments
    assert looks[0] is not None
    assert "incomplete" not in looks[0].report.statuses.values()
    assert looks[3] is not None
    assert looks[3].report.statuses[LOST] == "incomplete"
    assert replay.look_at(moments[0] - 1) is None
    # Between two frames the earlier one is what was known.
    between = replay.look_at(moments[1] + 0.001)
    assert between is not None
    assert between.observation.now == moments[1]


def test_the_last_frame_is_what_diagnose_says(bundles: Path, replay: Replay) -> None:
    from diagnosis.engine import replay as judged
    from fleet.mapping import build_fleet

    frames = read_bundle(bundles / "real_host_lost")
    expected = judged([build_fleet(frame) for frame in frames])
    last = replay.snapshot()
    assert last is not None
    assert last.report.findings == expected.findings
    assert last.report.statuses == expected.statuses


def test_changes_of_a_bundle(replay: Replay) -> None:
    found = replay.changes(0, 9e9)
    assert [change.at for change in found] == sorted((change.at for change in found), reverse=True)
    assert any(
        (change.kind, change.subject.id, change.after) == ("slice_status", LOST, "incomplete")
        for change in found
    )
    assert replay.changes(0, 9e9, subject=LOST, kinds=["slice_status"])
    spans = replay.statuses(LOST, *(replay.span() or (0, 0)))
    assert spans[-1].status == "incomplete"
    assert any(span.code == "SliceIncomplete" for span in replay.findings(0, 9e9))


@pytest.mark.parametrize(
    "page",
    ["overview", "finding", "slice", "scheduling", "placement", "gang", "sources", "history"],
)
@pytest.mark.parametrize("frame", [0, 3, None])
def test_each_page_at_each_frame(at: Callable[..., AppTest], page: str, frame: int | None) -> None:
    test = at(page, frame)
    assert not test.exception
    assert not test.error
    assert "4 looks · captured 2026-12-01" in texts(test)


def test_the_slice_page_of_the_first_frame_shows_what_was(at: Callable[..., AppTest]) -> None:
    assert "incomplete" not in texts(at("slice", 0, {"id": LOST}))
    assert "v6e-group-0 has been incomplete" in texts(at("slice", None, {"id": LOST}))


def test_the_slider_moves_the_page_and_the_address(at: Callable[..., AppTest]) -> None:
    test = at("slice", 0, {"id": LOST})
    test.button(key="step-Later").click().run()
    test.button(key="step-Later").click().run()
    test.button(key="step-Later").click().run()
    assert "v6e-group-0 has been incomplete" in texts(test)
    assert test.query_params["id"] == LOST
    assert test.button(key="step-Later").disabled


def test_a_click_on_the_navigation_stays_in_the_past(at: Callable[..., AppTest]) -> None:
    test = at("slice", 0, {"id": LOST})
    moment = test.query_params["at"].removesuffix(".000")
    test.switch_page("sources.py").run()
    test.query_params.clear()
    test.run()
    assert test.query_params["at"] == moment


class Kept:
    """A history of two looks, as :class:`history.service.History` answers."""

    def __init__(self, looks: dict[float, Snapshot], fails: str = "") -> None:
        self.looks, self.fails, self.read = looks, fails, 0

    def _ask(self) -> None:
        if self.fails:
            raise HistoryError(self.fails)

    def look_at(self, moment: float) -> Snapshot | None:
        self._ask()
        self.read += 1
        older = [at for at in self.looks if at <= moment]
        return self.looks[max(older)] if older else None

    def span(self) -> tuple[float, float] | None:
        self._ask()
        return (min(self.looks), max(self.looks)) if self.looks else None

    def moments(self, start: float, end: float, limit: int = 50_000) -> list[float]:
        self._ask()
        return sorted(at for at in self.looks if start <= at <= end)

    def changes(self, *_: object, **__: object) -> list:
        from diagnosis.finding import Subject
        from history.change import Change

        self._ask()
        subject = Subject(kind="slice", id=f"ml/train/{HOSTILE}", name=HOSTILE)
        return [
            Change(at=NOW - 60, kind="slice_status", subject=subject, text=HOSTILE, after="broken"),
            Change(at=NOW - 70, kind="group_created", subject=subject, text="x" * 5000),
        ]

    def findings(self, *_: object) -> list:
        self._ask()
        return []

    def statuses(self, *_: object) -> list:
        return []

    def gaps(self, *_: object) -> list:
        return [(NOW - 3000, NOW - 2000)]


def old(look: Snapshot, at: float) -> Snapshot:
    import msgspec

    fleet = msgspec.structs.replace(look.report.fleet, now=at)
    report = msgspec.structs.replace(look.report, fleet=fleet)
    return msgspec.structs.replace(look, report=report, published_at=at, stale_after=1e12)


@pytest.fixture
def kept() -> Kept:
    return Kept(
        {NOW - 3600: old(factories.healthy(), NOW - 3600), NOW: old(factories.broken(), NOW)}
    )


def test_a_page_of_the_past_says_so_and_leads_back(show: Show, kept: Kept) -> None:
    test = show("overview", factories.broken(), {"at": f"{NOW - 3000:.0f}"}, past=kept)
    text = texts(test)
    assert "As of 2026-11-30 11:00:00 UTC, 1 h 00 min ago, not now" in text
    assert "All 2 slices are whole" in text
    assert "SliceIncomplete" not in text
    (back,) = [button for button in test.button if button.label == "Back to now"]
    back.click().run()
    assert "Live · looked 2 s ago" in texts(test)
    assert "SliceIncomplete" in texts(test)
    assert "at" not in test.query_params


def test_one_moment_is_read_once_for_all_readers(show: Show, kept: Kept) -> None:
    test = show("overview", factories.broken(), {"at": f"{NOW - 3000:.0f}"}, past=kept)
    read = kept.read
    for _ in range(3):
        test.run()
    assert kept.read == read == 1


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"at": "1000"}, "No look that old is kept"),
        ({"bundle": "nope"}, "This bundle is no longer open"),
        ({"bundle": "nope", "at": "1000"}, "This bundle is no longer open"),
    ],
)
def test_a_moment_that_is_not_there(show: Show, kept: Kept, query: dict, says: str) -> None:
    test = show("overview", factories.broken(), query, past=kept)
    assert says in test.warning[0].value
    assert test.button


@pytest.mark.parametrize("at", ["nan", "1e999", "-5", "x", "", "99999999999999"])
def test_nonsense_in_the_address_is_now(show: Show, kept: Kept, at: str) -> None:
    assert "Live · looked" in texts(show("overview", factories.broken(), {"at": at}, past=kept))


class TestHistory:
    def test_changes_and_gaps(self, show: Show, kept: Kept) -> None:
        test = show("history", factories.broken(), past=kept)
        assert not test.exception
        assert not test.error
        text = texts(test)
        assert "2 changes in 1 h 00 min." in text
        assert "<script>" in text

    def test_the_slider_goes_to_a_moment(self, show: Show, kept: Kept) -> None:
        test = show("history", factories.broken(), past=kept)
        test.select_slider(key="travel").set_value(NOW - 3600).run()
        assert "As of 2026-11-30 11:00:00 UTC" in texts(test)

    def test_without_any(self, show: Show) -> None:
        assert "No history is kept." in texts(show("history", factories.broken()))

    def test_before_the_first(self, show: Show) -> None:
        text = texts(show("history", factories.broken(), past=Kept({})))
        assert "History has no look yet." in text

    def test_a_broken_disk_breaks_no_page(self, show: Show) -> None:
        broken = Kept({}, fails="the disk is full (/x)")
        test = show("history", factories.broken(), past=broken)
        assert "the disk is full (/x)" in texts(test)
        assert "Live · looked" in texts(test)
        for page in ("overview", "slice", "sources"):
            other = show(page, factories.healthy(), past=broken)
            assert not other.error
            assert not other.exception

    def test_windows_and_kinds_are_in_the_address(self, show: Show, kept: Kept) -> None:
        query = {"window": "1h", "kind": "slices", "subject": "ml/train/v6e-1"}
        test = show("history", factories.broken(), query, past=kept)
        assert "of ml/train/v6e-1 in 1 h 00 min" in texts(test)


class TestOpened:
    def test_an_uploaded_bundle_is_shown_by_all_pages(self, show: Show, replay: Replay) -> None:
        show("overview", factories.healthy())
        token = _state.keep(replay)
        assert _state.snapshot(Place(token)) is replay.snapshot()
        test = AppTest.from_file(Path(__file__).parents[2] / "pages/shell.py", default_timeout=20)
        test.query_params.update({"bundle": token})
        test.run()
        text = texts(test)
        assert "Bundle real\\_host\\_lost, 4 looks" in text
        assert "1 of 3 slices cannot run." in text
        (close,) = [button for button in test.button if button.label == "Close the bundle"]
        close.click().run()
        assert "All 2 slices are whole" in texts(test)

    def test_only_a_few_are_kept(self, show: Show, replay: Replay) -> None:
        show("overview", factories.healthy())
        tokens = [_state.keep(replay) for _ in range(_state.MOST_OPENED + 1)]
        assert _state.opened(tokens[0]) is None
        assert _state.opened(tokens[-1]) is replay

    def test_what_is_no_bundle_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(HistoryError, match=r"^odd name\.zip"):
            opener(Thresholds())("odd name.zip", b"no zip at all")

    def test_the_page_without_an_upload(self, show: Show) -> None:
        text = texts(show("bundle", factories.healthy(), open_bundle=opener(Thresholds())))
        assert "slicewatch capture PATH" in text
