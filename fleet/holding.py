"""Who holds a slice's chips: placement groups, or workers that take TPUs without one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from fleet.groups import Ground, tpu_capacity
from fleet.model import Holding, PlacementGroup, Slice, Worker


def hold(
    ground: Ground,
    groups: Sequence[PlacementGroup],
    loose: Iterable[Worker],
    *,
    unseen: tuple[str, ...],
) -> tuple[Slice, ...]:
    """The slices of one cluster with their holders.

    Args:
        ground: the cluster's slices.
        groups: its live placement groups.
        loose: its workers that take TPUs outside any placement group.
        unseen: sentences on what of Ray's groups and workers was not answered in full. They make
            a slice blind unless what was seen already shows a group that holds it as a whole with
            a worker on every host: rows that are missing cannot take that back.
    """
    chips: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    heads: dict[str, list[str]] = defaultdict(list)
    workers: dict[str, list[Worker]] = defaultdict(list)
    for group in groups:
        for bundle in group.bundles:
            if bundle.slice_id is None:
                continue
            if bundle.chips > 0:
                chips[bundle.slice_id][group.key] += bundle.chips
            if bundle.head_resource and group.state == "CREATED":
                heads[bundle.slice_id].append(group.key)
        for worker in group.workers:
            if worker.alive and worker.slice_id is not None:
                workers[worker.slice_id].append(worker)
    for worker in loose:
        if worker.alive and worker.slice_id is not None and worker.chips > 0:
            # One job without a group counts as one holder: its ranks are one gang.
            chips[worker.slice_id][f"job:{worker.job_id or '?'}"] += worker.chips
            workers[worker.slice_id].append(worker)
    return tuple(
        _held(ground, item, chips[item.id], heads[item.id], workers[item.id], unseen)
        for item in ground.slices.values()
    )


def _held(
    ground: Ground,
    item: Slice,
    chips: dict[str, float],
    heads: Sequence[str],
    workers: Sequence[Worker],
    unseen: tuple[str, ...],
) -> Slice:
    capacity = tpu_capacity(ground, item.id)
    holding: Holding
    if not chips:
        holding = "unknown" if unseen else "free"
    elif len(chips) > 1:
        holding = "several"
    elif capacity is not None and next(iter(chips.values())) >= capacity:
        holding = "whole"
    else:
        holding = "part"
    blind = item.blind
    covered = {worker.host_key for worker in workers}
    certain = holding == "whole" and all(
        host.key in covered for host in item.hosts if host.state == "ready"
    )
    if unseen and not certain:
        blind += unseen
    return msgspec.structs.replace(
        item,
        held_by=tuple(sorted(chips)),
        head_held_by=tuple(dict.fromkeys(heads)),
        holding=holding,
        workers=tuple(workers),
        blind=blind,
    )
