"""The report as JSON: the shape that ``diagnose --format json`` and ``GET /api/v1/report`` share.

Names and shapes are a contract with other people's scripts (schema ``slicewatch/v1``): fields are
never renamed or removed. Times are RFC 3339 in UTC, durations seconds, ``null`` means "not known".
"""

from __future__ import annotations

from typing import Any

from diagnosis.finding import Finding, Report
from fleet.model import Host, PlacementGroup, Slice
from fleet.observation import SourceStatus
from fleet.times import format_time

SCHEMA = "slicewatch/v1"


def report_to_json(report: Report) -> dict[str, Any]:
    """``report`` as plain dicts and lists, ready for any JSON encoder; never raises on odd text."""
    fleet = report.fleet
    groups = {group.key for group in fleet.placement_groups}
    return {
        "schema": SCHEMA,
        "captured_at": format_time(fleet.now),
        "sources": [_source(source) for source in fleet.sources],
        "slices": [_slice(item, report, groups) for item in fleet.slices],
        "placement_groups": [_group(group) for group in fleet.placement_groups],
        "findings": [_finding(finding) for finding in report.findings],
    }


def _source(source: SourceStatus) -> dict[str, Any]:
    return {
        "name": source.name,
        "status": source.status,
        "detail": source.detail,
        "fetched_at": format_time(source.fetched_at),
        "complete": source.complete,
    }


def _slice(item: Slice, report: Report, groups: set[str]) -> dict[str, Any]:
    holders = dict.fromkeys((*item.held_by, *item.head_held_by))
    return {
        "id": item.id,
        "namespace": item.namespace,
        "cluster": item.cluster,
        "name": item.name,
        "generation": item.generation,
        "topology": item.topology_name,
        "hosts_expected": item.hosts_expected,
        "hosts_alive": item.hosts_alive,
        "chips_expected": item.chips_expected,
        # A slice that nobody judged is one that nobody can vouch for.
        "status": report.statuses.get(item.id, "unknown"),
        "node_pools": list(item.node_pools),
        "placement_groups": [key for key in holders if key in groups],
        "hosts": [_host(host) for host in item.hosts],
    }


def _host(host: Host) -> dict[str, Any]:
    return {
        "worker_id": host.worker_id,
        "pod": host.pod_name,
        "node": host.node_name,
        "ray_node_id": host.ray_node_id,
        "state": host.state,
        "coordinates": list(host.coordinates) if host.coordinates is not None else None,
        "layout": host.layout,
    }


def _group(group: PlacementGroup) -> dict[str, Any]:
    pending = group.pending_seconds
    return {
        "id": group.key,
        "name": group.name,
        "namespace": group.namespace,
        "cluster": group.cluster,
        "state": group.state,
        "role": group.role,
        "slices": list(group.slices),
        "pending_seconds": None if pending is None else round(pending, 3),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "cause": finding.cause,
        "subject": {
            "kind": finding.subject.kind,
            "id": finding.subject.id,
            "name": finding.subject.name,
        },
        "summary": finding.summary,
        "evidence": [
            {"source": item.source, "object": item.object, "field": item.field, "value": item.value}
            for item in finding.evidence
        ],
        "actions": [{"text": item.text, "command": item.command} for item in finding.actions],
        "since": format_time(finding.since),
        "runbook": finding.runbook,
    }
