"""Could I get N slices of this shape now, and what would have to end? Who holds what? Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from fleet.describe import ray_call
from fleet.fitting import Blocker, Fit, Fits, asks_for, same_shape
from fleet.model import PlacementGroup, Slice
from fleet.topology import Topology, pod_type_of

MOST = 64
"""Slices in one question: a job over more is planned by people, not by a page."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one Ray cluster; a job over several slices stays within one.

    ``free``: slices to be had now. ``ahead``: groups that wait for such slices already and come
    first. ``ends``: what would have to end, the cheapest first, and ``freed`` the slices that this
    gives. ``lacking``: slices still lacking then. ``broken``: slices that would count once mended.
    ``unknown``: slices that cannot be judged.
    """

    cluster: str
    wanted: int
    total: int
    free: tuple[Fit, ...] = ()
    ahead: tuple[PlacementGroup, ...] = ()
    ends: tuple[Blocker, ...] = ()
    freed: tuple[Fit, ...] = ()
    lacking: int = 0
    broken: tuple[Fit, ...] = ()
    forming: tuple[Fit, ...] = ()
    unknown: tuple[Fit, ...] = ()

    @property
    def now(self) -> bool:
        """Whether nothing has to end and nobody comes first."""
        return len(self.free) >= self.wanted + len(self.ahead)


def plan(fits: Fits, topology: Topology, wanted: int) -> list[Plan]:
    """The answers of all Ray clusters that have the shape, the easiest first.

    Args:
        fits: the indexed fleet.
        topology: the shape asked for.
        wanted: slices, 1 to :data:`MOST`.
    """
    wanted = max(1, min(wanted, MOST))
    found = []
    for cluster, slices in sorted(fits.by_cluster.items()):
        of_shape = [item for item in slices if is_of(item, topology)]
        if of_shape:
            found.append(_plan(fits, cluster, of_shape, wanted))
    return sorted(
        found, key=lambda item: (not item.now, item.lacking, len(item.ends), item.cluster)
    )


def is_of(item: Slice, topology: Topology) -> bool:
    """Whether a slice has this shape, hosts included (a 2x4 exists on one host and on two)."""
    if item.topology is not None:
        return (item.topology.generation, item.topology.name, item.topology.hosts) == (
            topology.generation,
            topology.name,
            topology.hosts,
        )
    # Chips alone do not tell 4x8 from 2x16: a name has to agree where one is known.
    return item.topology_name in (None, topology.name) and same_shape(
        item.pod_type, pod_type_of(topology.generation, topology.name)
    )


def _plan(fits: Fits, cluster: str, of_shape: list[Slice], wanted: int) -> Plan:
    every = [fits.fit(item) for item in of_shape]
    free = [fit for fit in every if fit.fits]
    ahead = _ahead(fits, cluster, of_shape)
    # Whoever waits for any slice of the shape takes one before a newcomer does.
    lacking = wanted - max(0, len(free) - len(ahead))
    ends: list[Blocker] = []
    freed: list[Fit] = []
    keys: set[str] = set()
    rest = [fit for fit in every if fit.blockers]
    while lacking > 0 and rest:
        best = min(rest, key=lambda fit: _cost(fit, keys))
        rest.remove(best)
        for blocker in best.blockers:
            if blocker.key not in keys:
                keys.add(blocker.key)
                ends.append(blocker)
        freed.append(best)
        lacking -= 1
    return Plan(
        cluster=cluster,
        wanted=wanted,
        total=len(every),
        free=tuple(free),
        ahead=tuple(ahead),
        ends=tuple(ends),
        freed=tuple(freed),
        lacking=max(0, lacking),
        broken=tuple(fit for fit in every if fit.state in ("not whole", "no head")),
        forming=tuple(fit for fit in every if fit.state == "forming"),
        unknown=tuple(fit for fit in every if fit.state == "unknown"),
    )


def _ahead(fits: Fits, cluster: str, of_shape: list[Slice]) -> list[PlacementGroup]:
    namespace, _, name = cluster.partition("/")
    return [
        group
        for group in fits.fleet.placement_groups
        if (group.namespace, group.cluster) == (namespace, name)
        and group.state in ("PENDING", "PREPARED")
        and not group.wanted_slices
        and group.wanted_pod_type
        and asks_for(group, of_shape[0])
    ]


def _cost(fit: Fit, ended: set[str]) -> tuple[int, int, float, float, str]:
    """What ending a slice's holders costs: busy ones first of all, then how many, then chips."""
    new = [item for item in fit.blockers if item.key not in ended]
    busy = sum(item.busy is not False and not item.leaked for item in new)
    chips = sum(item.chips for item in new)
    oldest = min((item.since for item in new if item.since is not None), default=0.0)
    return busy, len(new), chips, -oldest, fit.slice.id


def answer(found: Plan) -> str:
    """The answer in a sentence or two, for people."""
    several = found.wanted != 1
    slices = f"{found.wanted} slices" if several else "one slice"
    if found.now:
        return f"Yes: {len(found.free):,} of {found.total:,} are free now."
    parts = []
    if found.ahead:
        come = "come" if len(found.ahead) != 1 else "comes"
        groups = f"{len(found.ahead):,} placement group{'s' * (len(found.ahead) != 1)}"
        parts.append(f"{groups} already waiting {come} first.")
    if found.lacking and not found.ends:
        parts.append(_none(found))
    elif found.lacking:
        parts.append(
            f"Even if everything below ended, {found.lacking} of {slices} would still be lacking."
        )
    elif found.ends:
        names = ", ".join(item.label for item in found.ends[:3])
        more = f" and {len(found.ends) - 3:,} more" if len(found.ends) > 3 else ""
        free = f"{len(found.free):,} free" if found.free else "none free"
        parts.append(f"Not now ({free}). It would be had if {names}{more} ended.")
    if found.broken:
        parts.append(f"{len(found.broken):,} more would count once mended.")
    if found.forming:
        parts.append(f"{len(found.forming):,} forming.")
    if found.unknown:
        parts.append(f"{len(found.unknown):,} cannot be judged.")
    return " ".join(parts)


def _none(found: Plan) -> str:
    return (
        f"No: the cluster has {found.total:,} of that shape, {found.wanted} asked for, and nothing "
        "that ends would free another."
    )


def call(topology: Topology, wanted: int) -> str:
    """Python that reserves ``wanted`` slices of the shape in Ray, ready to paste."""
    base = ray_call(topology)
    if wanted > 1:
        base = f"{base[:-1]}, num_slices={wanted})"
    return (
        "import ray\nfrom ray.util.tpu import slice_placement_group\n\n"
        f"slices = {base}\n"
        "ray.get(slices.placement_group.ready())"
    )


# --- who holds what -------------------------------------------------------------------------

Activity = Literal["busy", "chips idle", "idle", "unknown"]

IDLE_BELOW = 0.01
"""Duty cycle (0 to 1) under which chips count as doing nothing, as in GangStalled."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds TPUs: a placement group, or a job's workers without one (``group`` is ``None``).

    ``activity``: ``busy`` (workers run), ``chips idle`` (workers run, chips do nothing), ``idle``
    (no worker runs), ``unknown``. ``duty_cycle``: mean over its hosts, 0 to 1. ``job_status`` as
    Ray says it. ``since``: epoch seconds.
    """

    key: str
    label: str
    namespace: str
    cluster: str
    role: str
    slices: tuple[Slice, ...] = ()
    chips: float = 0.0
    job_id: str | None = None
    job_status: str | None = None
    detached: bool = False
    since: float | None = None
    workers: int = 0
    activity: Activity = "unknown"
    duty_cycle: float | None = None
    group: PlacementGroup | None = None


def claims(fits: Fits) -> list[Claim]:
    """Who holds what, the largest first. A slice's head beside its own group is not told twice."""
    fleet = fits.fleet
    by_id = {item.id: item for item in fleet.slices}
    seen = {view.id: {"actors", "tasks"} <= view.ray_parts for view in fleet.clusters}
    found = []
    for group in fleet.placement_groups:
        on = tuple(by_id[key] for key in group.slices if key in by_id)
        if not on or (group.role == "head" and any(item.held_by for item in on)):
            continue
        alive = [worker for worker in group.workers if worker.alive]
        duty = _duty(fits, on, {bundle.host_key for bundle in group.bundles if bundle.host_key})
        sighted = seen.get(f"{group.namespace}/{group.cluster}", False)
        found.append(
            Claim(
                key=group.key,
                label=group.label,
                namespace=group.namespace,
                cluster=group.cluster,
                role=group.role,
                slices=on,
                chips=sum(bundle.chips for bundle in group.bundles if bundle.placed),
                job_id=group.job_id,
                job_status=_job_status(fits, group.namespace, group.cluster, group.job_id),
                detached=group.detached,
                since=group.created_at or group.requested_at,
                workers=len(alive),
                activity=_activity(len(alive), duty, sighted),
                duty_cycle=duty,
                group=group,
            )
        )
    found += _loose(fits)
    return sorted(found, key=lambda item: (-item.chips, item.key))


def _loose(fits: Fits) -> list[Claim]:
    """Jobs whose workers take TPUs without a placement group."""
    slices: dict[tuple[str, str, str], list[Slice]] = {}
    for item in fits.fleet.slices:
        for key in item.held_by:
            if key.startswith("job:"):
                slices.setdefault((item.namespace, item.cluster, key), []).append(item)
    found = []
    for (namespace, cluster, key), on in sorted(slices.items()):
        job = key.removeprefix("job:")
        workers = [
            worker
            for item in on
            for worker in item.workers
            if worker.group_id is None and (worker.job_id or "?") == job and worker.alive
        ]
        duty = _duty(fits, tuple(on), {worker.host_key for worker in workers if worker.host_key})
        starts = [worker.since for worker in workers if worker.since is not None]
        found.append(
            Claim(
                key=key,
                label=f"job {job} (no placement group)",
                namespace=namespace,
                cluster=cluster,
                role="workers",
                slices=tuple(on),
                chips=sum(worker.chips for worker in workers),
                job_id=None if job == "?" else job,
                job_status=_job_status(fits, namespace, cluster, job),
                since=min(starts, default=None),
                workers=len(workers),
                activity=_activity(len(workers), duty, True),
                duty_cycle=duty,
            )
        )
    return found


def _activity(workers: int, duty: float | None, sighted: bool) -> Activity:
    if workers:
        return "chips idle" if duty is not None and duty < IDLE_BELOW else "busy"
    return "idle" if sighted else "unknown"


def _duty(fits: Fits, on: tuple[Slice, ...], keys: set[str]) -> float | None:
    use = fits.fleet.tpu_use
    if not use:
        return None
    found = [
        sample.duty_cycle
        for item in on
        for host in item.hosts
        if host.key in keys
        and (sample := use.get(f"{item.namespace}/{item.cluster}/{host.ray_node_id}")) is not None
        and sample.duty_cycle is not None
    ]
    return sum(found) / len(found) if found else None


def _job_status(fits: Fits, namespace: str, cluster: str, job: str | None) -> str | None:
    return fits.fleet.job_status.get(f"{namespace}/{cluster}/{job}") if job else None
