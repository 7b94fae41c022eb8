"""Slices of one Ray cluster: members from both sides grouped, completed and judged host by host."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from fleet.hosts import (
    dead_nodes_of,
    host_of,
    judge_member,
    mark_duplicates,
    mark_lost,
    missing_hosts,
    place,
    scale_up_failure,
)
from fleet.joining import (
    SLICE_NAME_LABEL,
    alive,
    dead_by_identity,
    ray_labels,
)
from fleet.members import (
    Member,
    Surroundings,
    collect_members,
    group_by_name,
    hints_of,
    phantoms,
    without_superseded,
)
from fleet.model import Host, Slice, StrayRayNode
from fleet.observation import Pod, RayNode
from fleet.pods import (
    DYNAMIC_SLICE_LABEL,
    gated,
    labels_of,
)
from fleet.shapes import Shape, shape_of
from fleet.times import epoch_from_ms


class SliceBuild(msgspec.Struct, frozen=True, kw_only=True):
    """Slices of one cluster (without who holds them), and what belongs to none."""

    slices: tuple[Slice, ...]
    stray_pods: tuple[Pod, ...]
    stray_ray_nodes: tuple[StrayRayNode, ...]


def build_slices(around: Surroundings) -> SliceBuild:
    """Every slice of one Ray cluster that has at least one live pod or live Ray node.

    Dead Ray nodes never make a slice: they are its history, and tell which missing host was there
    before. A slice of a single host is split off where several hosts share one name, as no ICI
    joins them (``ray.util.tpu`` names such slices by node id).
    """
    members = collect_members(around)
    named, stray_pods, stray_nodes = group_by_name(around, members)
    stray_nodes += phantoms(around, members)
    dead = [node for node in around.ray_nodes if not alive(node)]
    by_identity = dead_by_identity(dead)
    by_ip: dict[str, list[RayNode]] = defaultdict(list)
    by_name: dict[str, list[RayNode]] = defaultdict(list)
    for node in dead:
        if node.node_ip:
            by_ip[node.node_ip].append(node)
        label = ray_labels(node).get(SLICE_NAME_LABEL)
        if label:
            by_name[label].append(node)
    slices = []
    for name in sorted(named):
        mates = named[name]
        group = next((mate.group for mate in mates if mate.group), None)
        spec = around.groups.get(group or "")
        shape = shape_of(
            (hints_of(mate, spec) for mate in mates),
            declared_hosts=spec.num_of_hosts if spec else None,
        )
        if shape.hosts == 1 and len(mates) > 1:
            kept, _ = without_superseded(mates)
            parts = (
                [(f"{name}/{mate.key[:63]}", [mate]) for mate in kept]
                if len(kept) > 1
                else [(name, kept)]
            )
        else:
            parts = [(name, mates)]
        slices += [
            _build_slice(
                around,
                part_name,
                part,
                ray_name=name,
                shape=shape,
                group=group,
                history=tuple(by_name.get(name, ())),
                by_identity=by_identity,
                by_ip=by_ip,
            )
            for part_name, part in parts
        ]
    return SliceBuild(
        slices=tuple(slices),
        stray_pods=tuple(stray_pods),
        stray_ray_nodes=tuple(stray_nodes),
    )


def _build_slice(
    around: Surroundings,
    name: str,
    mates: list[Member],
    *,
    ray_name: str,
    shape: Shape,
    group: str | None,
    history: tuple[RayNode, ...],
    by_identity: Mapping[tuple[str, int], list[RayNode]],
    by_ip: Mapping[str, list[RayNode]],
) -> Slice:
    leaving = all(mate.ending for mate in mates) and any(mate.pod for mate in mates)
    members, _ = without_superseded(mates)
    if shape.hosts is not None and len(members) > shape.hosts:
        # What is on its way out does not make a slice too big.
        staying = [member for member in members if not member.ending]
        if len(staying) >= shape.hosts:
            members = staying
    have_pods = any(member.pod is not None for member in members)
    scale_up_failed = scale_up_failure(around, members)
    starts = [
        start
        for member in members
        if not member.ending
        for start in (
            member.created,
            epoch_from_ms(member.ray.start_time_ms) if member.ray else None,
        )
        if start is not None
    ]
    peers_since = min(starts, default=None)
    hosts = []
    for member in members:
        verdict = judge_member(
            around,
            member,
            dead=dead_nodes_of(around, ray_name, member, by_identity, by_ip),
            siblings_have_pods=have_pods,
            scale_up_failed=scale_up_failed,
        )
        hosts.append(host_of(around, member, verdict))
    hosts = mark_duplicates(around, _with_own_keys(hosts))
    hosts += missing_hosts(
        around,
        hosts,
        shape=shape,
        name=ray_name,
        have_pods=have_pods,
        by_identity=by_identity,
        peers_since=peers_since,
    )
    hosts = mark_lost(hosts, name=ray_name, by_identity=by_identity, peers_since=peers_since)
    hosts = place(hosts, shape)
    hosts.sort(key=lambda host: (host.worker_id is None, host.worker_id or 0, host.key))
    whole = (
        shape.hosts is not None
        and sum(host.state == "ready" for host in hosts) >= shape.hosts
        and all(host.state == "ready" for host in hosts)
    )
    lost = any(host.was_there for host in hosts if host.state != "ready")
    is_gated = any(host.pod is not None and gated(host.pod) for host in hosts)
    young = peers_since is not None and around.now - peers_since < around.startup_grace
    dynamic = next(
        (
            label
            for host in hosts
            if host.node is not None
            for label in (labels_of(host.node).get(DYNAMIC_SLICE_LABEL),)
            if label
        ),
        None,
    )
    prefix = f"{around.namespace}/{around.cluster}"
    seen_by = tuple(
        side
        for side, there in (
            ("kubernetes", have_pods),
            ("ray", any(member.ray is not None for member in members)),
        )
        if there
    )
    return Slice(
        id=f"{prefix}/{name}",
        namespace=around.namespace,
        cluster=around.cluster,
        name=name,
        generation=shape.generation,
        topology_name=shape.topology_name,
        topology=shape.topology,
        pod_type=shape.pod_type,
        hosts_expected=shape.hosts,
        chips_expected=shape.chips,
        hosts=tuple(hosts),
        history=history,
        node_pools=tuple(sorted({host.node_pool for host in hosts if host.node_pool})),
        group=group,
        replica=next((member.replica for member in members if member.replica), None),
        seen_by=seen_by,
        first_seen=peers_since,
        forming=not whole and not leaving and ((young and not lost) or (is_gated and not lost)),
        gated=is_gated,
        leaving=leaving,
        blind=_blind(around, shape, hosts, have_pods=have_pods),
        slice_object=around.slice_objects.get(dynamic or ""),
    )


def _with_own_keys(hosts: Sequence[Host]) -> list[Host]:
    """Hosts whose rows lost their names still need keys of their own."""
    seen: Counter[str] = Counter()
    result = []
    for host in hosts:
        seen[host.key] += 1
        if seen[host.key] > 1:
            host = msgspec.structs.replace(host, key=f"{host.key}#{seen[host.key]}")
        result.append(host)
    return result


def _blind(
    around: Surroundings, shape: Shape, hosts: Sequence[Host], *, have_pods: bool
) -> tuple[str, ...]:
    """What about the hosts themselves cannot be seen. Who holds them comes later."""
    reasons = []
    if shape.hosts is None:
        reasons.append("its topology is not known, so how many hosts it needs is not either")
    if not around.ray_seen:
        reasons.append("Ray does not answer")
    elif not around.ray_nodes_known and any(
        host.ray_node is None and host.problem is None for host in hosts
    ):
        reasons.append("Ray's list of nodes is incomplete and lacks some of its hosts")
    if (
        around.has_kubernetes
        and not around.pods_known
        and not have_pods
        and not around.ray_nodes_known
    ):
        reasons.append("Kubernetes' list of pods is incomplete")
    return tuple(reasons)
