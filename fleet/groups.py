"""Placement groups of one Ray cluster: where their bundles lie, and who works in them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fleet.joining import POD_TYPE_LABEL, SLICE_NAME_LABEL, WORKER_ID_LABEL
from fleet.model import Bundle, GroupRole, PlacementGroup, Slice, Worker
from fleet.observation import (
    RayActor,
    RayBundle,
    RayNode,
    RayObservation,
    RayPlacementGroup,
    RayTask,
)
from fleet.times import epoch_from_ms, epoch_from_ns, number
from fleet.topology import is_subslice

HEAD_RESOURCE = re.compile(r"^TPU-(?P<pod_type>.+)-head$")
"""Ray offers one such resource on worker 0 of a slice (facts/gke_tpu.md 1.5)."""

BUNDLE_RESOURCE = re.compile(r"_group_(?P<index>\d+)_(?P<group>[0-9a-f]+)$")
"""``TPU_group_3_<group id>``: a resource of bundle 3 (facts/ray_2_60.md)."""

ON_PURPOSE = frozenset({"RAY_KILL", "OUT_OF_SCOPE", "REF_DELETED"})
"""Reasons of an actor's death that its owner wanted (``ActorDiedErrorContext.Reason``)."""

UNFINISHED_TASK_STATES = frozenset(
    {
        "PENDING_ARGS_AVAIL",
        "PENDING_NODE_ASSIGNMENT",
        "PENDING_OBJ_STORE_MEM_AVAIL",
        "PENDING_ARGS_FETCH",
        "SUBMITTED_TO_WORKER",
        "PENDING_ACTOR_TASK_ARGS_FETCH",
        "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
    }
)

RUNNING_TASK_STATES = frozenset({"RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT"})


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """The slices of one Ray cluster as a scheduler sees them: which node is which host.

    ``host_of_node``: live Ray node id → (slice id, host key). ``slice_of_name``: slice name →
    slices of that name (several for single-host ones). ``tpu_of_node``: what Ray counts there.
    """

    now: float
    slices: dict[str, Slice]
    host_of_node: dict[str, tuple[str, str]]
    slices_of_name: dict[str, tuple[str, ...]]
    tpu_of_node: dict[str, float]
    dead_since: dict[str, float | None]


def ground_of(now: float, slices: Iterable[Slice], nodes: Sequence[RayNode]) -> Ground:
    """Index the slices of one cluster by Ray node and by name."""
    by_id = {item.id: item for item in slices}
    host_of_node: dict[str, tuple[str, str]] = {}
    names: dict[str, list[str]] = defaultdict(list)
    for item in by_id.values():
        names[item.name.partition("/")[0]].append(item.id)
        if "/" in item.name:
            names[item.name].append(item.id)
        for host in item.hosts:
            if host.ray_node_id:
                host_of_node[host.ray_node_id] = (item.id, host.key)
            label = ((host.ray_node.labels if host.ray_node else None) or {}).get(SLICE_NAME_LABEL)
            if label and item.id not in names[label]:
                names[label].append(item.id)
    return Ground(
        now=now,
        slices=by_id,
        host_of_node=host_of_node,
        slices_of_name={name: tuple(ids) for name, ids in names.items()},
        tpu_of_node={
            node.node_id: number((node.resources_total or {}).get("TPU")) or 0.0
            for node in nodes
            if node.node_id
        },
        dead_since={
            node.node_id: epoch_from_ms(node.end_time_ms)
            for node in nodes
            if node.node_id and node.state != "ALIVE"
        },
    )


def tpu_capacity(ground: Ground, slice_id: str) -> float | None:
    """TPUs of a whole slice in Ray's units (logical devices where a chip counts as several)."""
    item = ground.slices.get(slice_id)
    if item is None or item.chips_expected is None or not item.hosts_expected:
        return None
    counted = [
        ground.tpu_of_node.get(host.ray_node_id or "", 0.0)
        for host in item.hosts
        if host.ray_node_id
    ]
    per_host = max(counted, default=0.0)
    physical = item.chips_expected / item.hosts_expected
    return item.hosts_expected * (per_host if per_host > physical else physical)


def _bundle(ground: Ground, raw: RayBundle, position: int) -> Bundle:
    resources = {
        name: amount
        for name, value in (raw.unit_resources or {}).items()
        if (amount := number(value)) is not None
    }
    index = number(raw.bundle_id.bundle_index) if raw.bundle_id else None
    slice_id, host_key = ground.host_of_node.get(raw.node_id or "", (None, None))
    return Bundle(
        index=int(index) if index is not None else position,
        chips=resources.get("TPU", 0.0),
        head_resource=next(
            (name for name, value in resources.items() if HEAD_RESOURCE.match(name) and value > 0),
            None,
        ),
        resources=resources,
        selector={
            key: value for key, value in (raw.label_selector or {}).items() if value is not None
        },
        node_id=raw.node_id or None,
        placed=bool(raw.node_id) and raw.node_id not in ground.dead_since,
        slice_id=slice_id,
        host_key=host_key,
    )


def _asked_slice(ground: Ground, bundle: Bundle) -> str | None:
    """The slice that a bundle lies on or, while it waits, that its selector names (one only)."""
    if bundle.slice_id is not None:
        return bundle.slice_id
    ids = ground.slices_of_name.get(bundle.selector.get(SLICE_NAME_LABEL, ""), ())
    return ids[0] if len(ids) == 1 else None


def _role(ground: Ground, bundles: Sequence[Bundle]) -> GroupRole:
    tpu = [bundle for bundle in bundles if bundle.chips > 0]
    if not tpu:
        return "head" if any(bundle.head_resource for bundle in bundles) else "other"
    per_slice: dict[str, float] = defaultdict(float)
    names = set()
    homeless = False
    for bundle in tpu:
        name = bundle.selector.get(SLICE_NAME_LABEL)
        if name:
            names.add(name)
        target = _asked_slice(ground, bundle)
        if target is None:
            homeless = homeless or not name
        else:
            per_slice[target] += bundle.chips
    if homeless:
        return "other"
    if not per_slice:
        return "multislice" if len(names) > 1 else "slice"
    filled = []
    for slice_id, chips in per_slice.items():
        capacity = tpu_capacity(ground, slice_id)
        filled.append(capacity is not None and chips >= capacity)
    if all(filled):
        return "multislice" if len(per_slice) > 1 or len(names) > 1 else "slice"
    if len(per_slice) == 1:
        by_worker = any(WORKER_ID_LABEL in bundle.selector for bundle in tpu)
        return "subslice" if by_worker or _aligned(ground, tpu) else "other"
    return "other"


def _aligned(ground: Ground, bundles: Sequence[Bundle]) -> bool:
    """Whether placed bundles of one slice sit on an aligned sub-slice of it."""
    ids = {bundle.slice_id for bundle in bundles}
    item = ground.slices.get(next(iter(ids)) or "") if len(ids) == 1 else None
    if item is None or item.topology is None:
        return False
    keys = {bundle.host_key for bundle in bundles}
    hosts = [host for host in item.hosts if host.key in keys]
    places = {host.coordinates for host in hosts if host.coordinates is not None}
    if len(places) != len(keys):
        return False
    measured = all(host.layout == "measured" for host in hosts)
    return is_subslice(item.topology, places, measured=measured) is not None


def _death(actor: RayActor) -> tuple[str, bool, str]:
    """Why an actor died: a sentence, whether it was wanted, and Ray's reason word."""
    for context in (actor.death_cause or {}).values():
        if not isinstance(context, dict):
            continue
        reason = context.get("reason")
        message = context.get("error_message")
        word = reason if isinstance(reason, str) else ""
        text = message if isinstance(message, str) else ""
        first = text.strip().splitlines()[0] if text.strip() else word
        wanted = word in ON_PURPOSE or "INTENDED_USER_EXIT" in text or "exit_actor" in text
        return first, wanted, word
    return "", False, ""


def _bundle_index(resources: Mapping[str, object] | None) -> int | None:
    for name in resources or ():
        found = BUNDLE_RESOURCE.search(name)
        if found and len(found["index"]) < 9:
            return int(found["index"])
    return None


def _tpu_demand(resources: Mapping[str, object] | None) -> float:
    """TPUs that a worker takes: the plain resource, or the bundle's own (named once a bundle)."""
    plain = 0.0
    grouped = 0.0
    for name, value in (resources or {}).items():
        amount = number(value) or 0.0
        if name == "TPU":
            plain = amount
        elif name.startswith("TPU_group_"):
            grouped = max(grouped, amount)
    return plain or grouped


def _actor_worker(
    ground: Ground, actor: RayActor, tasks: Sequence[RayTask], key_of_group: Mapping[str, str]
) -> Worker:
    state = actor.state or ""
    death, wanted, _ = _death(actor)
    slice_id, host_key = ground.host_of_node.get(actor.node_id or "", (None, None))
    starts = [start for task in tasks if (start := epoch_from_ms(task.start_time_ms)) is not None]
    ends = [
        end
        for task in tasks
        if task.state in ("FAILED", "FINISHED")
        and (end := epoch_from_ms(task.end_time_ms)) is not None
    ]
    failure = _last_failure(tasks) if state == "ALIVE" else None
    running = next((task for task in tasks if task.state in RUNNING_TASK_STATES), None)
    pid = number(actor.pid)
    return Worker(
        kind="actor",
        id=actor.actor_id or "",
        name=actor.name or actor.class_name or "",
        state=state,
        alive=state == "ALIVE",
        dead=state == "DEAD",
        finished=state == "DEAD" and wanted,
        node_id=actor.node_id or None,
        slice_id=slice_id,
        host_key=host_key,
        group_id=key_of_group.get(actor.placement_group_id or ""),
        bundle_index=_bundle_index(actor.required_resources),
        chips=_tpu_demand(actor.required_resources),
        job_id=actor.job_id or None,
        pid=int(pid) if pid is not None else None,
        since=min(starts, default=None),
        ended=max(ends, default=None) if state == "DEAD" else None,
        running_task=running.name if running is not None else None,
        death=death,
        on_purpose=wanted,
        failed_task=(failure.name or "") if failure is not None else None,
        failure=(failure.error_message or failure.error_type or "") if failure is not None else "",
        failed_at=epoch_from_ms(failure.end_time_ms) if failure is not None else None,
    )


def _last_failure(tasks: Sequence[RayTask]) -> RayTask | None:
    """The newest task of a living actor, where it failed and nothing was asked of it since."""
    if any(
        task.state in RUNNING_TASK_STATES or task.state in UNFINISHED_TASK_STATES for task in tasks
    ):
        return None
    newest = max(
        tasks,
        key=lambda task: (
            epoch_from_ms(task.end_time_ms) or epoch_from_ms(task.start_time_ms) or 0.0,
            task.task_id or "",
        ),
        default=None,
    )
    return newest if newest is not None and newest.state == "FAILED" else None


def _task_worker(ground: Ground, task: RayTask, key_of_group: Mapping[str, str]) -> Worker:
    state = task.state or ""
    slice_id, host_key = ground.host_of_node.get(task.node_id or "", (None, None))
    pid = number(task.worker_pid)
    return Worker(
        kind="task",
        id=task.task_id or "",
        name=task.name or "",
        state=state,
        alive=state in RUNNING_TASK_STATES,
        dead=state == "FAILED",
        finished=state == "FINISHED",
        node_id=task.node_id or None,
        slice_id=slice_id,
        host_key=host_key,
        group_id=key_of_group.get(task.placement_group_id or ""),
        bundle_index=_bundle_index(task.required_resources),
        chips=_tpu_demand(task.required_resources),
        job_id=task.job_id or None,
        pid=int(pid) if pid is not None else None,
        since=epoch_from_ms(task.start_time_ms),
        ended=epoch_from_ms(task.end_time_ms),
        death=(task.error_message or task.error_type or "") if state == "FAILED" else "",
    )


def build_workers(
    ground: Ground, ray: RayObservation, key_of_group: Mapping[str, str]
) -> tuple[Worker, ...]:
    """Every actor and lone task that takes TPUs or belongs to a live placement group.

    Tasks of actors are no workers of their own; they tell when their actor started, what it runs
    and when it failed. A task's earlier attempts give way to the newest one.
    """
    of_actor: dict[str, list[RayTask]] = defaultdict(list)
    lone: dict[str, RayTask] = {}
    for task in ray.tasks or ():
        if task.actor_id:
            of_actor[task.actor_id].append(task)
        elif task.placement_group_id in key_of_group or _tpu_demand(task.required_resources) > 0:
            before = lone.get(task.task_id or "")
            attempt = number(task.attempt_number) or 0
            if before is None or attempt >= (number(before.attempt_number) or 0):
                lone[task.task_id or ""] = task
    workers = [
        _actor_worker(ground, actor, of_actor.get(actor.actor_id or "", ()), key_of_group)
        for actor in ray.actors or ()
        if actor.placement_group_id in key_of_group or _tpu_demand(actor.required_resources) > 0
    ]
    workers += [_task_worker(ground, task, key_of_group) for task in lone.values()]
    workers.sort(key=lambda worker: (worker.kind, worker.id))
    return tuple(workers)


def group_key(namespace: str, cluster: str, group_id: str) -> str:
    """The key of a placement group, unique in a fleet."""
    return f"{namespace}/{cluster}/{group_id}"


def live_groups(ray: RayObservation) -> list[RayPlacementGroup]:
    """Groups that hold or want something; REMOVED ones do neither (facts/ray_2_60.md)."""
    seen: dict[str, RayPlacementGroup] = {}
    for raw in ray.placement_groups or ():
        if raw.placement_group_id and raw.state != "REMOVED":
            seen.setdefault(raw.placement_group_id, raw)
    return list(seen.values())


def build_group(
    ground: Ground, ray: RayObservation, raw: RayPlacementGroup, workers: Sequence[Worker]
) -> PlacementGroup:
    """One placement group with its bundles placed on hosts, and the workers that are given."""
    stats = raw.stats
    bundles = tuple(
        sorted(
            (_bundle(ground, bundle, place) for place, bundle in enumerate(raw.bundles or ())),
            key=lambda bundle: bundle.index,
        )
    )
    state = raw.state or ""
    waiting = state in ("PENDING", "PREPARED", "RESCHEDULING")
    requested = epoch_from_ns(stats.creation_request_received_ns) if stats else None
    latency = number(stats.end_to_end_creation_latency_us) if stats else None
    attempts = number(stats.scheduling_attempt) if stats else None
    waits_since = requested
    if state == "RESCHEDULING":
        # It was placed once: it waits since the host that it lost died.
        lost = [
            since
            for node_id, since in ground.dead_since.items()
            if since is not None
            and (requested is None or since >= requested)
            and node_id in _lost_nodes(ground, raw, bundles)
        ]
        waits_since = max(lost, default=requested)
    wanted = tuple(
        dict.fromkeys(
            bundle.selector[SLICE_NAME_LABEL]
            for bundle in bundles
            if bundle.selector.get(SLICE_NAME_LABEL)
        )
    )
    head = next((bundle.head_resource for bundle in bundles if bundle.head_resource), None)
    pod_type = next(
        (
            bundle.selector[POD_TYPE_LABEL]
            for bundle in bundles
            if POD_TYPE_LABEL in bundle.selector
        ),
        None,
    )
    if pod_type is None and head is not None:
        matched = HEAD_RESOURCE.match(head)
        pod_type = matched["pod_type"] if matched else None
    return PlacementGroup(
        key=group_key(ray.namespace, ray.cluster, raw.placement_group_id or ""),
        id=raw.placement_group_id or "",
        name=raw.name or "",
        namespace=ray.namespace,
        cluster=ray.cluster,
        state=state,
        scheduling_state=(stats.scheduling_state if stats else None) or "",
        attempts=int(attempts) if attempts is not None else None,
        role=_role(ground, bundles),
        bundles=bundles,
        slices=tuple(
            dict.fromkeys(bundle.slice_id for bundle in bundles if bundle.slice_id is not None)
        ),
        wanted_slices=wanted,
        wanted_pod_type=pod_type,
        chips=sum(bundle.chips for bundle in bundles),
        requested_at=requested,
        created_at=requested + latency / 1e6
        if requested is not None and latency is not None and latency > 0
        else None,
        pending_seconds=max(0.0, ground.now - waits_since)
        if waiting and waits_since is not None
        else None,
        job_id=raw.creator_job_id or None,
        detached=bool(raw.is_detached),
        workers=tuple(workers),
    )


def _lost_nodes(ground: Ground, raw: RayPlacementGroup, bundles: Sequence[Bundle]) -> set[str]:
    """Dead nodes that the group may have lost: those it still names, and those of its slices."""
    named = {bundle.node_id for bundle in bundles if bundle.node_id in ground.dead_since}
    wanted = {bundle.selector.get(SLICE_NAME_LABEL) for bundle in bundles} - {None}
    ids = {slice_id for name in wanted for slice_id in ground.slices_of_name.get(name or "", ())}
    ids |= {bundle.slice_id for bundle in bundles if bundle.slice_id}
    for slice_id in ids:
        item = ground.slices.get(slice_id)
        named |= {node.node_id for node in (item.history if item else ()) if node.node_id}
    return {node_id for node_id in named if node_id}
