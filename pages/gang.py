"""A placement group rank by rank: where each sits, what runs there, what is missing."""

from __future__ import annotations

import streamlit as st

from charts.gangs import SIGNS, gang_figure
from diagnosis.snapshot import Snapshot
from exporter.words import group_sentence
from fleet.gangs import WORST_FIRST, Gang, Rank, gang_of, gang_words
from fleet.model import PlacementGroup
from pages import _cards, _memo, _parts, _pictures
from pages._parts import ago, cell, moment, time_column


def body(current: Snapshot) -> None:
    """The gang of the address."""
    wanted = st.query_params.get("id", "")
    groups = current.report.fleet.placement_groups
    found = [group for group in groups if wanted in (group.key, group.id)] or [
        group for group in groups if wanted and group.name == wanted
    ]
    if len(found) != 1:
        _choose(current, wanted, found)
        return
    group = found[0]
    gang = _memo.once(current, ("gang", group.key), lambda: gang_of(current.report.fleet, group))
    lines = gang_words(gang)
    _parts.sentence(f"{group.label}: {lines[0]}", "headline")
    _parts.sentence(" ".join(lines[1:]))
    findings = _memo.findings_of(current, group)
    for number, finding in enumerate(findings[:3]):
        _cards.finding_card(current, finding, f"gang-{number}", folded=number > 0)
    _matrix(current, gang)
    st.subheader("Ranks")
    _ranks(current, gang)
    if gang.loose:
        st.subheader("Workers of no one rank")
        _parts.table(
            [
                {
                    "name": cell(worker.name or worker.id),
                    "kind": worker.kind,
                    "state": cell(worker.state),
                    "host": cell(worker.host_key),
                    "for": ago(current, worker.since),
                }
                for worker in gang.loose
            ],
            "loose",
            empty="",
            alt="Workers that cannot be put to one rank",
        )
    with st.container(horizontal=True, gap="medium"):
        _parts.link("placement", f"Placement group {group.label}", id=group.key)
        for item in gang.slices[:6]:
            _parts.link("slice", f"Slice {item.name}", id=item.id)


def _choose(current: Snapshot, wanted: str, found: list[PlacementGroup]) -> None:
    if wanted and not found:
        _parts.sentence("No placement group has this id in the last look.", "headline")
        _parts.sentence(wanted)
    else:
        _parts.sentence("Which gang?", "headline")
    groups = found or [group for group in current.report.fleet.placement_groups if group.chips > 0]
    _parts.pick(
        [
            {
                "group": cell(group.label),
                "cluster": cell(f"{group.namespace}/{group.cluster}"),
                "what": cell(group_sentence(current.report, group)),
            }
            for group in groups[: _parts.MOST_ROWS]
        ],
        [{"id": group.key} for group in groups[: _parts.MOST_ROWS]],
        "gangs",
        "gang",
        empty="No placement group asks for TPUs.",
        alt="Placement groups that ask for TPUs",
        total=len(groups),
    )


def _matrix(current: Snapshot, gang: Gang) -> None:
    if not gang.ranks:
        st.caption("Ray lists no bundle of it.")
        return
    ground, width = _pictures.dark(), _pictures.room()
    figure = _memo.once(
        current,
        ("gang-figure", gang.group.key, ground, width),
        lambda: gang_figure(gang, dark=ground, width=width),
    )
    st.caption("A row a slice, a column a worker id; the number in a tile is the rank.")
    st.plotly_chart(
        figure,
        width="content",
        theme=None,
        key="gang",
        config=_pictures.CONFIG,
        alt="Ranks of the gang by slice and worker id; the table below has the same",
    )


def _ranks(current: Snapshot, gang: Gang) -> None:
    ranks = sorted(gang.ranks, key=lambda rank: (WORST_FIRST.index(rank.state), rank.index))
    _parts.table(
        [_row(current, rank) for rank in ranks],
        "ranks",
        empty="It has no rank.",
        config={
            "since": time_column("since"),
            "duty cycle": st.column_config.NumberColumn("duty cycle", format="%.1f %%"),
        },
        alt="Ranks with their host, worker id, actor or task, state and duty cycle",
        most=2000,
    )


def _row(current: Snapshot, rank: Rank) -> dict[str, object]:
    host, worker = rank.host, rank.worker
    duty = rank.use.duty_cycle if rank.use is not None else None
    return {
        "rank": rank.index,
        "is": SIGNS[rank.state].word,
        "slice": cell(rank.slice.name if rank.slice is not None else rank.bundle.slice_id),
        "worker id": host.worker_id if host is not None else None,
        "place": cell(host and host.coordinates and ", ".join(map(str, host.coordinates))),
        "pod": cell(host.pod_name if host is not None else rank.bundle.host_key),
        "node": cell(host.node_name if host is not None else None),
        "actor or task": cell(worker and (worker.name or worker.id)),
        "state": cell(worker and worker.state),
        "runs": cell(worker and worker.running_task),
        "for": ago(current, rank.since),
        "since": moment(rank.since),
        "duty cycle": None if duty is None else round(100 * duty, 1),
        "chips": rank.bundle.chips,
        "told": cell(worker and (worker.death or worker.failure), 500),
    }


_parts.page(body)
