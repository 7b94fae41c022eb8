"""Why a slice fits or does not, who holds what, and what would have to end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.fitting import Fits, asks_for, summary
from fleet.model import Bundle, ClusterView, Fleet, PlacementGroup, Slice
from fleet.planning import answer, call, claims, plan
from fleet.topology import parse_topology
from tests.factories import NOW, cluster, gang, group, host, slice_, source

TOPOLOGY = parse_topology("v6e", "4x4")
SIGHT = frozenset({"nodes", "placement_groups", "actors", "tasks", "jobs"})


def seeing(name: str = "train", parts: frozenset[str] = SIGHT) -> ClusterView:
    return ClusterView(
        namespace="ml", cluster=name, source=source(f"ray:ml/{name}"), ray_parts=parts
    )


def held(name: str, label: str, number: int, *, busy: bool = True, at: float = 3600) -> tuple:
    """A slice and the group that holds it whole."""
    ident = f"{number:02d}" * 18
    holder = group(label, id=ident, created_at=NOW - at)
    bundles, workers = gang(name, holder.key)
    holder = group(
        label, id=ident, created_at=NOW - at, bundles=bundles, job_id=f"{number:02d}000000",
        workers=workers if busy else (), slices=(f"ml/train/{name}",),
    )  # fmt: skip
    item = slice_(name, held_by=(holder.key,), holding="whole", workers=workers if busy else ())
    return item, holder


def fleet_of(*slices: Slice, groups: tuple[PlacementGroup, ...] = (), **more: object) -> Fits:
    statuses = {item.id: status_of(item) for item in slices}
    fields = {"clusters": (seeing(),), **more}
    fleet = Fleet(now=NOW, slices=slices, placement_groups=groups, **fields)
    return Fits(fleet, statuses)  # type: ignore[arg-type]


def status_of(item: Slice) -> str:
    if item.forming:
        return "forming"
    if item.blind:
        return "unknown"
    if not item.whole:
        return "incomplete"
    return "running" if item.held_by else "idle"


HEAD = group(
    "head-x", id="cc" * 18, role="head", chips=0.0, wanted_pod_type="v6e-16",
    slices=("ml/train/v6e-0",), created_at=NOW - 700,
)  # fmt: skip
LOST = host(2, "v6e-0", state="not_ready", problem="RayletDead", gone_since=NOW - 90)
BUSY, HOLDER = held("v6e-0", "train-a", 1)


@pytest.mark.parametrize(
    ("item", "groups", "state", "reason", "since"),
    [
        (slice_(), (), "free", "whole and free", None),
        (BUSY, (HOLDER,), "held", "held by train-a", NOW - 3600),
        (
            slice_(hosts=(host(0), host(1), LOST, host(3))),
            (),
            "not whole",
            "3 of 4 hosts: worker 2: its Ray node is dead",
            NOW - 90,
        ),
        (
            slice_(head_held_by=(HEAD.key,)),
            (HEAD,),
            "head held",
            "head held by a leaked reservation (head-x)",
            NOW - 700,
        ),
        (
            slice_(head_held_by=(HEAD.key,)),
            (HEAD, group("eval", id="dd" * 18, state="PENDING", wanted_slices=("v6e-0",))),
            "head held",
            "head reserved for eval, which waits for the slice",
            NOW - 700,
        ),
        (
            slice_(forming=True, first_seen=NOW - 240, hosts=(host(0),)),
            (),
            "forming",
            "still forming: 1 of 4 hosts, for 4 min",
            NOW - 240,
        ),
        (
            slice_(blind=("placement groups were cut",)),
            (),
            "unknown",
            "cannot be judged: placement groups were cut",
            None,
        ),
        (
            slice_(hosts=tuple(host(n, offers_head=False) for n in range(4))),
            (),
            "no head",
            "free, but no host offers TPU-v6e-16-head",
            None,
        ),
        (slice_(leaving=True), (), "not whole", "its pods are being deleted", None),
        (
            slice_(held_by=("job:01000000",), holding="part"),
            (),
            "held",
            "held in part by job 01000000 (no placement group) (idle)",
            None,
        ),
    ],
)  # fmt: skip
def test_why(item: Slice, groups: tuple, state: str, reason: str, since: float | None) -> None:
    fit = fleet_of(item, groups=groups).fit(item)
    assert (fit.state, fit.reason, fit.since) == (state, reason, since)


def test_a_head_is_not_called_leaked_where_groups_cannot_be_seen() -> None:
    fits = fleet_of(slice_(head_held_by=(HEAD.key,)), groups=(HEAD,), clusters=(cluster(),))
    assert fits.fit(fits.fleet.slices[0]).reason == "head held by head-x"


def test_a_waiting_group_sees_all_slices_of_its_shape_and_no_other() -> None:
    waits = group("eval", id="ee" * 18, state="PENDING", role="head", wanted_pod_type="v6e-16")
    other = slice_("v5p-0", pod_type="v5p-16", generation="v5p")
    elsewhere = slice_("v6e-9", id="ml/other/v6e-9", cluster="other")
    fits = fleet_of(slice_("v6e-1"), BUSY, other, elsewhere, groups=(HOLDER, waits))
    found = fits.for_group(waits)
    assert [(fit.slice.name, fit.state) for fit in found] == [("v6e-1", "free"), ("v6e-0", "held")]
    assert summary(waits, found) == (
        "It asks for a v6e-16 slice. The 2 slices of that kind: 1 free, 1 held."
    )


def test_v5e_and_v5litepod_are_one_shape() -> None:
    waits = group(state="PENDING", wanted_pod_type="v5e-16")
    assert asks_for(waits, slice_(pod_type="v5litepod-16"))


def test_what_a_group_holds_itself_does_not_stand_in_its_way() -> None:
    again = group("train-a", id="01" * 18, state="RESCHEDULING", wanted_slices=("v6e-0",))
    fits = fleet_of(BUSY, groups=(again,))
    assert [fit.reason for fit in fits.for_group(again)] == ["held by this group itself"]


class TestPlan:
    def test_free_now(self) -> None:
        (found,) = plan(fleet_of(slice_("v6e-0"), slice_("v6e-1")), TOPOLOGY, 2)
        assert found.now
        assert answer(found) == "Yes: 2 of 2 are free now."

    def test_the_idle_ends_before_the_busy_and_the_young_before_the_old(self) -> None:
        old, old_group = held("v6e-0", "old", 1, at=90_000)
        young, young_group = held("v6e-1", "young", 2, at=60)
        idle, idle_group = held("v6e-2", "idle", 3, busy=False, at=90_000)
        fits = fleet_of(old, young, idle, groups=(old_group, young_group, idle_group))
        (found,) = plan(fits, TOPOLOGY, 2)
        assert [item.label for item in found.ends] == ["idle", "young"]
        assert answer(found) == "Not now (none free). It would be had if idle, young ended."

    def test_a_leaked_head_goes_first(self) -> None:
        free = slice_("v6e-5", head_held_by=(HEAD.key,))
        fits = fleet_of(BUSY, free, groups=(HOLDER, HEAD))
        (found,) = plan(fits, TOPOLOGY, 1)
        assert [item.label for item in found.ends] == ["head-x"]

    def test_who_waits_comes_first(self) -> None:
        waits = group("eval", id="ee" * 18, state="PENDING", wanted_pod_type="v6e-16", chips=0.0)
        fits = fleet_of(slice_("v6e-5"), BUSY, groups=(HOLDER, waits))
        (found,) = plan(fits, TOPOLOGY, 1)
        assert not found.now
        assert "1 placement group already waiting comes first." in answer(found)
        assert [item.label for item in found.ends] == ["train-a"]

    def test_more_than_there_are(self) -> None:
        broken = slice_("v6e-7", hosts=(host(0), host(1)))
        (found,) = plan(fleet_of(BUSY, broken, groups=(HOLDER,)), TOPOLOGY, 3)
        assert found.lacking == 2
        said = answer(found)
        assert "Even if everything below ended, 2 of 3 slices would still be lacking." in said
        assert "1 more would count once mended." in said

    def test_a_shape_that_is_nowhere(self) -> None:
        assert plan(fleet_of(BUSY, groups=(HOLDER,)), parse_topology("v5p", "4x4x4"), 1) == []

    def test_the_call(self) -> None:
        assert 'slice_placement_group(topology="4x4", accelerator_version="v6e", num_slices=2)' in (
            call(TOPOLOGY, 2)
        )
        compile(call(TOPOLOGY, 1), "call", "exec")

    @given(st.lists(st.sampled_from(["free", "busy", "idle", "broken"]), max_size=8), st.integers())
    def test_it_never_promises_more_than_there_is(self, kinds: list[str], wanted: int) -> None:
        slices, groups = [], []
        for number, kind in enumerate(kinds):
            name = f"v6e-{number}"
            if kind in ("busy", "idle"):
                item, holder = held(name, f"g{number}", number, busy=kind == "busy")
                slices.append(item)
                groups.append(holder)
            else:
                slices.append(
                    slice_(name) if kind == "free" else slice_(name, hosts=(host(0, name),))
                )
        found = plan(fleet_of(*slices, groups=tuple(groups)), TOPOLOGY, wanted)
        if not kinds:
            assert found == []
            return
        (only,) = found
        asked = only.wanted
        assert 1 <= asked <= 64
        had = len(only.free) + len(only.freed)
        assert had + only.lacking >= asked
        assert only.now == (kinds.count("free") >= asked)
        assert (only.lacking > 0) == (kinds.count("broken") + asked > len(kinds))
        assert answer(only)


class TestClaims:
    def test_who_holds_what_and_whether_it_works(self) -> None:
        idle, idle_group = held("v6e-2", "idle", 3, busy=False)
        fits = fleet_of(
            BUSY, idle, groups=(HOLDER, idle_group), job_status={"ml/train/01000000": "RUNNING"}
        )
        found = {claim.label: claim for claim in claims(fits)}
        assert found["train-a"].activity == "busy"
        assert found["train-a"].job_status == "RUNNING"
        assert found["train-a"].since == NOW - 3600
        assert found["idle"].activity == "idle"
        assert [item.name for item in found["idle"].slices] == ["v6e-2"]

    def test_nobody_is_called_idle_where_workers_cannot_be_seen(self) -> None:
        idle, idle_group = held("v6e-2", "idle", 3, busy=False)
        fits = fleet_of(idle, groups=(idle_group,), clusters=(cluster(),))
        assert [claim.activity for claim in claims(fits)] == ["unknown"]

    def test_a_job_without_a_group_is_a_holder_too(self) -> None:
        _, workers = gang("v6e-0", "x")
        loose = tuple(type(worker)(**{**_fields(worker), "group_id": None}) for worker in workers)
        item = slice_(held_by=("job:01000000",), holding="whole", workers=loose)
        (claim,) = claims(fleet_of(item))
        assert (claim.label, claim.chips, claim.activity) == (
            "job 01000000 (no placement group)", 16.0, "busy",
        )  # fmt: skip

    def test_the_head_of_a_gangs_own_slice_is_not_told_twice(self) -> None:
        head = group("head", id="cc" * 18, role="head", slices=("ml/train/v6e-0",), chips=0.0,
                     bundles=(Bundle(index=0, slice_id="ml/train/v6e-0", placed=True),))  # fmt: skip
        assert [claim.label for claim in claims(fleet_of(BUSY, groups=(HOLDER, head)))] == [
            "train-a"
        ]


def _fields(worker: object) -> dict[str, object]:
    return {name: getattr(worker, name) for name in worker.__struct_fields__}  # type: ignore[attr-defined]
