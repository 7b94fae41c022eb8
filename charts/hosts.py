"""What a picture shows of each host of a slice: its place, its state, who holds it, its words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from charts.palette import HOST_SIGNS, StateKey
from charts.text import escape
from fleet.layout import contradicted, physical_blocks
from fleet.model import Fleet, Host, PlacementGroup, Slice, SliceStatusName, TpuUse, Worker
from fleet.places import inside
from fleet.times import format_duration, format_time
from fleet.topology import Coord, Topology, host_coordinates


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """One tile. ``host`` is None where the topology has a place and the slice no host for it.

    ``place`` in the host grid; ``index`` in ``slice.hosts`` (-1 without a host). ``groups`` and
    ``workers`` are those on this host; ``rank`` its bundle's number in the only group on it.
    """

    place: Coord
    index: int
    host: Host | None
    state: StateKey
    groups: tuple[PlacementGroup, ...] = ()
    workers: tuple[Worker, ...] = ()
    rank: int | None = None
    use: TpuUse | None = None

    @property
    def worker_id(self) -> int | None:
        return self.host.worker_id if self.host is not None else None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A slice laid out: ``bounds`` hosts along x, y, z, ``block`` chips of each, all tiles.

    ``spare`` tiles have no place of their own (their worker id is unknown, out of range, or
    claimed twice); they lie in rows below the grid, and ``places`` names all of both.
    ``topology`` is None when it is not known; then nothing is linked to anything.
    """

    topology: Topology | None
    bounds: Coord
    block: Coord
    tiles: tuple[HostView, ...]
    spare: tuple[HostView, ...] = ()
    words: str = ""


class Holders(msgspec.Struct, frozen=True, kw_only=True):
    """Who is on which host, over the whole fleet: made once, read for many slices."""

    groups: Mapping[tuple[str, str], tuple[tuple[PlacementGroup, int], ...]]

    @classmethod
    def of(cls, fleet: Fleet | None) -> Holders:
        """Index the placed bundles of a fleet by (slice id, host key)."""
        found: dict[tuple[str, str], list[tuple[PlacementGroup, int]]] = {}
        for group in fleet.placement_groups if fleet is not None else ():
            for bundle in group.bundles:
                # A head reservation takes no chips: it does not hold the host.
                if bundle.slice_id is not None and bundle.host_key is not None and bundle.chips > 0:
                    found.setdefault((bundle.slice_id, bundle.host_key), []).append(
                        (group, bundle.index)
                    )
        return cls(groups={key: tuple(items) for key, items in found.items()})


def plan(
    slice_: Slice,
    status: SliceStatusName,
    *,
    fleet: Fleet | None = None,
    holders: Holders | None = None,
) -> Plan:
    """Lay a slice out: every place of its topology once, filled or not, and what has no place."""
    holders = holders if holders is not None else Holders.of(fleet)
    workers: dict[str | None, list[Worker]] = {}
    for worker in slice_.workers:
        workers.setdefault(worker.host_key, []).append(worker)
    views = [
        _view(slice_, status, index, host, fleet, holders, tuple(workers.get(host.key, ())))
        for index, host in enumerate(slice_.hosts)
    ]
    topology = slice_.topology
    if topology is None:
        return _without_topology(views)
    filled: dict[Coord, HostView] = {}
    spare: list[HostView] = []
    # A host that is there has a better right to a place than one that is only missing from it.
    for view in sorted(views, key=lambda item: item.state in ("incomplete", "forming")):
        place = view.host.coordinates if view.host is not None else None
        if place is None or not inside(topology, place):
            spare.append(view)
        elif place in filled:
            if view.state not in ("incomplete", "forming"):
                spare.append(view)
        else:
            filled[place] = msgspec.structs.replace(view, place=place)
    nobody: StateKey = "unknown" if status == "unknown" or slice_.blind else "incomplete"
    if slice_.forming:
        nobody = "forming"
    tiles = []
    for position in range(topology.hosts):
        at = host_coordinates(topology, position)
        if at is not None:
            empty = HostView(place=at, index=-1, host=None, state=nobody)
            tiles.append(filled.get(at, empty))
    return Plan(
        topology=topology,
        bounds=topology.host_bounds,
        block=topology.chips_per_host_bounds,
        tiles=tuple(tiles),
        spare=tuple(sorted(spare, key=lambda view: view.index)),
        words=layout_words(slice_, topology, tiles),
    )


def _without_topology(views: list[HostView]) -> Plan:
    chips = max((view.host.chips or 1 for view in views if view.host is not None), default=1)
    block = {4: (2, 2, 1), 8: (2, 4, 1)}.get(chips, (1, 1, 1))
    across = max(1, math.ceil(math.sqrt(len(views))))
    down = max(1, math.ceil(len(views) / across))
    tiles = tuple(
        msgspec.structs.replace(view, place=(at % across, at // across, 0))
        for at, view in enumerate(views)
    )
    return Plan(
        topology=None,
        bounds=(across, down, 1),
        block=block,
        tiles=tiles,
        words="Topology not known: hosts stand in order, not in place, and no links are drawn.",
    )


def state_of(host: Host, slice_: Slice, status: SliceStatusName, busy: bool, held: int) -> StateKey:
    """The state of one host: what is wrong with it, else what it does."""
    if host.state == "missing":
        if status == "unknown" or slice_.blind:
            return "unknown"
        return "forming" if slice_.forming and not host.was_there else "incomplete"
    if host.state == "not_ready":
        return "forming" if slice_.forming and not host.was_there else "broken"
    if host.duplicate:
        return "broken"
    if status == "unknown":
        return "unknown"
    if held > 1:
        return "shared"
    if busy:
        return "running"
    if held:
        return "reserved"
    return "unknown" if slice_.holding == "unknown" else "idle"


def _view(
    slice_: Slice,
    status: SliceStatusName,
    index: int,
    host: Host,
    fleet: Fleet | None,
    holders: Holders,
    workers: tuple[Worker, ...],
) -> HostView:
    placed = holders.groups.get((slice_.id, host.key), ())
    groups: dict[str, PlacementGroup] = {group.key: group for group, _ in placed}
    use = None
    if fleet is not None and host.ray_node_id is not None:
        use = fleet.tpu_use.get(f"{slice_.namespace}/{slice_.cluster}/{host.ray_node_id}")
    ranks = {bundle for _, bundle in placed}
    return HostView(
        place=(0, 0, 0),
        index=index,
        host=host,
        state=state_of(host, slice_, status, any(w.alive for w in workers), len(groups)),
        groups=tuple(groups.values()),
        workers=workers,
        rank=ranks.pop() if len(ranks) == 1 else None,
        use=use,
    )


def layout_words(slice_: Slice, topology: Topology, tiles: Iterable[HostView]) -> str:
    """Where the places come from, as a sentence for the picture."""
    hosts = [view.host for view in tiles if view.host is not None]
    measured = sum(host.layout == "measured" for host in hosts)
    if topology.hosts == 1:
        return "One host: its chips are in place."
    if hosts and measured == len(hosts):
        return "Layout measured: places come from the hosts' sub-slice labels."
    if measured:
        return f"Layout partly measured: {measured} of {len(hosts)} places; the rest is assumed."
    words = "Layout assumed from worker ids: real places may differ."
    places = {host.key: host.coordinates for host in hosts if host.coordinates is not None}
    blocks = physical_blocks({host.key: _labels(host) for host in hosts})
    if (wrong := contradicted(topology, places, blocks)) is not None:
        words = (
            f"Layout assumed from worker ids, and wrong: GKE's {wrong} block ids put hosts "
            "together that it draws apart."
        )
    elif blocks:
        words += " GKE's block ids do not contradict it."
    return words


def _labels(host: Host) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    if host.node is not None and host.node.metadata is not None:
        found.update(host.node.metadata.labels or {})
    if host.ray_node is not None:
        found.update(host.ray_node.labels or {})
    return found


# --- words ----------------------------------------------------------------------------------


def percent(ratio: float | None) -> str:
    """A ratio as a whole percentage; ``?`` when not known."""
    return "?" if ratio is None else f"{100 * ratio:.0f} %"


def hover(view: HostView, plan_: Plan, fleet: Fleet | None) -> str:
    """Everything known of a host as Plotly's HTML, every name escaped."""
    host = view.host
    sign = HOST_SIGNS[view.state]
    at = ",".join(str(n) for n in view.place[: 3 if plan_.bounds[2] > 1 else 2])
    if host is None:
        return f"<b>no host</b> at {at}: {sign.word}"
    name = "?" if host.worker_id is None else str(host.worker_id)
    lines = [f"<b>worker {name}</b> · {sign.word} · {host.layout} place {at}"]
    if host.problem:
        detail = f": {escape(host.problem_detail)}" if host.problem_detail else ""
        lines.append(f"{host.problem}{detail}")
    if host.duplicate:
        lines.append("another live host claims the same worker id or hostname")
    fields = [
        ("pod", host.pod_name and escape(host.pod_name)),
        ("node", host.node_name and escape(host.node_name)),
        ("node pool", host.node_pool and escape(host.node_pool)),
        ("Ray node", host.ray_node_id and escape(host.ray_node_id, 13)),
        ("chips", None if host.chips is None else f"{host.chips}"),
        ("head resource", "offered here" if host.offers_head else None),
        ("group", ", ".join(escape(group.label, 40) for group in view.groups[:3]) or None),
        ("bundle", None if view.rank is None else f"{view.rank}"),
        ("workers", _worker_words(view.workers)),
        ("duty cycle", None if view.use is None else percent(view.use.duty_cycle)),
        ("HBM", None if view.use is None else _memory(view.use)),
        ("age", _age(host, fleet)),
        ("gone since", format_time(host.gone_since)),
    ]
    lines += [f"{label} {value}" for label, value in fields if value]
    return "<br>".join(lines)


def _worker_words(workers: tuple[Worker, ...]) -> str | None:
    if not workers:
        return None
    names = [
        escape(f"{worker.name or worker.kind} {worker.state}".strip(), 40) for worker in workers
    ]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _memory(use: TpuUse) -> str | None:
    if use.memory_used_bytes is None or not use.memory_total_bytes:
        return None
    gib = 1024.0**3
    return f"{use.memory_used_bytes / gib:.1f} of {use.memory_total_bytes / gib:.0f} GiB a chip"


def _age(host: Host, fleet: Fleet | None) -> str | None:
    if fleet is None or host.age_since is None:
        return None
    return format_duration(fleet.now - host.age_since)
