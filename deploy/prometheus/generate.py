"""Writes ``rules.yaml`` and ``prometheusrule.yaml`` from the catalogue of finding codes.

One alert a code, by the conventions of kubernetes-mixin: a noun first, a fixed summary, a
templated description that names what and why, a runbook and a page to open. Slicewatch has already
waited for a second look, so the alerts need little ``for`` of their own.

    python deploy/prometheus/generate.py --dashboard-url https://… --runbook-url https://…
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from diagnosis.catalogue import CODES, CodeInfo  # noqa: E402  # needs the path above

EXAMPLE = "https://slicewatch.example.com"

HEADER = """\
# Made by deploy/prometheus/generate.py from the finding codes; do not edit by hand.
# `make rules DASHBOARD_URL=https://… RUNBOOK_URL=https://…` puts your own addresses in.
"""

FOR = "1m"
"""One missed scrape must not reset it, one odd scrape must not page: two scrapes at 30 s."""

FOR_BY_CODE = {
    # Whoever is on call cannot act on these at night, and they often end by themselves.
    "ReplicaDrift": "15m",
    "ReservationIdle": "15m",
    "SourceStale": "5m",
    "SourceTruncated": "15m",
}

_SLICE = '{{ $slice := reReplaceAll "^[^/]*/[^/]*/" "" $labels.subject -}}'
_COUNT = (
    '{{ with printf "%s{namespace=%q,ray_cluster=%q,slice=%q%s}"'
    ' "slicewatch_NAME" $labels.namespace $labels.ray_cluster $slice "MORE" | query -}}'
    "{{ . | first | value }}{{ else }}?{{ end }}"
)


def _count(name: str, more: str = "") -> str:
    return _COUNT.replace("NAME", name).replace("MORE", more.replace('"', '\\"'))


def alert_name(code: str) -> str:
    """``RayTPUSliceIncomplete``; findings about a source are Slicewatch's own."""
    return ("Slicewatch" if code.startswith("Source") else "RayTPU") + code


def description(info: CodeInfo) -> str:
    """What fires, where and why; hosts are counted where the subject is a slice."""
    cause = "{{ with $labels.cause }} Cause: {{ . }}.{{ end }}"
    if tuple(info.subjects) == ("slice",):
        ready = _count("slice_hosts", ',state="ready"')
        expected = _count("slice_hosts_expected")
        return (
            f"{_SLICE}Slice {{{{ $labels.subject }}}}, {ready} of {expected} hosts ready: "
            f"{info.meaning}{cause}"
        )
    if tuple(info.subjects) == ("source",):
        return f"Source {{{{ $labels.subject }}}}: {info.meaning}{cause}"
    return (
        '{{ $labels.subject_kind | reReplaceAll "_" " " | title }} {{ $labels.subject }} of Ray '
        f"cluster {{{{ $labels.namespace }}}}/{{{{ $labels.ray_cluster }}}}: {info.meaning}{cause}"
    )


def finding_alert(info: CodeInfo, dashboard: str, runbooks: str) -> dict[str, Any]:
    """The alert of one code; the series' own ``severity`` label becomes the alert's."""
    page = f"{dashboard}/finding?code={info.code}&subject={{{{ $labels.subject | urlquery }}}}"
    return {
        "alert": alert_name(info.code),
        "expr": f'slicewatch_finding_active{{code="{info.code}",severity!="info"}} == 1',
        "for": FOR_BY_CODE.get(info.code, FOR),
        "annotations": {
            "summary": f"{info.title.rstrip('.')}.",
            "description": description(info),
            "runbook_url": f"{runbooks}/{info.code}.md",
            "dashboard_url": page,
        },
    }


def own_alerts(dashboard: str, runbooks: str) -> list[dict[str, Any]]:
    """Alerts on Slicewatch itself: a monitor that is gone or blind must not look like health."""
    return [
        {
            "alert": "SlicewatchAbsent",
            "expr": "absent(slicewatch_build_info)",
            "for": "10m",
            "labels": {"severity": "warning"},
            "annotations": {
                "summary": "Slicewatch is not scraped.",
                "description": "No Slicewatch has been scraped for ten minutes: nobody watches "
                "the TPU slices.",
                "runbook_url": f"{runbooks}/Slicewatch.md",
                "dashboard_url": dashboard,
            },
        },
        {
            "alert": "SlicewatchSnapshotStale",
            "expr": "slicewatch_snapshot_age_seconds > 120",
            "for": "2m",
            "labels": {"severity": "warning"},
            "annotations": {
                "summary": "Slicewatch takes no new looks.",
                "description": "Slicewatch at {{ $labels.instance }} last looked at the clusters "
                "{{ $value | humanizeDuration }} ago. What it exports is old.",
                "runbook_url": f"{runbooks}/Slicewatch.md",
                "dashboard_url": f"{dashboard}/sources",
            },
        },
        {
            "alert": "SlicewatchLookMissing",
            "expr": "slicewatch_build_info unless on (instance, job) "
            "slicewatch_snapshot_age_seconds",
            "for": "10m",
            "labels": {"severity": "warning"},
            "annotations": {
                "summary": "Slicewatch has never had an answer.",
                "description": "Slicewatch at {{ $labels.instance }} runs, and no source has "
                "answered it since it started.",
                "runbook_url": f"{runbooks}/Slicewatch.md",
                "dashboard_url": f"{dashboard}/sources",
            },
        },
    ]


RECORDS = [
    {
        "record": "namespace_ray_cluster:slicewatch_slices_whole:ratio",
        "expr": "sum by (namespace, ray_cluster) "
        '(slicewatch_slice_status{status=~"idle|reserved|running|shared"})\n/\n'
        "count by (namespace, ray_cluster) (slicewatch_slice_info)\n",
    },
    {
        "record": "namespace_ray_cluster:slicewatch_chips_in_use:ratio",
        "expr": "(\n  sum by (namespace, ray_cluster) (\n    slicewatch_slice_chips\n"
        "    and on (namespace, ray_cluster, slice)\n"
        '    (slicewatch_slice_status{status=~"reserved|running|shared"} == 1)\n  )\n'
        "  or\n  0 * sum by (namespace, ray_cluster) (slicewatch_slice_chips)\n)\n/\n"
        "sum by (namespace, ray_cluster) (slicewatch_slice_chips)\n",
    },
    {
        "record": "namespace_ray_cluster:slicewatch_placement_group_pending_seconds:max",
        "expr": "max by (namespace, ray_cluster) (slicewatch_placement_group_pending_seconds)",
    },
    {
        "record": "namespace_ray_cluster_severity:slicewatch_finding_active:sum",
        "expr": "sum by (namespace, ray_cluster, severity) (slicewatch_finding_active)",
    },
]


def rules(dashboard: str = EXAMPLE, runbooks: str = f"{EXAMPLE}/runbooks") -> dict[str, Any]:
    """The whole rule file as Prometheus reads it."""
    dashboard, runbooks = dashboard.rstrip("/"), runbooks.rstrip("/")
    findings = [finding_alert(info, dashboard, runbooks) for info in CODES.values()]
    return {
        "groups": [
            {"name": "slicewatch.rules", "rules": RECORDS},
            {"name": "slicewatch-findings", "rules": findings},
            {"name": "slicewatch-itself", "rules": own_alerts(dashboard, runbooks)},
        ]
    }


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines stay readable; equal objects are written out, not aliased."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: dict[str, Any]) -> str:
    """YAML under the header that says where it comes from."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=4096, allow_unicode=True)
    return HEADER + text


def prometheus_rule(spec: dict[str, Any]) -> dict[str, Any]:
    """The same rules for the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "slicewatch",
            "namespace": "slicewatch",
            "labels": {"app.kubernetes.io/name": "slicewatch"},
        },
        "spec": spec,
    }


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Write the alert rules with your own addresses.")
    parser.add_argument("--dashboard-url", default=EXAMPLE)
    parser.add_argument("--runbook-url", default=f"{EXAMPLE}/runbooks")
    given = parser.parse_args()
    spec = rules(given.dashboard_url, given.runbook_url)
    (ROOT / "deploy/prometheus/rules.yaml").write_text(dump(spec), encoding="utf-8")
    monitoring = ROOT / "deploy/kubernetes/monitoring/prometheusrule.yaml"
    monitoring.write_text(dump(prometheus_rule(spec)), encoding="utf-8")


if __name__ == "__main__":
    main()
