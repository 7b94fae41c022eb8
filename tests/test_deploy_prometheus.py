"""The alert rules: made from the catalogue, accepted by promtool, firing when they must."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from diagnosis.catalogue import CODES
from exporter.families import FAMILIES, PREFIX

HEALTHY = [
    ('slicewatch_build_info{version="0.1.0"}', "1x60"),
    ("slicewatch_snapshot_age_seconds", "5x60"),
    ('slicewatch_source_up{source="kubernetes"}', "1x60"),
]
SLICE = 'namespace="ml",ray_cluster="train",slice="v6e-group-0"'


@pytest.fixture(scope="module")
def generate(root: Path) -> ModuleType:
    path = root / "deploy" / "prometheus" / "generate.py"
    spec = importlib.util.spec_from_file_location("prometheus_rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def alerts(generate: ModuleType) -> dict[str, dict[str, Any]]:
    groups = generate.rules()["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def promtool(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=60
    )


def test_the_files_are_what_the_catalogue_makes(root: Path, generate: ModuleType) -> None:
    spec = generate.rules()
    assert (root / "deploy/prometheus/rules.yaml").read_text() == generate.dump(spec), "make rules"
    operator = root / "deploy/kubernetes/monitoring/prometheusrule.yaml"
    assert operator.read_text() == generate.dump(generate.prometheus_rule(spec)), "make rules"


def test_every_code_has_one_alert_with_all_that_a_person_needs(
    generate: ModuleType, alerts: dict[str, dict[str, Any]]
) -> None:
    for code in CODES:
        rule = alerts[generate.alert_name(code)]
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url", "dashboard_url"}
        assert "{{" not in notes["summary"], "a summary is a fixed sentence"
        assert "$labels.subject" in notes["description"]
        assert notes["runbook_url"].endswith(f"/{code}.md")


def test_rules_use_only_metrics_that_are_exported(generate: ModuleType) -> None:
    known = {PREFIX + family.name for family in FAMILIES}
    text = yaml.safe_dump(generate.rules())
    import re

    used = set(re.findall(r"(?<![:\w])slicewatch_\w+", text))
    assert used <= known, used - known


@pytest.mark.prometheus
def test_promtool_accepts_the_rules(root: Path) -> None:
    result = promtool("check", "rules", "rules.yaml", cwd=root / "deploy" / "prometheus")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 rules found" not in result.stdout


def finding(code: str, severity: str, kind: str, subject: str, cause: str = "") -> str:
    return (
        f'slicewatch_finding_active{{namespace="ml",ray_cluster="train",code="{code}",'
        f'severity="{severity}",cause="{cause}",subject_kind="{kind}",subject="{subject}"}}'
    )


def case(name: str, series: list[tuple[str, str]], *checks: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "30s",
        "input_series": [{"series": key, "values": values} for key, values in series],
        "alert_rule_test": [item for item in checks if "alertname" in item],
        "promql_expr_test": [item for item in checks if "expr" in item],
    }


def silent(alert: str, at: str = "20m") -> dict[str, Any]:
    return {"eval_time": at, "alertname": alert, "exp_alerts": []}


def firing(alert: str, at: str, labels: dict[str, str], notes: dict[str, str]) -> dict[str, Any]:
    expected = {"exp_labels": labels, "exp_annotations": notes}
    return {"eval_time": at, "alertname": alert, "exp_alerts": [expected]}


def value(expr: str, at: str, labels: str, number: float) -> dict[str, Any]:
    return {"expr": expr, "eval_time": at, "exp_samples": [{"labels": labels, "value": number}]}


def cases(alerts: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    incomplete = alerts["RayTPUSliceIncomplete"]
    absent = alerts["SlicewatchAbsent"]
    page = "https://slicewatch.example.com"
    whole = [
        (f'slicewatch_slice_info{{{SLICE},generation="v6e",topology="4x4",node_pool="a"}}', "1x60"),
        (f"slicewatch_slice_chips{{{SLICE}}}", "16x60"),
    ]
    return [
        case(
            "an incomplete slice alerts with its cause and how many hosts are there",
            [
                *HEALTHY,
                (
                    finding(
                        "SliceIncomplete", "critical", "slice", "ml/train/v6e-group-0", "NodeGone"
                    ),
                    "1x60",
                ),
                (f'slicewatch_slice_hosts{{{SLICE},state="ready"}}', "3x60"),
                (f"slicewatch_slice_hosts_expected{{{SLICE}}}", "4x60"),
            ],
            silent("RayTPUSliceIncomplete", "30s"),
            firing(
                "RayTPUSliceIncomplete",
                "90s",
                {
                    "severity": "critical",
                    "namespace": "ml",
                    "ray_cluster": "train",
                    "code": "SliceIncomplete",
                    "cause": "NodeGone",
                    "subject_kind": "slice",
                    "subject": "ml/train/v6e-group-0",
                },
                {
                    "summary": incomplete["annotations"]["summary"],
                    "description": "Slice ml/train/v6e-group-0, 3 of 4 hosts ready: "
                    f"{CODES['SliceIncomplete'].meaning} Cause: NodeGone.",
                    "runbook_url": f"{page}/runbooks/SliceIncomplete.md",
                    "dashboard_url": f"{page}/finding?code=SliceIncomplete"
                    "&subject=ml%2Ftrain%2Fv6e-group-0",
                },
            ),
            silent("SlicewatchAbsent"),
        ),
        case(
            "a finding that is only worth knowing does not alert",
            [*HEALTHY, (finding("HostMaintenance", "info", "slice", "ml/train/a"), "1x60")],
            silent("RayTPUHostMaintenance"),
        ),
        case(
            "a mended fault resolves",
            [
                *HEALTHY,
                (finding("PlacementSplit", "critical", "placement_group", "train"), "1x10 stale"),
            ],
            silent("RayTPUPlacementSplit", "10m"),
        ),
        case(
            "a healthy Slicewatch is silent about itself",
            HEALTHY,
            silent("SlicewatchAbsent"),
            silent("SlicewatchSnapshotStale"),
            silent("SlicewatchLookMissing"),
        ),
        case(
            "no Slicewatch at all",
            [('up{job="other"}', "1x60")],
            silent("SlicewatchAbsent", "5m"),
            firing("SlicewatchAbsent", "15m", {"severity": "warning"}, absent["annotations"]),
        ),
        case(
            "the recording rules",
            [
                *whole,
                (f'slicewatch_slice_status{{{SLICE},status="running"}}', "1x60"),
                (f'slicewatch_slice_status{{{SLICE},status="idle"}}', "0x60"),
                ('slicewatch_slice_info{namespace="ml",ray_cluster="train",slice="b"}', "1x60"),
                ('slicewatch_slice_chips{namespace="ml",ray_cluster="train",slice="b"}', "48x60"),
                (
                    'slicewatch_slice_status{namespace="ml",ray_cluster="train",slice="b",'
                    'status="incomplete"}',
                    "1x60",
                ),
            ],
            value(
                "namespace_ray_cluster:slicewatch_slices_whole:ratio",
                "5m",
                "namespace_ray_cluster:slicewatch_slices_whole:ratio"
                '{namespace="ml",ray_cluster="train"}',
                0.5,
            ),
            value(
                "namespace_ray_cluster:slicewatch_chips_in_use:ratio",
                "5m",
                "namespace_ray_cluster:slicewatch_chips_in_use:ratio"
                '{namespace="ml",ray_cluster="train"}',
                0.25,
            ),
        ),
        case(
            "nothing in use is a ratio of zero, not a gap",
            [*whole, (f'slicewatch_slice_status{{{SLICE},status="idle"}}', "1x60")],
            value(
                "namespace_ray_cluster:slicewatch_chips_in_use:ratio",
                "5m",
                "namespace_ray_cluster:slicewatch_chips_in_use:ratio"
                '{namespace="ml",ray_cluster="train"}',
                0,
            ),
        ),
    ]


@pytest.mark.prometheus
def test_alerts_fire_when_they_must_and_only_then(
    root: Path, alerts: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    test = {
        "rule_files": [str(root / "deploy" / "prometheus" / "rules.yaml")],
        "evaluation_interval": "30s",
        "tests": cases(alerts),
    }
    (tmp_path / "rules_test.yaml").write_text(yaml.safe_dump(test))
    result = promtool("test", "rules", "rules_test.yaml", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.prometheus
def test_a_finding_about_each_kind_of_subject_reads_well(
    root: Path, generate: ModuleType, tmp_path: Path
) -> None:
    """Every description must come out of Prometheus' own template engine without an error."""
    series = [
        (finding(info.code, "critical", info.subjects[0], "ml/train/thing", "ACause"), "1x40")
        for info in CODES.values()
    ]
    checks = [silent(generate.alert_name(code), "18m") for code in CODES]
    tests = [case("all at once", series, *checks)]
    (tmp_path / "t.yaml").write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(root / "deploy" / "prometheus" / "rules.yaml")],
                "evaluation_interval": "30s",
                "tests": tests,
            }
        )
    )
    output = promtool("test", "rules", "t.yaml", cwd=tmp_path)
    printed = output.stdout + output.stderr
    assert "error expanding template" not in printed.lower(), printed
    for info in CODES.values():
        assert f'alertname="{generate.alert_name(info.code)}"' in printed.replace(
            'alertname: "', 'alertname="'
        ), f"{info.code} did not fire"
