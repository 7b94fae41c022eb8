"""One slice: what it is up to, what is wrong with it, its ICI grid, hosts, groups and events."""

from __future__ import annotations

import streamlit as st

from charts.hosts import Holders
from diagnosis.snapshot import Snapshot
from exporter.handover import slice_text
from exporter.links import expand
from exporter.words import (
    findings_about_slice,
    group_sentence,
    host_trouble,
    shape,
    slice_sentence,
)
from fleet.model import Host, PlacementGroup, Slice, Worker
from pages import _cards, _events, _handover, _memo, _parts, _pictures, _slices, _state
from pages._parts import ago, cell, moment, time_column


def body(current: Snapshot) -> None:
    """The slice of the address; all of them where it names none."""
    report = current.report
    wanted = st.query_params.get("id", "")
    item = report.fleet.slice(wanted) if wanted else None
    if item is None:
        _choose(current, wanted)
        return
    _parts.sentence(slice_sentence(report, item), "headline")
    st.caption(_facts(item))
    _handover.bar(
        current,
        lambda url: slice_text(report, item, url),
        f"slice-{item.name}",
        values=_values(item),
        subject=item.id,
    )
    _cards.findings_section(current, findings_about_slice(report, item), "slice")
    _pictures.grid(current, item)
    st.subheader("Hosts")
    _hosts(current, item)
    st.subheader("Placement groups on it")
    _groups(current, item)
    st.subheader("Kubernetes events")
    _events.events_table(current, _objects(item), "slice")
    _parts.link("slice", "All slices")


def _choose(current: Snapshot, wanted: str) -> None:
    report = current.report
    if wanted:
        _parts.sentence("No slice has this id in the last look.", "headline")
        _parts.sentence(wanted)
        st.caption("It may have been deleted, or its cluster cannot be seen: look at Sources.")
    else:
        total = len(report.fleet.slices)
        _parts.sentence(f"{total:,} slices." if total != 1 else "One slice.", "headline")
    _slices.slices_table(current, "choose")


def _facts(item: Slice) -> str:
    facts = [f"{shape(item)}"]
    if item.chips_expected is not None:
        facts.append(f"{item.chips_expected:,} chips")
    if item.group:
        facts.append(f"worker group {item.group}")
    facts.append(f"Ray cluster {item.namespace}/{item.cluster}")
    pools = ", ".join(item.node_pools)
    if pools:
        facts.append(f"node pool {pools}")
    return _parts.escaped(" · ".join(facts))


def _values(item: Slice) -> dict[str, str | None]:
    """What the templates of links out may name."""
    first = next((host for host in item.hosts if host.pod_name), None)
    return {
        "namespace": item.namespace if item.namespace != "-" else None,
        "cluster": item.cluster,
        "slice": item.name,
        "pod": first.pod_name if first is not None else None,
        "node": first.node_name if first is not None else None,
        "node_pool": item.node_pools[0] if item.node_pools else None,
    }


def _hosts(current: Snapshot, item: Slice) -> None:
    console = _state.serving().links.get("Console")
    rows = _memo.once(
        current, ("hosts", item.id, str(_parts.zone())), lambda: _host_rows(current, item, console)
    )
    config = {
        "duty cycle": st.column_config.NumberColumn("duty cycle", format="%.1f %%"),
        "up since": time_column("up since"),
    }
    if console:
        config["console"] = st.column_config.LinkColumn("console", display_text="open")
    _parts.table(
        rows,
        "hosts",
        empty="No host of this slice can be seen.",
        config=config,
        alt="Hosts of the slice with their state, pod, node, place and what runs there",
        most=2500,
    )


def _host_rows(current: Snapshot, item: Slice, console: str | None) -> list[dict[str, object]]:
    fleet = current.report.fleet
    holders = Holders.of(fleet)
    workers: dict[str | None, list[Worker]] = {}
    for worker in item.workers:
        workers.setdefault(worker.host_key, []).append(worker)
    rows = []
    for host in item.hosts:
        sample = fleet.tpu_use.get(f"{item.namespace}/{item.cluster}/{host.ray_node_id}")
        duty = sample.duty_cycle if sample is not None else None
        own = workers.get(host.key, [])
        ranks = {rank for _, rank in holders.groups.get((item.id, host.key), ())}
        row: dict[str, object] = {
            "worker": host.worker_id,
            "state": host.state.replace("_", " "),
            "why": cell(host.problem_detail or host_trouble(host)),
            "rank": cell(", ".join(str(rank) for rank in sorted(ranks))),
            "runs": cell(", ".join(one.name or one.running_task or one.id for one in own[:3])),
            "duty cycle": None if duty is None else round(100 * duty, 1),
            "restarts": restarts(host),
            "age": ago(current, host.age_since),
            "up since": moment(host.age_since),
            "pod": cell(host.pod_name),
            "node": cell(host.node_name),
            "node pool": cell(host.node_pool),
            "Ray node": cell(host.ray_node_id),
            "chips": host.chips,
            "place": cell(host.coordinates and ", ".join(map(str, host.coordinates))),
            "layout": host.layout if host.coordinates is not None else "–",
        }
        if console:
            values = _values(item) | {"pod": host.pod_name, "node": host.node_name}
            row["console"] = expand(console, values | {"node_pool": host.node_pool})
        rows.append(row)
    return rows


def restarts(host: Host) -> int | None:
    """Restarts of all containers of a host's pod; ``None`` where its pod cannot be seen."""
    status = host.pod.status if host.pod is not None else None
    if status is None or status.container_statuses is None:
        return None
    return sum(item.restart_count or 0 for item in status.container_statuses)


def _groups(current: Snapshot, item: Slice) -> None:
    report = current.report
    groups = [
        group
        for group in report.fleet.placement_groups
        if item.id in group.slices
        or group.key in item.held_by
        or group.key in item.head_held_by
        or (
            item.name in group.wanted_slices
            and (group.namespace, group.cluster) == (item.namespace, item.cluster)
        )
    ]
    _parts.pick(
        [_group_row(report.fleet.now, current, group) for group in groups],
        [{"id": group.key} for group in groups],
        "groups",
        "placement",
        empty="No placement group holds it or waits for it.",
        alt="Placement groups that hold this slice or wait for it",
    )


def _group_row(now: float, current: Snapshot, group: PlacementGroup) -> dict[str, object]:
    return {
        "group": cell(group.label),
        "role": group.role,
        "state": cell(group.state),
        "what": cell(group_sentence(current.report, group)),
    }


def _objects(item: Slice) -> list[tuple[str, str, str]]:
    """Kubernetes objects whose events tell of this slice: its pods and nodes."""
    found = []
    for host in item.hosts:
        if host.pod_name:
            found.append(("Pod", item.namespace, host.pod_name))
        if host.node_name:
            found += [("Node", "", host.node_name), ("Node", "default", host.node_name)]
    return found


_parts.page(body)
