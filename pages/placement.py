"""Placement groups: who holds what, where the bundles are, and why one waits."""

from __future__ import annotations

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.words import count, group_sentence
from fleet.model import Bundle, PlacementGroup
from fleet.times import format_duration
from pages import _cards, _memo, _parts
from pages._parts import ago, cell


def find(current: Snapshot, wanted: str) -> list[PlacementGroup]:
    """Groups that an address means: by key, by Ray's id, else by name."""
    groups = current.report.fleet.placement_groups
    exact = [group for group in groups if wanted in (group.key, group.id)]
    return exact or [group for group in groups if group.name == wanted]


def body(current: Snapshot) -> None:
    """The group of the address; all of them where it names none."""
    wanted = st.query_params.get("id", "")
    found = find(current, wanted) if wanted else []
    if len(found) == 1:
        _one(current, found[0])
        return
    if wanted and not found:
        _parts.sentence("No placement group has this id in the last look.", "headline")
        _parts.sentence(wanted)
        st.caption(
            "Ray forgets the demand of a group that was removed, also of one that gave up waiting."
        )
    elif wanted:
        _parts.sentence(f"{len(found):,} placement groups have this name.", "headline")
    else:
        _parts.sentence(_headline(current), "headline")
    groups = found or list(current.report.fleet.placement_groups)
    waiting = [group for group in groups if group.waiting]
    waiting.sort(key=lambda group: (-(group.pending_seconds or 0.0), group.key))
    st.subheader("Waiting")
    _table(current, waiting, "waiting", "No placement group waits.")
    st.subheader("Placed")
    placed = sorted((group for group in groups if not group.waiting), key=lambda group: group.key)
    _table(current, placed, "placed", "No placement group holds anything.")


def _headline(current: Snapshot) -> str:
    groups = current.report.fleet.placement_groups
    blind = [
        view.id
        for view in current.report.fleet.clusters
        if "placement_groups" not in view.ray_parts
    ]
    waiting = sum(group.waiting for group in groups)
    text = f"{count(len(groups), 'placement group')}, {waiting:,} waiting."
    if blind:
        return f"{text} Those of {', '.join(blind)} cannot all be seen."
    return text


def _reason(current: Snapshot, group: PlacementGroup) -> str:
    """Why it waits, in the words of the finding behind it, else in Ray's own."""
    found = _memo.findings_of(current, group)
    return found[0].summary if found else group_sentence(current.report, group)


def _table(current: Snapshot, groups: list[PlacementGroup], key: str, empty: str) -> None:
    shown = groups[: _parts.MOST_ROWS]
    rows = _memo.once(
        current,
        ("groups", key, len(groups), shown[0].key if shown else ""),
        lambda: [
            {
                "group": cell(group.label),
                "cluster": cell(f"{group.namespace}/{group.cluster}"),
                "role": group.role,
                "state": cell(group.state),
                "waits": format_duration(group.pending_seconds) if group.waiting else "–",
                "chips": group.chips,
                "slices": cell(", ".join(_slice_names(current, group.slices))),
                "what": cell(_reason(current, group)),
            }
            for group in shown
        ],
    )
    _parts.pick(
        rows,
        [{"id": group.key} for group in shown],
        key,
        "placement",
        empty=empty,
        total=len(groups),
        alt="Placement groups with role, state and slices",
    )


def _slice_names(current: Snapshot, ids: tuple[str, ...]) -> list[str]:
    names = _memo.slice_names(current)
    return [names.get(ident, ident) for ident in ids]


def _one(current: Snapshot, group: PlacementGroup) -> None:
    _parts.sentence(group_sentence(current.report, group), "headline")
    facts = [f"role {group.role}", f"state {group.state}", f"{group.chips:g} chips"]
    if group.job_id:
        facts.append(f"job {group.job_id}")
    if group.detached:
        facts.append("detached: it outlives its job")
    if group.wanted_slices:
        facts.append(f"asks for slice {', '.join(group.wanted_slices)}")
    facts.append(f"Ray cluster {group.namespace}/{group.cluster}")
    st.caption(_parts.escaped(" · ".join(facts)))
    found = _memo.findings_of(current, group)
    _cards.findings_section(current, found, "group", here=False)
    with st.container(horizontal=True, gap="medium"):
        if group.chips > 0:
            _parts.link("gang", "Rank by rank", id=group.key)
        if group.waiting:
            _parts.link("scheduling", "Why it waits, slice by slice", id=group.key)
        _parts.link("history", "Its history", subject=group.key)
        for ident in group.slices[:8]:
            name = _slice_names(current, (ident,))[0]
            _parts.link("slice", f"Slice {name}", id=ident)
    st.subheader("Bundles")
    _parts.table(
        [_bundle_row(current, group, bundle) for bundle in group.bundles],
        "bundles",
        empty="Ray lists no bundle of it.",
        alt="Bundles with their slice, host and what runs on them",
    )
    st.subheader("Actors and tasks")
    _workers(current, group)
    st.caption("Ray's id of the group")
    st.code(_parts.shown(group.id), language=None)
    _parts.link("placement", "All placement groups")


def _bundle_row(current: Snapshot, group: PlacementGroup, bundle: Bundle) -> dict[str, object]:
    item = current.report.fleet.slice(bundle.slice_id) if bundle.slice_id else None
    host = (
        next((host for host in item.hosts if host.key == bundle.host_key), None) if item else None
    )
    workers = [worker for worker in group.workers if worker.bundle_index == bundle.index]
    where = "waits for a host"
    if bundle.host_key:
        where = bundle.host_key
    elif bundle.node_id:
        where = "its host is gone"
    selector = ", ".join(f"{key}={value}" for key, value in sorted(bundle.selector.items()))
    return {
        "bundle": bundle.index,
        "slice": cell(item.name if item is not None else bundle.slice_id),
        "host": cell(where),
        "worker": host.worker_id if host is not None else None,
        "chips": bundle.chips,
        "runs": cell(", ".join(worker.name or worker.id for worker in workers)),
        "asks for": cell(selector or bundle.head_resource),
    }


def _workers(current: Snapshot, group: PlacementGroup) -> None:
    _parts.table(
        [
            {
                "name": cell(worker.name or worker.id),
                "kind": worker.kind,
                "state": cell(worker.state),
                "bundle": worker.bundle_index,
                "host": cell(worker.host_key),
                "runs": cell(worker.running_task),
                "for": ago(current, worker.since),
                "death": cell(worker.death),
            }
            for worker in group.workers
        ],
        "workers",
        empty="No actor or task runs in it.",
        alt="Actors and tasks of the group",
    )


_parts.page(body)
