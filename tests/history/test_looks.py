"""Looks as bytes: what goes in comes out, small, and damaged bytes never crash."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.bundle import read_bundle
from diagnosis.engine import judge
from diagnosis.snapshot import Snapshot
from fleet.mapping import build_fleet
from fleet.observation import Observation, RayObservation, SourceStatus, TpuSample
from history.looks import Encoded, LookError, decode_look, encode_look
from history.packing import Base, compress, pack, pack_delta, unpack, unpack_delta
from tests import factories
from tests.history.watching import Watch, training

GRACE = 600.0
BUNDLES = Path(__file__).resolve().parent.parent / "bundles"
NAMES = sorted(path.parent.name for path in BUNDLES.glob("*/expect.json"))


def judged(observation: Observation) -> Snapshot:
    report, memory = judge(build_fleet(observation), None)
    return Snapshot(
        observation=observation, report=report, published_at=observation.now, memory=memory
    )


def back(encoded: Encoded) -> Snapshot:
    return decode_look(encoded, startup_grace=GRACE, stale_after=1e9)


def without_gauges(look: Observation) -> Observation:
    rays = tuple(msgspec.structs.replace(ray, tpu_samples=None) for ray in look.ray)
    return msgspec.structs.replace(look, ray=rays)


@pytest.mark.parametrize("name", NAMES)
def test_a_look_comes_back_as_it_was(name: str) -> None:
    for observation in read_bundle(BUNDLES / name):
        snapshot = judged(observation)
        again = back(unpack(pack(encode_look(snapshot))))
        assert without_gauges(again.observation) == without_gauges(observation)
        uses = snapshot.report.fleet.tpu_use
        for key, use in again.report.fleet.tpu_use.items():
            for name in ("duty_cycle", "tensorcore_utilization"):
                assert getattr(use, name) == pytest.approx(getattr(uses[key], name), abs=0.0026)
        fleet = msgspec.structs.replace(again.report.fleet, tpu_use=uses)
        assert msgspec.structs.replace(again.report, fleet=fleet) == snapshot.report
        assert again.published_at == snapshot.published_at


def test_hostile_text_comes_back_as_it_was() -> None:
    snapshot = factories.hostile()
    again = back(encode_look(snapshot))
    assert again.report.findings == snapshot.report.findings
    assert again.stats == snapshot.stats


def test_parts_that_were_not_answered_stay_apart_from_empty_ones() -> None:
    watch = Watch()
    training(watch)
    watch.world.drop = {"ray:actors", "kubernetes:events"}
    watch.world.tasks = []
    observation = back(encode_look(watch.look())).observation
    assert observation.kubernetes is not None
    assert observation.kubernetes.events is None
    assert observation.ray[0].actors is None
    assert observation.ray[0].tasks == ()


def test_gauges_are_kept_as_a_mean_a_host() -> None:
    samples = tuple(
        TpuSample(metric=metric, value=value, chip=str(chip), ray_node_id=f"node-{host}")
        for host in range(2)
        for metric, values in {
            "duty_cycle": (90.0, 92.0, 0.0, 100.0),
            "memory_used": (3 * 2.0**30, 1 * 2.0**30),
            "memory_bandwidth_utilization": (5.0,),
        }.items()
        for chip, value in enumerate(values)
    )
    strange = (
        TpuSample(metric="duty_cycle", value=float("nan"), ray_node_id="node-0"),
        TpuSample(metric="duty_cycle", value=-1e300, pod="p", namespace="n"),
        TpuSample(metric="memory_used", value=1e300, node_ip="10.0.0.1"),
    )
    ray = RayObservation(
        source=SourceStatus(name="ray:-/default", status="ok"),
        namespace="-",
        cluster="default",
        tpu_samples=(*samples, *strange),
    )
    look = judged(Observation(now=1e9, ray=(ray,)))
    found = back(encode_look(look)).observation.ray[0].tpu_samples or ()
    means = {(item.metric, item.ray_node_id): item.value for item in found if item.ray_node_id}
    assert means == {
        ("duty_cycle", "node-0"): 70.5,
        ("duty_cycle", "node-1"): 70.5,
        ("memory_used", "node-0"): 2 * 2.0**30,
        ("memory_used", "node-1"): 2 * 2.0**30,
    }
    assert len(found) == 6


def test_what_did_not_change_costs_next_to_nothing() -> None:
    watch = Watch()
    for _ in range(20):
        watch.world.add()
    key = encode_look(watch.look())
    base = Base(key)
    size = len(pack(key))
    same = encode_look(watch.look())
    assert unpack_delta(pack_delta(same, base), key) == same
    assert len(pack_delta(same, base)) < 700
    watch.world.lose_host("v6e-16-group-3", 1, ago=3)
    watch.world.not_ready("v6e-16-group-4-pod-0")
    lost = encode_look(watch.look())
    assert unpack_delta(pack_delta(lost, base), key) == lost
    assert len(pack_delta(lost, base)) < min(2500, size / 3)


ROWS = st.lists(st.binary(max_size=40), max_size=30)


@settings(deadline=None, max_examples=150)
@given(ROWS, ROWS, st.data())
def test_any_look_comes_back_from_its_delta(
    old: list[bytes], new: list[bytes], data: st.DataObject
) -> None:
    mixed = data.draw(st.permutations([*old, *new]))[: len(old) + 3] if old else new
    base = Encoded(b"frame one", tuple(old))
    look = Encoded(b"frame two", tuple(mixed))
    assert unpack_delta(pack_delta(look, Base(base)), base) == look
    assert unpack(pack(look)) == look


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_look_are_refused(data: bytes) -> None:
    for call in (
        lambda: unpack(data),
        lambda: unpack(compress(data)),
        lambda: unpack_delta(data, Encoded(b"", ())),
        lambda: back(Encoded(data, (data,))),
    ):
        with pytest.raises(LookError) as error:
            call()
        assert "\n" not in str(error.value)


def test_every_cut_and_every_wrong_byte_is_noticed() -> None:
    watch = Watch()
    training(watch)
    packed = pack(encode_look(watch.look()))
    for at in range(0, len(packed), max(1, len(packed) // 60)):
        wrong = bytearray(packed)
        wrong[at] ^= 0x55
        for data in (packed[:at], bytes(wrong)):
            try:
                found = unpack(data)
            except LookError:
                continue
            assert found == unpack(packed)  # a byte of the header that nobody reads


def test_a_delta_against_another_look_is_refused() -> None:
    watch = Watch()
    training(watch)
    key = encode_look(watch.look())
    watch.world.lose_host("v6e-16-group-0", 1, ago=3)
    delta = pack_delta(encode_look(watch.look()), Base(key))
    with pytest.raises(LookError):
        unpack_delta(delta, Encoded(key.frame, key.rows[:3]))


def test_a_look_of_a_later_format_says_so() -> None:
    frame = msgspec.msgpack.encode({"format": 2, "what": "is new"})
    with pytest.raises(LookError, match="format 2"):
        back(Encoded(frame, ()))


def test_fields_of_a_later_version_are_ignored() -> None:
    encoded = encode_look(factories.healthy())
    frame = msgspec.msgpack.decode(encoded.frame)
    frame["novelty"] = 1
    frame["observation"]["novelty"] = [1]
    again = back(Encoded(msgspec.msgpack.encode(frame), encoded.rows))
    assert again.published_at == factories.healthy().published_at
