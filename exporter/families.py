"""Every metric family by name: type, labels, help. ``docs/metrics.md`` is held against this table.

Prefix ``slicewatch_``, base units, ratios instead of percent. The label is ``ray_cluster`` because
``cluster`` clashes with the target labels that people set. No label has unbounded values: no
messages, no task or actor ids.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

PREFIX = "slicewatch_"

SLICE = ("namespace", "ray_cluster", "slice")


class FamilyInfo(NamedTuple):
    """``name`` without the prefix, as it is exposed (counters end in ``_total``)."""

    name: str
    type: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    help: str


FAMILIES: tuple[FamilyInfo, ...] = (
    FamilyInfo("build_info", "gauge", ("version",), "The version of Slicewatch that answers."),
    FamilyInfo(
        "slice_info",
        "gauge",
        (*SLICE, "generation", "topology", "node_pool"),
        "A TPU slice; several node pools are joined by commas.",
    ),
    FamilyInfo(
        "slice_hosts_expected", "gauge", SLICE, "Hosts that the topology of the slice needs."
    ),
    FamilyInfo(
        "slice_hosts",
        "gauge",
        (*SLICE, "state"),
        "Hosts of the slice by state: ready, not_ready or missing.",
    ),
    FamilyInfo("slice_chips", "gauge", SLICE, "Chips that the topology of the slice has."),
    FamilyInfo(
        "slice_status",
        "gauge",
        (*SLICE, "status"),
        "1 for the status that the slice has, 0 for each other one.",
    ),
    FamilyInfo(
        "slice_status_since_timestamp_seconds",
        "gauge",
        SLICE,
        "When the slice got its status, as far as the looks go back.",
    ),
    FamilyInfo(
        "placement_groups",
        "gauge",
        ("namespace", "ray_cluster", "state", "role"),
        "Placement groups by state and role.",
    ),
    FamilyInfo(
        "placement_group_pending_seconds",
        "gauge",
        ("namespace", "ray_cluster", "placement_group", "name"),
        "How long a placement group has waited; only while it waits.",
    ),
    FamilyInfo(
        "finding_active",
        "gauge",
        (
            "namespace",
            "ray_cluster",
            "code",
            "severity",
            "cause",
            "subject_kind",
            "subject",
        ),
        "1 while a finding is open.",
    ),
    FamilyInfo(
        "rule_unknown",
        "gauge",
        ("code",),
        "How many times the rules of this code could not judge for want of data, in the last look.",
    ),
    FamilyInfo(
        "source_up",
        "gauge",
        ("source",),
        "Whether the source answered its last poll; a suspended cluster is not asked: no series.",
    ),
    FamilyInfo(
        "source_complete",
        "gauge",
        ("source",),
        "Whether the source gave every part and row; a suspended cluster has no series.",
    ),
    FamilyInfo(
        "source_last_success_timestamp_seconds",
        "gauge",
        ("source",),
        "When the source last gave a good answer.",
    ),
    FamilyInfo(
        "source_poll_duration_seconds",
        "histogram",
        ("source",),
        "How long polls of the source took.",
    ),
    FamilyInfo(
        "source_errors_total",
        "counter",
        ("source", "reason"),
        "Polls of the source that failed, by reason.",
    ),
    FamilyInfo(
        "snapshot_age_seconds",
        "gauge",
        (),
        "Time since the last look was published; absent before the first.",
    ),
)

BY_NAME: dict[str, FamilyInfo] = {family.name: family for family in FAMILIES}
