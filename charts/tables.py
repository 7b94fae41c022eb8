"""Tables of a fleet for pages and notebooks: one row a host, slice, group or shape.

Columns hold plain values, sorted so that numbers sort as numbers: times as pandas timestamps (UTC),
durations in seconds, ratios from 0 to 1. What is not known is missing (``None``, ``NaN``, ``NaT``),
never zero. Names stay as the cluster wrote them: whoever shows a table must not read markup in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from charts.hosts import Holders, plan
from charts.palette import HOST_SIGNS, WORST_FIRST
from fleet.model import Fleet, Slice, SliceStatusName

HOST_COLUMNS = (
    "worker_id", "state", "problem", "pod", "node", "node_pool", "ray_node_id", "chips", "x", "y",
    "z", "layout", "groups", "rank", "workers", "duty_cycle", "memory_used", "since",
)  # fmt: skip
SLICE_COLUMNS = (
    "id", "status", "namespace", "cluster", "name", "generation", "topology", "hosts_alive",
    "hosts_expected", "chips_expected", "node_pools", "groups", "first_seen",
)  # fmt: skip
GROUP_COLUMNS = (
    "key", "name", "namespace", "cluster", "state", "role", "bundles", "unplaced", "chips",
    "slices", "wanted_slices", "workers", "pending_seconds", "job_id", "requested_at",
)  # fmt: skip
CAPACITY_COLUMNS = (
    "generation", "topology", "slices", "hosts", "hosts_ready", "chips", "chips_ready",
    "chips_free", *WORST_FIRST,
)  # fmt: skip

# Columns that may lack a value; an empty one would otherwise turn into text or into 1.0, 2.0.
_INTEGERS = ["worker_id", "chips_expected", "hosts_expected", "x", "y", "z", "rank"]
_FLOATS = ["duty_cycle", "memory_used", "pending_seconds", "since", "first_seen", "requested_at"]


def hosts_table(
    slice_: Slice, status: SliceStatusName, *, fleet: Fleet | None = None
) -> pd.DataFrame:
    """One row for each of ``slice_.hosts``, in that order, so that row numbers are host indexes."""
    layout = plan(slice_, status, fleet=fleet)
    views = {view.index: view for view in (*layout.tiles, *layout.spare) if view.host is not None}
    rows: list[dict[str, Any]] = []
    for index, host in enumerate(slice_.hosts):
        view = views.get(index)
        x, y, z = host.coordinates or (None, None, None)
        use = view.use if view is not None else None
        rows.append(
            {
                "worker_id": host.worker_id,
                "state": HOST_SIGNS[view.state].word if view is not None else host.state,
                "problem": host.problem,
                "pod": host.pod_name,
                "node": host.node_name,
                "node_pool": host.node_pool,
                "ray_node_id": host.ray_node_id,
                "chips": host.chips,
                "x": x,
                "y": y,
                "z": z,
                "layout": host.layout if host.coordinates is not None else None,
                "groups": ", ".join(group.label for group in view.groups) if view else "",
                "rank": view.rank if view is not None else None,
                "workers": len(view.workers) if view is not None else 0,
                "duty_cycle": use.duty_cycle if use is not None else None,
                "memory_used": _ratio(use.memory_used_bytes, use.memory_total_bytes)
                if use is not None
                else None,
                "since": host.age_since,
            }
        )
    return _times(_frame(rows, HOST_COLUMNS), "since")


def slices_table(fleet: Fleet, statuses: Mapping[str, SliceStatusName]) -> pd.DataFrame:
    """One row a slice, worst status first."""
    labels = {group.key: group.label for group in fleet.placement_groups}
    rows = [
        {
            "id": item.id,
            "status": statuses.get(item.id, "unknown"),
            "namespace": item.namespace,
            "cluster": item.cluster,
            "name": item.name,
            "generation": item.generation,
            "topology": item.topology_name,
            "hosts_alive": item.hosts_alive,
            "hosts_expected": item.hosts_expected,
            "chips_expected": item.chips_expected,
            "node_pools": ", ".join(item.node_pools),
            "groups": ", ".join(labels.get(key, key) for key in item.held_by),
            "first_seen": item.first_seen,
        }
        for item in fleet.slices
    ]
    rows.sort(key=lambda row: (WORST_FIRST.index(row["status"]), str(row["id"])))
    return _times(_frame(rows, SLICE_COLUMNS), "first_seen")


def groups_table(fleet: Fleet) -> pd.DataFrame:
    """One row a placement group, those that wait first, the longest first."""
    rows = [
        {
            "key": group.key,
            "name": group.label,
            "namespace": group.namespace,
            "cluster": group.cluster,
            "state": group.state,
            "role": group.role,
            "bundles": len(group.bundles),
            "unplaced": len(group.unplaced),
            "chips": group.chips,
            "slices": ", ".join(group.slices),
            "wanted_slices": ", ".join(group.wanted_slices),
            "workers": sum(worker.alive for worker in group.workers),
            "pending_seconds": group.pending_seconds,
            "job_id": group.job_id,
            "requested_at": group.requested_at,
        }
        for group in sorted(
            fleet.placement_groups, key=lambda item: (-(item.pending_seconds or 0.0), item.key)
        )
    ]
    return _times(_frame(rows, GROUP_COLUMNS), "requested_at")


def capacity_table(fleet: Fleet, statuses: Mapping[str, SliceStatusName]) -> pd.DataFrame:
    """One row for each generation and topology: slices, hosts and chips, and slices by status.

    ``chips_free`` counts ready hosts of ``idle`` slices and, of slices held in part, the hosts that
    no group holds and no worker uses; of slices that cannot be seen it counts none.
    """
    holders = Holders.of(fleet)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for item in fleet.slices:
        key = (item.generation or "unknown", item.topology_name or "unknown")
        row = groups.setdefault(
            key,
            {
                "generation": key[0],
                "topology": key[1],
                **dict.fromkeys(CAPACITY_COLUMNS[2:], 0),
            },
        )
        status = statuses.get(item.id, "unknown")
        busy = {worker.host_key for worker in item.workers if worker.alive}
        per_host = item.topology.chips_per_host if item.topology is not None else None
        row["slices"] += 1
        row[status] += 1
        row["hosts"] += item.hosts_expected or len(item.hosts)
        row["hosts_ready"] += item.hosts_alive
        row["chips"] += item.chips_expected or 0
        for host in item.hosts:
            if host.state != "ready":
                continue
            chips = host.chips if host.chips is not None else per_host or 0
            row["chips_ready"] += chips
            held = host.key in busy or (item.id, host.key) in holders.groups
            if not held and status in ("idle", "shared"):
                row["chips_free"] += chips
    return _frame([groups[key] for key in sorted(groups)], CAPACITY_COLUMNS)


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(columns))
    for column in frame.columns.intersection(_INTEGERS):
        frame[column] = pd.array(frame[column].tolist(), dtype="Int64")
    for column in frame.columns.intersection(_FLOATS):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype("float64")
    return frame


def _times(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    for column in columns:
        seconds = pd.to_numeric(frame[column], errors="coerce")
        # A cluster may write any number; beyond what a timestamp can hold it is not known.
        seconds = seconds.where(seconds.between(0, 9_000_000_000))
        frame[column] = pd.to_datetime(seconds, unit="s", utc=True)
    return frame


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
