"""Hosts of one slice: which work, which do not and why, which are missing, where they sit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fleet.joining import (
    SLICE_NAME_LABEL,
    last_dead,
    ray_labels,
    ray_tpu,
)
from fleet.layout import place_hosts
from fleet.members import Member, Surroundings
from fleet.model import Host, HostProblem
from fleet.observation import Event, Pod, RayNode
from fleet.pods import (
    NODE_POOL_LABEL,
    event_time,
    labels_of,
    node_chips,
    node_name,
    node_ready,
    not_ready_since,
    phase,
    pod_ip,
    pod_name,
    pod_problem,
    pod_tpu_chips,
    terminating,
    worker_id,
)
from fleet.shapes import Shape
from fleet.times import epoch_from_ms, parse_time

REPLACEMENT_OVERLAP_SECONDS = 30.0
"""A dead Ray node may still be listed ALIVE for this long beside its successor
(facts/ray_2_60.md: a node's death can be noticed up to 30 s late)."""

PROBE_FAILS_WITHIN_SECONDS = 120.0
"""KubeRay's readiness probe asks the raylet every 5 s; a death is noticed up to 30 s late."""

SCALE_EVENTS = frozenset({"FailedScaleUp", "TriggeredScaleUp", "NotTriggerScaleUp"})


def scale_up_failure(around: Surroundings, members: Iterable[Member]) -> str | None:
    """The autoscaler's words, when its newest word on any of these pods is that it failed."""
    newest: tuple[float, Event] | None = None
    for member in members:
        if member.pod is None or node_name(member.pod) is not None:
            continue
        for event in around.events.get(("Pod", around.namespace, pod_name(member.pod)), ()):
            if event.reason not in SCALE_EVENTS:
                continue
            moment = event_time(event) or 0.0
            if newest is None or moment >= newest[0]:
                newest = (moment, event)
    if newest is None:
        return None
    event = newest[1]
    words = event.message or ""
    if event.reason == "FailedScaleUp" or (
        event.reason == "NotTriggerScaleUp" and "failed scale-up" in words
    ):
        return words or "the autoscaler could not add a node"
    return None


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    problem: HostProblem | None = None
    detail: str = ""
    gone_since: float | None = None
    was_there: bool = False


def judge_member(
    around: Surroundings,
    member: Member,
    *,
    dead: Sequence[RayNode],
    siblings_have_pods: bool,
    scale_up_failed: str | None,
) -> _Verdict:
    """Whether one present member is a working host, and if not, why."""
    pod, ray = member.pod, member.ray
    if pod is None:
        if siblings_have_pods and around.pods_known:
            return _Verdict(
                problem="PodMissing",
                detail="Ray still lists the host as alive, but its pod does not exist any more",
                was_there=True,
            )
        return _Verdict()
    found = pod_problem(
        pod,
        node=member.node,
        nodes_known=around.nodes_known,
        scale_up_failed=scale_up_failed,
    )
    died = last_dead(dead, created=member.created) if ray is None else None
    died_at = epoch_from_ms(died.end_time_ms) if died is not None else None
    since = died_at
    if since is None and member.node is not None and node_ready(member.node) is False:
        ready = next(
            (
                item
                for item in (member.node.status.conditions if member.node.status else None) or ()
                if item.type == "Ready"
            ),
            None,
        )
        since = parse_time(ready.last_transition_time) if ready else None
    if since is None:
        since = not_ready_since(pod)
    if found is not None and not (found[0] == "PodNotReady" and _fell_with(pod, died_at)):
        return _Verdict(
            problem=found[0], detail=found[1], gone_since=since, was_there=died is not None
        )
    if died is not None and around.ray_seen:
        said = died.state_message or "Ray lists it as DEAD"
        more = f"; {found[1]}" if found is not None else ""
        return _Verdict(
            problem="RayletDead",
            detail=f"the pod is up but its raylet is dead: {said}{more}",
            gone_since=died_at,
            was_there=True,
        )
    if ray is None and around.ray_nodes_known:
        return _Verdict(
            problem="RayNodeNeverJoined",
            detail="the pod is up, but no Ray node of it ever joined the cluster",
            gone_since=member.created,
        )
    return _Verdict()


def _fell_with(pod: Pod, died_at: float | None) -> bool:
    """Whether a running pod stopped being ready because its raylet had died, by the order in which
    the two happened: the probe asks the raylet, so it fails some seconds after the death."""
    if died_at is None or phase(pod) != "Running":
        return False
    fell = not_ready_since(pod)
    return fell is not None and 0 <= fell - died_at <= PROBE_FAILS_WITHIN_SECONDS


def dead_nodes_of(
    around: Surroundings,
    name: str,
    member: Member,
    by_identity: Mapping[tuple[str, int], list[RayNode]],
    by_ip: Mapping[str, list[RayNode]],
) -> list[RayNode]:
    """Dead Ray nodes that may have run in this member's place: same identity, or same IP."""
    found = (
        list(by_identity.get((name, member.worker_id), ())) if member.worker_id is not None else []
    )
    address = pod_ip(member.pod) if member.pod is not None else None
    if address is not None:
        found += [
            node for node in by_ip.get(address, ()) if SLICE_NAME_LABEL not in ray_labels(node)
        ]
    return found


def host_of(around: Surroundings, member: Member, verdict: _Verdict) -> Host:
    """The host that a member and its verdict make, without its place in the grid."""
    pod, ray = member.pod, member.ray
    chips = (pod_tpu_chips(pod) if pod is not None else None) or (
        node_chips(member.node) if member.node is not None else None
    )
    counted = int(ray_tpu(ray)) if ray is not None else 0
    resources = (ray.resources_total or {}) if ray is not None else {}
    bound = node_name(pod) if pod is not None else None
    return Host(
        key=member.key,
        worker_id=member.worker_id,
        state="ready" if verdict.problem is None else "not_ready",
        problem=verdict.problem,
        problem_detail=verdict.detail,
        pod_name=pod_name(pod) or None if pod is not None else None,
        node_name=bound,
        node_pool=labels_of(member.node).get(NODE_POOL_LABEL) if member.node is not None else None,
        ray_node_id=ray.node_id if ray is not None else None,
        chips=chips or (counted if counted > 0 else None),
        age_since=member.started,
        was_there=verdict.was_there,
        gone_since=verdict.gone_since,
        offers_head=any(
            key.startswith("TPU-") and key.endswith("-head") and value
            for key, value in resources.items()
        ),
        group=member.group,
        pod=pod,
        node=member.node,
        ray_node=ray,
    )


def mark_duplicates(around: Surroundings, hosts: list[Host]) -> list[Host]:
    """Mark live hosts that claim one worker id or one hostname, unless one has only just come."""
    claims: dict[tuple[str, str], list[Host]] = defaultdict(list)
    for host in hosts:
        if host.pod is not None and (terminating(host.pod) or phase(host.pod) == "Failed"):
            continue
        if host.worker_id is not None:
            claims["id", str(host.worker_id)].append(host)
        # libtpu goes by the variable in the pod, whatever label Ray has.
        own = worker_id(host.pod) if host.pod is not None else None
        if own is not None and own != host.worker_id:
            claims["id", str(own)].append(host)
        hostname = host.pod.spec.hostname if host.pod is not None and host.pod.spec else None
        if hostname:
            claims["hostname", hostname].append(host)
    doubled: set[str] = set()
    for claimants in claims.values():
        if len(claimants) < 2:
            continue
        only_ray = all(host.pod is None for host in claimants)
        youngest = max((host.age_since or 0.0 for host in claimants), default=0.0)
        if only_ray and 0 <= around.now - youngest < REPLACEMENT_OVERLAP_SECONDS:
            continue
        doubled |= {host.key for host in claimants}
    return [
        msgspec.structs.replace(host, duplicate=True) if host.key in doubled else host
        for host in hosts
    ]


def missing_hosts(
    around: Surroundings,
    hosts: Sequence[Host],
    *,
    shape: Shape,
    name: str,
    have_pods: bool,
    by_identity: Mapping[tuple[str, int], list[RayNode]],
    peers_since: float | None,
) -> list[Host]:
    """Places that the topology wants and nobody fills."""
    if shape.hosts is None or len(hosts) >= shape.hosts:
        return []
    wanted = shape.hosts - len(hosts)
    taken = {host.worker_id for host in hosts}
    free = [place for place in range(shape.hosts) if place not in taken]
    # Places with a history first: where some ids are unknown, a known loss is told before a guess.
    free.sort(key=lambda place: ((name, place) not in by_identity, place))
    missing = []
    for place in sorted(free[:wanted]):
        died = _newest(by_identity, name, place)
        died_at = epoch_from_ms(died.end_time_ms) if died is not None else None
        there = _overlaps(died, peers_since)
        if have_pods and around.pods_known:
            problem: HostProblem | None = "PodMissing"
            detail = "no pod exists for this worker id"
        elif there and died is not None:
            problem = "RayletDead"
            detail = f"its raylet is dead: {died.state_message or 'Ray lists it as DEAD'}"
        elif around.ray_nodes_known:
            problem, detail = "RayNodeNeverJoined", "no Ray node of it ever joined the cluster"
        else:
            problem, detail = None, "not in the part of the list that Ray gave"
        missing.append(
            Host(
                key=f"worker-{place}",
                worker_id=place,
                state="missing",
                problem=problem,
                problem_detail=detail,
                was_there=there,
                gone_since=died_at if there else None,
            )
        )
    return missing


def _newest(
    by_identity: Mapping[tuple[str, int], list[RayNode]], name: str, place: int | None
) -> RayNode | None:
    found = by_identity.get((name, place), []) if place is not None else []
    return found[-1] if found else None


def _overlaps(died: RayNode | None, peers_since: float | None) -> bool:
    """Whether a dead Ray node lived beside the hosts that are there now. One that ended before
    them belonged to an earlier slice of the same name."""
    if died is None:
        return False
    ended = epoch_from_ms(died.end_time_ms)
    return ended is None or peers_since is None or ended > peers_since


def mark_lost(
    hosts: list[Host],
    *,
    name: str,
    by_identity: Mapping[tuple[str, int], list[RayNode]],
    peers_since: float | None,
) -> list[Host]:
    """Mark hosts that are not ready and whose predecessor died beside their present peers."""
    result = []
    for host in hosts:
        died = _newest(by_identity, name, host.worker_id)
        if host.state != "ready" and not host.was_there and _overlaps(died, peers_since):
            ended = epoch_from_ms(died.end_time_ms) if died else None
            host = msgspec.structs.replace(
                host, was_there=True, gone_since=ended or host.gone_since
            )
        result.append(host)
    return result


def place(hosts: list[Host], shape: Shape) -> list[Host]:
    """Give each host its place in the grid: measured where a source tells, else by worker id."""
    if shape.topology is None:
        return hosts
    present = [host for host in hosts if host.state != "missing"]
    absent = [host for host in hosts if host.state == "missing"]
    places = place_hosts(
        shape.topology,
        {host.key: host.worker_id for host in (*present, *absent)},
        {
            host.key: {
                **(labels_of(host.node) if host.node is not None else {}),
                **(ray_labels(host.ray_node) if host.ray_node is not None else {}),
            }
            for host in present
        },
    )
    result = []
    for host in hosts:
        place = places.get(host.key)
        if place is None:
            result.append(host)
            continue
        result.append(
            msgspec.structs.replace(
                host, coordinates=place[0], layout="measured" if place[1] else "assumed"
            )
        )
    return result
