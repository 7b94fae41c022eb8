from __future__ import annotations

import msgspec
import pytest

from exporter.report_json import report_to_json
from tests import factories

FIELDS = {
    "": {"schema", "captured_at", "sources", "slices", "placement_groups", "findings"},
    "sources": {"name", "status", "detail", "fetched_at", "complete"},
    "slices": {
        *("id", "namespace", "cluster", "name", "generation", "topology", "hosts_expected"),
        *("hosts_alive", "chips_expected", "status", "node_pools", "placement_groups", "hosts"),
    },
    "hosts": {"worker_id", "pod", "node", "ray_node_id", "state", "coordinates", "layout"},
    "placement_groups": {
        *("id", "name", "namespace", "cluster", "state", "role", "slices", "pending_seconds"),
    },
    "findings": {
        *("code", "severity", "cause", "subject", "summary", "evidence", "actions", "since"),
        "runbook",
    },
    "evidence": {"source", "object", "field", "value"},
    "actions": {"text", "command"},
}


def test_shape_is_the_contract() -> None:
    report = report_to_json(factories.broken().report)
    assert set(report) == FIELDS[""]
    for part in ("sources", "slices", "placement_groups", "findings"):
        for row in report[part]:
            assert set(row) == FIELDS[part]
            for inner in ("hosts", "evidence", "actions"):
                for item in row.get(inner, ()):
                    assert set(item) == FIELDS[inner]
    assert {tuple(row["subject"]) for row in report["findings"]} == {("kind", "id", "name")}


def test_values() -> None:
    report = report_to_json(factories.broken().report)
    assert report["schema"] == "slicewatch/v1"
    assert report["captured_at"] == "2026-11-30T12:00:00Z"
    lost = report["slices"][1]
    assert (lost["status"], lost["hosts_alive"], lost["hosts_expected"]) == ("incomplete", 3, 4)
    assert lost["placement_groups"] == [report["placement_groups"][0]["id"]]
    assert lost["placement_groups"] == ["ml/train/" + "a1" * 18]
    assert report["placement_groups"][1]["id"] == report["findings"][1]["subject"]["id"]
    assert lost["hosts"][2] == {
        "worker_id": 2,
        "pod": "v6e-1-2",
        "node": "gke-v6e-1-n2",
        "ray_node_id": "02" * 28,
        "state": "not_ready",
        "coordinates": [0, 1, 0],
        "layout": "assumed",
    }
    assert report["placement_groups"][1]["pending_seconds"] == 400.5
    assert report["findings"][0]["since"] == "2026-11-30T11:58:30Z"
    assert report["findings"][2]["since"] is None
    assert report["sources"][3]["fetched_at"] is None


def test_a_slice_that_nobody_judged_is_unknown() -> None:
    report = factories.snapshot(factories.healthy().report.fleet).report
    assert {row["status"] for row in report_to_json(report)["slices"]} == {"unknown"}


@pytest.mark.parametrize("name", ["healthy", "broken", "hostile", "empty"])
def test_it_survives_the_way_through_json(name: str) -> None:
    report = report_to_json(getattr(factories, name)().report)
    assert msgspec.json.decode(msgspec.json.encode(report)) == report
