from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from diagnosis.snapshot import Snapshot
from exporter.families import FAMILIES, PREFIX
from exporter.metrics import MAX_LABEL, render
from tests import factories
from tests.factories import NOW

GOLDEN = Path(__file__).parent / "golden"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
STATES = {
    "none": None,
    "empty": factories.empty(),
    "healthy": factories.healthy(),
    "broken": factories.broken(),
}


def text(snapshot: Snapshot | None) -> str:
    return render(snapshot, NOW, version="0.1.0")[0].decode()


@pytest.mark.parametrize("name", STATES)
def test_exposition_is_golden(name: str) -> None:
    # To write them anew: python -m tests.exporter.write_golden
    assert text(STATES[name]) == (GOLDEN / f"{name}.prom").read_text()


def test_openmetrics_is_negotiated_and_parses() -> None:
    body, content_type = render(factories.broken(), NOW, accept=OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    families = {family.name for family in parse_openmetrics(body.decode())}
    assert "slicewatch_source_errors" in families
    assert body.endswith(b"# EOF\n")


def test_text_is_the_default() -> None:
    _, content_type = render(factories.healthy(), NOW, accept="text/html")
    assert content_type.startswith("text/plain; version=0.0.4")


def test_what_is_gone_leaves_no_series() -> None:
    assert "v6e-1" in text(factories.healthy())
    assert "v6e-1" not in text(factories.empty())


def test_a_group_carries_its_id_only_while_it_waits() -> None:
    body = text(factories.healthy())
    assert "a1" * 18 not in body
    assert 'placement_group="' + "b2" * 18 in text(factories.broken())


def test_exactly_one_status_is_set() -> None:
    for family in parse_text(text(factories.broken())):
        if family.name == "slicewatch_slice_status":
            by_slice: dict[str, float] = {}
            for sample in family.samples:
                name = sample.labels["slice"]
                by_slice[name] = by_slice.get(name, 0) + sample.value
            assert by_slice == {"v6e-0": 1.0, "v6e-1": 1.0}
            return
    pytest.fail("no slice_status")


def test_a_suspended_source_is_neither_up_nor_down() -> None:
    body = text(factories.broken())
    assert 'source_up{source="ray:ml/old"} 0.0' in body
    assert "ray:ml/night" not in body


def test_an_age_is_never_negative() -> None:
    body = render(factories.snapshot(published_at=NOW + 5), NOW)[0].decode()
    assert "slicewatch_snapshot_age_seconds 0.0" in body


def test_hostile_names_parse_and_never_repeat() -> None:
    for accept, parse in (("", parse_text), (OPENMETRICS, parse_openmetrics)):
        body = render(factories.hostile(), NOW, accept=accept)[0].decode()
        seen = set()
        for family in parse(body):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in seen
                seen.add(key)
                assert all(len(value) <= MAX_LABEL for value in sample.labels.values())
        assert seen


def test_every_family_has_the_labels_of_the_table() -> None:
    labels = {PREFIX + info.name: set(info.labels) for info in FAMILIES}
    seen = set()
    for family in parse_text(text(factories.broken())):
        for sample in family.samples:
            name = sample.name
            if name.startswith("slicewatch_source_poll_duration_seconds"):
                name = "slicewatch_source_poll_duration_seconds"
            assert set(sample.labels) - {"le"} == labels[name], name
            seen.add(name)
    assert seen == set(labels)


def test_process_families_are_added_on_demand() -> None:
    assert "process_resident_memory_bytes" in render(None, NOW, process=True)[0].decode()
    assert "process_" not in text(None)


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ["healthy", "broken", "hostile"])
def test_promtool_accepts(name: str) -> None:
    body = render(getattr(factories, name)(), NOW, version="0.1.0")[0]
    result = subprocess.run(
        ["promtool", "check", "metrics"], input=body, capture_output=True, timeout=30, check=False
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_docs_name_every_metric(root: Path) -> None:
    rows = {
        cells[1].strip().strip("`"): [cell.strip() for cell in cells[2:-1]]
        for line in (root / "docs" / "metrics.md").read_text().splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) == 6
    }
    assert list(rows) == [PREFIX + info.name for info in FAMILIES]
    for info in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in info.labels) or "–"
        assert rows[PREFIX + info.name] == [info.type, labels, info.help]
