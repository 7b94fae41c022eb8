"""A gang rank by rank."""

from __future__ import annotations

from fleet.gangs import gang_of, gang_words
from fleet.model import Bundle, Fleet, TpuUse, Worker
from tests.factories import NOW, gang, group, slice_


def placed(name: str, key: str) -> tuple[tuple[Bundle, ...], tuple[Worker, ...]]:
    bundles, workers = gang(name, key)
    return tuple(_with(item, placed=True) for item in bundles), workers


def _with(item: object, **changes: object) -> object:
    import msgspec

    return msgspec.structs.replace(item, **changes)  # type: ignore[type-var]


def test_a_whole_gang() -> None:
    bundles, workers = placed("v6e-0", "k")
    held = group(bundles=bundles, workers=workers, slices=("ml/train/v6e-0",))
    use = {f"ml/train/{'02' * 28}": TpuUse(duty_cycle=0.9)}
    found = gang_of(Fleet(now=NOW, slices=(slice_(),), tpu_use=use), held)
    assert [rank.state for rank in found.ranks] == ["running"] * 4
    assert [rank.host.worker_id for rank in found.ranks if rank.host] == [0, 1, 2, 3]
    assert found.ranks[2].use == TpuUse(duty_cycle=0.9)
    assert gang_words(found) == ["4 of 4 ranks run.", "It lies on one slice, v6e-0."]


def test_everything_that_can_be_missing() -> None:
    bundles, workers = placed("v6e-0", "k")
    dead = _with(workers[1], alive=False, dead=True, state="DEAD", ended=NOW - 5)
    gone = _with(bundles[2], placed=False, host_key=None, slice_id=None)
    waits = Bundle(index=4, chips=4.0)
    held = group(
        bundles=(bundles[0], bundles[1], gone, bundles[3], waits),
        workers=(workers[0], dead),
        slices=("ml/train/v6e-0",),
    )
    found = gang_of(Fleet(now=NOW, slices=(slice_(),)), held)
    assert [rank.state for rank in found.ranks] == [
        "running", "died", "host gone", "no worker", "waiting",
    ]  # fmt: skip
    assert found.ranks[1].since == NOW - 5
    assert gang_words(found) == [
        "1 of 5 ranks run.",
        "Rank 1 died.",
        "Rank 2 lost its host.",
        "Rank 4 waits for a host.",
        "Rank 3 has a host and no actor or task.",
        "It lies on one slice, v6e-0.",
        "Not in it: 1 host of its slices (v6e-0 worker 2).",
    ]


def test_a_split_is_told_from_a_multislice_job() -> None:
    one, first = placed("v6e-0", "k")
    two, second = placed("v6e-1", "k")
    both = tuple(_with(item, index=n) for n, item in enumerate((*one, *two)))
    slices = (slice_("v6e-0"), slice_("v6e-1"))
    ids = ("ml/train/v6e-0", "ml/train/v6e-1")
    fleet = Fleet(now=NOW, slices=slices)
    whole = gang_of(fleet, group(bundles=both, slices=ids))
    assert "It spans 2 slices (v6e-0, v6e-1), each filled: a multislice job." in gang_words(whole)
    split = gang_of(fleet, group(bundles=both[2:6], slices=ids, workers=(*first, *second)))
    assert "It spans 2 slices (v6e-0, v6e-1), not each filled: no ICI joins them." in (
        gang_words(split)
    )


def test_a_worker_without_a_bundle_number_belongs_to_the_only_bundle_on_its_host() -> None:
    bundles, workers = placed("v6e-0", "k")
    held = group(
        bundles=bundles,
        workers=(
            _with(workers[3], bundle_index=None),
            _with(workers[0], bundle_index=None, host_key="elsewhere"),
        ),
        slices=("ml/train/v6e-0",),
    )
    found = gang_of(Fleet(now=NOW, slices=(slice_(),)), held)
    assert [rank.state for rank in found.ranks] == ["no worker"] * 3 + ["running"]
    assert len(found.loose) == 1
