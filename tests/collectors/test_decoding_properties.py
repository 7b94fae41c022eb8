from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.decoding import KUBERNETES_KINDS, RAY_KINDS, decode_kubernetes, decode_ray
from collectors.tpu_metrics import parse_exposition
from fleet.observation import SourceStatus

REASONS = {
    word.strip("`,. \n")
    for word in (SourceStatus.__doc__ or "").split("``")
    if word.strip("`,. \n").isidentifier()
}
BUNDLES = Path(__file__).parent.parent / "bundles"
RELAXED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@cache
def example(name: str) -> Any:
    return json.loads((BUNDLES / name).read_text())


EXAMPLES = {
    "pods": "pod_unschedulable_stockout/kubernetes/pods.json",
    "nodes": "pod_unschedulable_stockout/kubernetes/nodes.json",
    "events": "pod_unschedulable_stockout/kubernetes/events.json",
    "services": "healthy_running/kubernetes/services.json",
    "ray_clusters": "healthy_running/kubernetes/rayclusters.json",
}
RAY_EXAMPLES = {part: f"healthy_running/ray/ml__train/{part}.json" for part in RAY_KINDS}


def check(decoded: Any, kind: type[msgspec.Struct]) -> None:
    """Whatever came in: rows of the right kind, or a reason word and one line."""
    if decoded.rows is None:
        assert decoded.reason in REASONS
        assert decoded.detail
        assert decoded.detail.isprintable()
    else:
        assert all(isinstance(row, kind) for row in decoded.rows)
        str(decoded.rows).encode()  # no half surrogates
        assert bool(decoded.malformed or decoded.truncation) == bool(decoded.reason)


def mutate(data: st.DataObject, value: Any) -> Any:
    """Replace one value somewhere deep by something else."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 5)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: mutate(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.integers(0, 5)):
        index = data.draw(st.integers(0, len(value) - 1))
        return [*value[:index], mutate(data, value[index]), *value[index + 1 :]]
    return data.draw(JSON)


@RELAXED
@given(st.data(), st.sampled_from(sorted(EXAMPLES)))
def test_any_wrong_value_in_kubernetes_answers(data: st.DataObject, part: str) -> None:
    value = mutate(data, example(EXAMPLES[part]))
    check(decode_kubernetes(part, json.dumps(value).encode()), KUBERNETES_KINDS[part])


@RELAXED
@given(st.data(), st.sampled_from(sorted(RAY_EXAMPLES)))
def test_any_wrong_value_in_rays_answers(data: st.DataObject, part: str) -> None:
    value = mutate(data, example(RAY_EXAMPLES[part]))
    check(decode_ray(part, json.dumps(value).encode()), RAY_KINDS[part])


@RELAXED
@given(st.data(), st.sampled_from(sorted(EXAMPLES)))
def test_other_rows_survive_one_bad_one(data: st.DataObject, part: str) -> None:
    rows = example(EXAMPLES[part])["items"]
    index = data.draw(st.integers(0, len(rows) - 1))
    bad = [*rows[:index], mutate(data, rows[index]), *rows[index + 1 :]]
    good = decode_kubernetes(part, json.dumps({"items": rows}).encode())
    decoded = decode_kubernetes(part, json.dumps({"items": bad}).encode())
    assert good.rows is not None
    assert decoded.rows is not None
    others = good.rows[:index] + good.rows[index + 1 :]
    assert all(row in decoded.rows for row in others)


@RELAXED
@given(st.data())
def test_cut_and_flipped_bytes(data: st.DataObject) -> None:
    text = json.dumps(example(RAY_EXAMPLES["nodes"])).encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    noise = data.draw(st.binary(max_size=6))
    check(decode_ray("nodes", text[:start] + noise + text[end:]), RAY_KINDS["nodes"])


@RELAXED
@given(st.binary(max_size=200), st.sampled_from(sorted(KUBERNETES_KINDS)))
def test_any_bytes(data: bytes, part: str) -> None:
    check(decode_kubernetes(part, data), KUBERNETES_KINDS[part])


@RELAXED
@given(st.text(max_size=200))
def test_any_exposition(text: str) -> None:
    parse_exposition(text)
    parse_exposition(f'ray_tpu_duty_cycle{{TpuIndex="{text}"}} 3\n')
