"""A placement group as a gang: rank by rank, where it sits, what runs there, what is missing. Pure.

A rank is a bundle that asks for TPUs, by its number in the group: ``slice_placement_group`` makes
one a host, in that order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import msgspec

from fleet.model import Bundle, Fleet, Host, PlacementGroup, Slice, TpuUse, Worker

RankState = Literal["running", "starting", "no worker", "died", "finished", "host gone", "waiting"]
"""``running``: an actor or task runs there. ``starting``: there is one, it does not run yet.
``no worker``: placed on a live host, and nothing runs. ``died``: what ran there is dead.
``finished``: it ended by itself. ``host gone``: placed once, and the host is gone. ``waiting``:
not placed."""

WORST_FIRST: tuple[RankState, ...] = (
    "died", "host gone", "waiting", "no worker", "starting", "finished", "running",
)  # fmt: skip


SAYS: dict[RankState, tuple[str, str]] = {
    "died": ("died", "died"),
    "host gone": ("lost its host", "lost their hosts"),
    "waiting": ("waits for a host", "wait for hosts"),
    "no worker": ("has a host and no actor or task", "have hosts and no actor or task"),
    "starting": ("is starting", "are starting"),
    "finished": ("has finished", "have finished"),
    "running": ("runs", "run"),
}
"""What one rank does, and several."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank. ``others`` counts further workers in the same bundle; ``since`` epoch seconds."""

    index: int
    state: RankState
    bundle: Bundle
    slice: Slice | None = None
    host: Host | None = None
    worker: Worker | None = None
    others: int = 0
    use: TpuUse | None = None

    @property
    def since(self) -> float | None:
        if self.worker is None:
            return None
        return self.worker.ended if self.state == "died" else self.worker.since


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """All ranks of a group. ``loose``: workers of the group that cannot be put to one rank.

    ``unused``: hosts of its slices on which it has no bundle. ``slices``: those it lies on.
    """

    group: PlacementGroup
    ranks: tuple[Rank, ...]
    slices: tuple[Slice, ...]
    loose: tuple[Worker, ...] = ()
    unused: tuple[tuple[Slice, Host], ...] = ()

    def of_state(self, state: RankState) -> list[Rank]:
        return [rank for rank in self.ranks if rank.state == state]


def gang_of(fleet: Fleet, group: PlacementGroup) -> Gang:
    """The gang that runs, or should, in a placement group."""
    slices = {item.id: item for item in fleet.slices if item.id in group.slices}
    hosts = {(item.id, host.key): host for item in slices.values() for host in item.hosts}
    bundles = [item for item in group.bundles if item.chips > 0] or list(group.bundles)
    by_bundle, loose = _workers(group, bundles)
    ranks = []
    for bundle in bundles:
        own = sorted(by_bundle.get(bundle.index, ()), key=_better)
        item = slices.get(bundle.slice_id or "")
        host = hosts.get((bundle.slice_id or "", bundle.host_key or ""))
        use = None
        if item is not None and host is not None and host.ray_node_id:
            use = fleet.tpu_use.get(f"{item.namespace}/{item.cluster}/{host.ray_node_id}")
        ranks.append(
            Rank(
                index=bundle.index,
                state=_state(group, bundle, own),
                bundle=bundle,
                slice=item,
                host=host,
                worker=own[0] if own else None,
                others=max(0, len(own) - 1),
                use=use,
            )
        )
    taken = {(bundle.slice_id, bundle.host_key) for bundle in group.bundles}
    return Gang(
        group=group,
        ranks=tuple(ranks),
        slices=tuple(slices[key] for key in group.slices if key in slices),
        loose=tuple(loose),
        unused=tuple(
            (item, host)
            for item in slices.values()
            for host in item.hosts
            if (item.id, host.key) not in taken
        ),
    )


def _workers(
    group: PlacementGroup, bundles: list[Bundle]
) -> tuple[dict[int, list[Worker]], list[Worker]]:
    """Workers by bundle: by the number that Ray wrote, else by the only bundle on their host."""
    numbers = {bundle.index for bundle in bundles}
    on_host: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for bundle in bundles:
        if bundle.host_key is not None:
            on_host[bundle.slice_id, bundle.host_key].append(bundle.index)
    found: dict[int, list[Worker]] = defaultdict(list)
    loose = []
    for worker in group.workers:
        index = worker.bundle_index
        if index is None and worker.host_key is not None:
            there = on_host.get((worker.slice_id, worker.host_key), [])
            index = there[0] if len(there) == 1 else None
        if index in numbers and index is not None:
            found[index].append(worker)
        else:
            loose.append(worker)
    return found, loose


def _better(worker: Worker) -> tuple[bool, bool, float]:
    """The worker that stands for a rank: a live one, else the newest."""
    return (not worker.alive, worker.finished, -(worker.since or 0.0))


def _state(group: PlacementGroup, bundle: Bundle, own: list[Worker]) -> RankState:
    if not bundle.placed:
        # Ray takes the node out of a bundle that it has to place anew.
        lost = bundle.node_id or group.state == "RESCHEDULING"
        return "host gone" if lost else "waiting"
    if not own:
        return "no worker"
    worker = own[0]
    if worker.alive:
        return "running"
    if worker.finished or worker.on_purpose:
        return "finished"
    return "died" if worker.dead else "starting"


def gang_words(gang: Gang) -> list[str]:
    """What is missing and whether it spans slices, in sentences, the worst first."""
    total = len(gang.ranks)
    running = len(gang.of_state("running"))
    lines = [
        f"{running:,} of {total:,} rank{'s' * (total != 1)} {'runs' if total == 1 else 'run'}."
    ]
    for state in WORST_FIRST[:-1]:
        found = gang.of_state(state)
        if found:
            lines.append(f"{_ranks(found)} {SAYS[state][len(found) != 1]}.")
    lines.append(_spans(gang))
    if gang.unused and gang.slices:
        noun = "host" if len(gang.unused) == 1 else "hosts"
        names = ", ".join(
            f"{item.name} worker {'?' if host.worker_id is None else host.worker_id}"
            for item, host in gang.unused[:4]
        )
        more = f" and {len(gang.unused) - 4:,} more" if len(gang.unused) > 4 else ""
        lines.append(f"Not in it: {len(gang.unused):,} {noun} of its slices ({names}{more}).")
    if gang.loose:
        lines.append(f"{len(gang.loose):,} of its workers cannot be put to one rank.")
    return lines


def _ranks(found: list[Rank]) -> str:
    numbers = ", ".join(str(rank.index) for rank in found[:6])
    more = f" and {len(found) - 6:,} more" if len(found) > 6 else ""
    return f"Rank{'s' * (len(found) != 1)} {numbers}{more}"


def _spans(gang: Gang) -> str:
    names = ", ".join(item.name for item in gang.slices[:4])
    more = f" and {len(gang.slices) - 4:,} more" if len(gang.slices) > 4 else ""
    if not gang.slices:
        return "It lies on no slice that can be seen."
    if len(gang.slices) == 1:
        return f"It lies on one slice, {names}."
    used: dict[str, int] = defaultdict(int)
    for rank in gang.ranks:
        if rank.slice is not None:
            used[rank.slice.id] += 1
    whole = all(
        item.hosts_expected is not None and used[item.id] >= item.hosts_expected
        for item in gang.slices
    )
    how = "each filled: a multislice job" if whole else "not each filled: no ICI joins them"
    return f"It spans {len(gang.slices):,} slices ({names}{more}), {how}."
