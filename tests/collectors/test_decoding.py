from __future__ import annotations

import json

import pytest

from collectors.decoding import decode_cluster_status, decode_kubernetes, decode_ray, decode_version
from tests.collectors.servers import ray_answer


def pod(name: str = "a", **fields: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ml"}, **fields}


def pods(*rows: object, **fields: object) -> bytes:
    return json.dumps({"kind": "List", "items": list(rows), **fields}).encode()


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"", "not_json", "empty"),
        (b" \n ", "not_json", "empty"),
        (b"<!DOCTYPE html><html>sign in</html>", "not_json", "web page"),
        (b"junk", "not_json", "not JSON"),
        (b"\x00" * 50, "not_json", "not JSON"),
        (b"{}{}", "not_json", "more than one"),
        (b'{"items": [{"metadata": {"name": "a"}}', "truncated", "cut off"),
        (b'{"items": [{"metadata": {"na', "truncated", "cut off"),
        (b'{"items": null}', "malformed", "null"),
        (b'{"items": {"a": 1}}', "malformed", "an object"),
        (b"{}", "malformed", "without items"),
        (b"3", "malformed", "a number"),
        (b"null", "malformed", "null"),
        (b"[" * 200_000, "malformed", "nested too deeply"),
        (b'{"items":[' + b'{"a":' * 200_000, "malformed", "nested too deeply"),
        (b'{"kind": "NodeList", "items": []}', "malformed", "NodeList"),
        (b'{"kind": "Status", "code": 403, "message": "pods is forbidden"}', "forbidden", "pods"),
        (b'{"kind": "Status", "code": 401, "message": "no"}', "unauthorized", "no"),
        (b'{"kind": "Status", "code": "x"}', "server_error", "no message"),
    ],
)
def test_what_is_no_list_of_pods(data: bytes, reason: str, words: str) -> None:
    decoded = decode_kubernetes("pods", data)
    assert decoded.rows is None
    assert decoded.reason == reason
    assert words in decoded.detail
    assert "\n" not in decoded.detail


@pytest.mark.parametrize(
    "data",
    [
        pods(pod()),
        json.dumps([pod()]).encode(),
        json.dumps({"kind": "Pod", **pod()}).encode(),
        b"\xef\xbb\xbf" + pods(pod()),
        pods(pod()).decode().encode("utf-16"),
        pods(pod(unknown={"a": [1, {}]}), kind="PodList"),
    ],
    ids=["list", "bare list", "one object", "byte order mark", "UTF-16", "unknown fields"],
)
def test_shapes_that_are_fine(data: bytes) -> None:
    decoded = decode_kubernetes("pods", data)
    assert decoded.reason is None
    assert [row.metadata.name for row in decoded.rows] == ["a"]


@pytest.mark.parametrize(
    ("row", "place"),
    [
        (None, "row 1"),
        ("text", "row 1"),
        ({"metadata": 7}, "row 1"),
        ({"metadata": {"name": 7}}, "metadata.name"),
        ({}, "has no metadata.name"),
        (pod("b", spec={"containers": [None]}), "(ml/b).spec.containers[0]"),
        (pod("b", spec={"containers": {}}), "spec.containers"),
        (pod("b", metadata={"name": "b", "labels": {"x": 3}}), "labels['x']"),
        (pod("b", status={"containerStatuses": [{"restartCount": "many"}]}), "restartCount"),
        (pod("b", status={"containerStatuses": [{"restartCount": 1.5}]}), "restartCount"),
    ],
)
def test_one_bad_row_costs_only_its_bad_field(row: object, place: str) -> None:
    decoded = decode_kubernetes("pods", pods(pod("a"), row, pod("c")))
    names = [item.metadata.name for item in decoded.rows if item.metadata]
    assert names[0] == "a"
    assert names[-1] == "c"
    assert decoded.reason == "malformed"
    assert all(text.startswith("pods: ") for text in decoded.malformed)
    assert any(place in text for text in decoded.malformed)


def test_what_is_good_of_a_bad_row_is_kept() -> None:
    row = pod("b", spec={"nodeName": "n1", "hostname": 4, "containers": [{"name": "c"}, 5]})
    (kept,) = decode_kubernetes("pods", pods(row)).rows
    assert kept.spec.node_name == "n1"
    assert kept.spec.hostname is None
    assert [container.name for container in kept.spec.containers] == ["c"]


def test_notes_are_bounded_and_hold_no_values() -> None:
    rows = [pod("x" * 500, spec={"hostname": ["s3cret"]}) for _ in range(1000)]
    decoded = decode_kubernetes("pods", pods(*rows))
    assert len(decoded.rows) == 1000
    assert len(decoded.malformed) == 6
    assert decoded.malformed[-1] == "pods: and 995 more"
    assert "s3cret" not in str(decoded.malformed)
    assert max(map(len, decoded.malformed)) < 300


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "1" * 50, "1" * 5000, "-1e999"]
)
def test_absurd_numbers(number: str) -> None:
    text = json.dumps(ray_answer([{"node_id": "a", "start_time_ms": "N"}, {"node_id": "b"}]))
    decoded = decode_ray("nodes", text.replace('"N"', number).encode())
    assert [row.node_id for row in decoded.rows] == ["a", "b"]
    if number != "1" * 50:  # a large integer is JSON, and what reads it can take it
        assert decoded.rows[0].start_time_ms is None
        assert decoded.reason == "malformed"


def test_text_that_is_no_text() -> None:
    data = pods(pod("a"), pod("b")).replace(b'"b"', b'"b\xff\xfe"')
    decoded = decode_kubernetes("pods", data)
    assert decoded.reason == "malformed"
    assert decoded.rows[1].metadata.name == "b\ufffd\ufffd"
    half = decode_kubernetes("pods", pods(pod("a")).replace(b'"a"', b'"\\ud800"'))
    half.rows[0].metadata.name.encode()
    assert half.reason == "malformed"


def test_a_pages_token() -> None:
    decoded = decode_kubernetes("pods", pods(pod(), metadata={"continue": "next"}))
    assert decoded.continue_token == "next"
    assert decode_kubernetes("pods", pods(pod(), metadata={"continue": ""})).continue_token is None


def test_only_environment_values_that_rules_read_are_kept() -> None:
    env = [
        {"name": name, "value": "v"}
        for name in (
            "TPU_WORKER_ID",
            "MEGASCALE_NUM_SLICES",
            "RAY_CLOUD_INSTANCE_ID",
            "RAY_AUTH_TOKEN",
            "RAY_REDIS_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "tpu_password",
        )
    ]
    data = pods(pod(spec={"containers": [{"name": "c", "env": env, "args": ["--password=x"]}]}))
    (row,) = decode_kubernetes("pods", data).rows
    assert [variable.name for variable in row.spec.containers[0].env] == [
        "TPU_WORKER_ID",
        "MEGASCALE_NUM_SLICES",
        "RAY_CLOUD_INSTANCE_ID",
    ]
    template = {"spec": {"containers": [{"env": env}]}}
    cluster = {**pod("c"), "spec": {"workerGroupSpecs": [{"template": template}]}}
    (kept,) = decode_kubernetes("ray_clusters", pods(cluster)).rows
    group = kept.spec.worker_group_specs[0]
    assert len(group.template.spec.containers[0].env) == 3


# --- Ray --------------------------------------------------------------------------------------

ROW = {"node_id": "a"}


@pytest.mark.parametrize(
    ("answer", "total"),
    [
        (ray_answer([ROW], total=121), 121),
        (ray_answer([ROW], num_after_truncation=5), 5),
        (ray_answer([ROW], num_filtered=2), 2),
        (ray_answer([ROW], total=10, num_after_truncation=0, num_filtered=0), 10),
        (ray_answer([], total=10, num_after_truncation=10, num_filtered=10), 10),
        (ray_answer([ROW], partial_failure_warning="2 of 9 nodes did not answer"), -1),
        (ray_answer([], total=0, warnings=["Failed to query GCS"]), -1),
        (ray_answer([ROW] * 100, total=None, num_after_truncation=None, num_filtered=None), -1),
        ([ROW] * 100, -1),
    ],
)
def test_lost_rows(answer: object, total: int) -> None:
    decoded = decode_ray("nodes", json.dumps(answer).encode())
    assert decoded.reason == "truncated"
    assert decoded.truncation.total == total
    assert decoded.truncation.part == "nodes"


@pytest.mark.parametrize("answer", [ray_answer([ROW] * 100), ray_answer([]), [ROW]])
def test_complete_answers(answer: object) -> None:
    decoded = decode_ray("nodes", json.dumps(answer).encode())
    assert decoded.reason is None
    assert decoded.truncation is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"result": False, "msg": "GCS is down", "data": {}}, "server_error"),
        ({"result": False, "msg": None, "data": None}, "server_error"),
        ({"result": True, "msg": "", "data": None}, "malformed"),
        ({"result": True, "data": {"result": []}}, "malformed"),
        (ray_answer([], result=None), "malformed"),
        ({}, "malformed"),
        ("text", "malformed"),
    ],
)
def test_refusals_and_wrong_shapes(answer: object, reason: str) -> None:
    decoded = decode_ray("nodes", json.dumps(answer).encode())
    assert decoded.rows is None
    assert decoded.reason == reason


@pytest.mark.parametrize("total", ["many", -3, 1e30, 0.5j])
def test_counts_that_are_none(total: object) -> None:
    value = str(total) if isinstance(total, complex) else total
    decoded = decode_ray("nodes", json.dumps(ray_answer([ROW], total=value)).encode())
    assert len(decoded.rows) == 1
    assert decoded.reason == "malformed"


def test_a_total_below_the_rows_is_reported() -> None:
    decoded = decode_ray("nodes", json.dumps(ray_answer([ROW, ROW], total=1)).encode())
    assert decoded.reason == "malformed"
    assert "says 1 rows" in decoded.malformed[0]


def test_numbers_that_ray_writes_as_texts() -> None:
    row = {"placement_group_id": "a", "stats": {"scheduling_attempt": "4742"}, "bundles": None}
    decoded = decode_ray("placement_groups", json.dumps(ray_answer([row])).encode())
    assert decoded.reason is None
    assert decoded.rows[0].stats.scheduling_attempt == "4742"


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"[" * 100_000, b'{"data": 3}'])
def test_small_answers_never_raise(data: bytes) -> None:
    assert decode_cluster_status(data) is None
    assert decode_version(data) is None or data == b'{"data": 3}'


def test_a_million_bad_rows_end_soon() -> None:
    rows = b",".join([b'{"metadata":7}'] * 60_000)
    decoded = decode_kubernetes("pods", b'{"items":[' + rows + b"]}")
    assert decoded.reason == "malformed"
    assert len(decoded.rows) < 30_000
