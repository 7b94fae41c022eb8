"""All rules, in the order of contract section 4."""

from __future__ import annotations

from diagnosis.rules import (
    affinity,
    chip_counts,
    chips,
    dynamic,
    gangs,
    hardware,
    hostnames,
    identity,
    idle,
    incomplete,
    multislice,
    pending,
    placement,
    replicas,
    restarted,
    scaleup,
    scheduler,
    slices,
    webhook,
)
from diagnosis.rules.base import Rule

RULES: tuple[Rule, ...] = (
    # Judges each slice by what is seen of it, and says "unknown" slice by slice.
    Rule(
        code="SliceIncomplete",
        either=("ray:nodes", "kubernetes:pods"),
        judge=incomplete.judge_incomplete,
        ray_side=False,
    ),
    Rule(
        code="SliceSpansNodePools",
        needs=("kubernetes:pods", "kubernetes:nodes"),
        judge=slices.judge_spans,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(code="DuplicateWorkerId", needs=("ray:nodes",), judge=slices.judge_duplicates),
    Rule(
        code="MissingSliceIdentity",
        either=("ray:nodes", "kubernetes:pods"),
        judge=identity.judge_identity,
        ray_side=False,
    ),
    Rule(
        code="HostnamesUnresolvable",
        needs=("kubernetes:pods", "kubernetes:services"),
        judge=hostnames.judge_hostnames,
        partial=False,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="AffinityDeadlock",
        needs=("kubernetes:pods",),
        judge=affinity.judge_affinity,
        partial=False,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="HostCountMismatch",
        needs=("kubernetes:pods", "kubernetes:ray_clusters"),
        judge=hostnames.judge_host_count,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="WebhookDown",
        needs=("kubernetes:events", "kubernetes:ray_clusters"),
        judge=webhook.judge_webhook,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="ReplicaDrift",
        needs=("kubernetes:pods", "kubernetes:ray_clusters"),
        judge=replicas.judge_drift,
        partial=False,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="HostRestartedAlone",
        needs=("ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=restarted.judge_restarted,
    ),
    Rule(code="HeadResourceMissing", needs=("ray:nodes",), judge=slices.judge_head_resource),
    Rule(
        code="ChipCountMismatch",
        either=("ray:nodes", "kubernetes:pods"),
        judge=chip_counts.judge_chips,
        ray_side=False,
    ),
    Rule(
        code="PhantomTpu",
        needs=("ray:nodes", "kubernetes:pods"),
        judge=chip_counts.judge_phantom,
        kubernetes_only=True,
    ),
    Rule(
        code="HostMaintenance",
        needs=("kubernetes:nodes",),
        judge=hardware.judge_maintenance,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="RuntimeFault",
        needs=("kubernetes:nodes",),
        judge=hardware.judge_runtime,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="DynamicSliceDegraded",
        needs=("kubernetes:nodes",),
        judge=dynamic.judge_dynamic,
        ray_side=False,
        kubernetes_only=True,
    ),
    Rule(
        code="PlacementSplit",
        needs=("ray:nodes", "ray:placement_groups"),
        judge=placement.judge_split,
    ),
    Rule(
        code="PlacementSubset",
        needs=("ray:nodes", "ray:placement_groups"),
        judge=placement.judge_subset,
    ),
    Rule(
        code="PlacementPending",
        needs=("ray:nodes", "ray:placement_groups"),
        judge=pending.judge_pending,
    ),
    Rule(
        code="PlacementHostLost", needs=("ray:placement_groups",), judge=placement.judge_host_lost
    ),
    Rule(code="SchedulerLivelock", needs=("ray:placement_groups",), judge=scheduler.judge_livelock),
    Rule(
        code="HeadReservationLeaked",
        needs=("ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=scheduler.judge_leak,
        partial=False,
    ),
    Rule(
        code="ReservationIdle",
        needs=("ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=idle.judge_idle,
        partial=False,
    ),
    Rule(
        code="GangIncomplete",
        needs=("ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=gangs.judge_incomplete_gang,
        partial=False,
    ),
    Rule(
        code="GangMemberDead",
        needs=("ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=gangs.judge_member_dead,
        partial=False,
    ),
    Rule(
        code="GangStalled",
        needs=("ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=chips.judge_stalled,
        partial=False,
    ),
    Rule(
        code="GangStraggler",
        needs=("ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks"),
        judge=chips.judge_straggler,
        partial=False,
    ),
    Rule(
        code="MultisliceMismatch",
        needs=("kubernetes:pods",),
        judge=multislice.judge_multislice,
        kubernetes_only=True,
    ),
    Rule(
        code="ScaleUpFailed",
        needs=("kubernetes:pods", "kubernetes:events"),
        judge=scaleup.judge_scale_up,
        ray_side=False,
        kubernetes_only=True,
    ),
)
"""``SourceDown``, ``SourceTruncated`` and ``SourceStale`` judge sources, not clusters: see
:func:`diagnosis.rules.sources.judge_sources`."""
