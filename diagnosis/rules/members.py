"""Who works in a placement group, and where."""

from __future__ import annotations

from diagnosis.view import View, multi_host
from fleet.model import PlacementGroup, Worker


def worker_name(worker: Worker) -> str:
    """``actor rank-2``."""
    return f"{worker.kind} {worker.name or worker.id[:12]}"


def tpu_workers(group: PlacementGroup) -> list[Worker]:
    """The group's workers that take TPUs; all of them where none does (vLLM takes them by hand)."""
    taking = [worker for worker in group.workers if worker.chips > 0]
    return taking or list(group.workers)


def place_of(group: PlacementGroup, worker: Worker) -> str | None:
    """The host of a worker, by its bundle or by its node."""
    if worker.bundle_index is not None:
        for bundle in group.bundles:
            if bundle.index == worker.bundle_index and bundle.host_key is not None:
                return f"{bundle.slice_id}|{bundle.host_key}"
    if worker.host_key is not None:
        return f"{worker.slice_id}|{worker.host_key}"
    return None


def hosts_of(group: PlacementGroup) -> list[str]:
    """Hosts on which the group has TPUs."""
    return list(
        dict.fromkeys(
            f"{bundle.slice_id}|{bundle.host_key}"
            for bundle in group.bundles
            if bundle.chips > 0 and bundle.host_key is not None
        )
    )


def on_multi_host(view: View, group: PlacementGroup) -> bool:
    """Whether the group lies on a slice of several hosts."""
    return any(
        multi_host(item) for key in group.slices if (item := view.slices.get(key)) is not None
    )


def place_label(view: View, place: str) -> str:
    """A place (``<slice id>|<host key>``) for people."""
    slice_id, _, key = place.partition("|")
    item = view.slices.get(slice_id)
    host = next((h for h in item.hosts if h.key == key), None) if item else None
    if item is None or host is None:
        return key
    return f"{item.name} worker {host.worker_id}" if host.worker_id is not None else key
