"""One slice: what it is up to, what is wrong with it, its ICI grid, hosts, groups and events."""

from __future__ import annotations

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.words import (
    findings_about_slice,
    group_sentence,
    host_trouble,
    ordered,
    shape,
    slice_sentence,
)
from fleet.model import PlacementGroup, Slice
from pages import _cards, _events, _parts, _pictures, _slices
from pages._parts import ago, cell


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
    _slices.slices_table(current, ordered(report, report.fleet.slices), "choose")


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


def _hosts(current: Snapshot, item: Slice) -> None:
    use = current.report.fleet.tpu_use
    ranks = {worker.host_key: worker for worker in item.workers if worker.host_key is not None}
    rows = []
    for host in item.hosts:
        worker = ranks.get(host.key)
        sample = use.get(f"{item.namespace}/{item.cluster}/{host.ray_node_id}")
        duty = sample.duty_cycle if sample is not None else None
        rows.append(
            {
                "worker": host.worker_id,
                "state": host.state.replace("_", " "),
                "why": cell(host.problem_detail or host_trouble(host)),
                "age": ago(current, host.age_since),
                "pod": cell(host.pod_name),
                "node": cell(host.node_name),
                "node pool": cell(host.node_pool),
                "Ray node": cell(host.ray_node_id),
                "chips": host.chips,
                "place": cell(host.coordinates and ", ".join(map(str, host.coordinates))),
                "runs": cell(worker and (worker.name or worker.running_task or worker.id)),
                "duty cycle": None if duty is None else round(100 * duty, 1),
            }
        )
    _parts.table(
        rows,
        "hosts",
        empty="No host of this slice can be seen.",
        config={"duty cycle": st.column_config.NumberColumn("duty cycle", format="%.1f %%")},
        alt="Hosts of the slice with their state, pod, node and place",
    )


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
