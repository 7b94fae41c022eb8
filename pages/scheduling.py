"""Why does my job wait, who holds what, and could I get slices now?"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.words import count
from fleet.describe import describe
from fleet.fitting import Blocker, Fit, asked, summary
from fleet.model import PlacementGroup
from fleet.observation import RayJob
from fleet.planning import MOST, Claim, Plan, answer, call, claims, plan
from fleet.times import format_duration
from fleet.topology import Topology, TopologyError, parse_topology
from pages import _cards, _memo, _parts
from pages._parts import ago, cell, moment, short_time, time_column

MOST_WAITING = 200


def body(current: Snapshot) -> None:
    """The queue, one waiting group in full, who holds what, the planner."""
    waiting = _waiting(current)
    wanted = st.query_params.get("id", "")
    one = next((item for item in waiting if wanted in (item.key, item.id, item.name)), None)
    _parts.sentence(_headline(current, waiting), "headline")
    if wanted and one is None:
        _parts.sentence(f"{wanted} does not wait in this look.")
    _queue(current, waiting, one)
    if one is not None:
        _one(current, one)
    st.subheader("Could I get slices now?")
    _planner(current)
    st.subheader("Who holds what")
    _claims(current)


def _waiting(current: Snapshot) -> list[PlacementGroup]:
    found = [
        group
        for group in current.report.fleet.placement_groups
        if group.waiting and (group.chips > 0 or group.role == "head" or group.wanted_slices)
    ]
    return sorted(found, key=lambda group: (-(group.pending_seconds or 0.0), group.key))


def _headline(current: Snapshot, waiting: Sequence[PlacementGroup]) -> str:
    blind = [
        view.id
        for view in current.report.fleet.clusters
        if not view.suspended and "placement_groups" not in view.ray_parts
    ]
    text = "No TPU group waits."
    if waiting:
        longest = format_duration(waiting[0].pending_seconds)
        verb = "waits" if len(waiting) == 1 else "wait"
        text = f"{count(len(waiting), 'TPU group')} {verb}, the longest for {longest}."
    if blind:
        more = f" and {len(blind) - 3:,} more" if len(blind) > 3 else ""
        text += f" Those of {', '.join(blind[:3])}{more} cannot all be seen."
    elif not waiting:
        text += " Ray forgets a group that gave up waiting: look at History for those."
    return text


def reason(current: Snapshot, group: PlacementGroup) -> str:
    """Why a group waits: the finding behind it, else what its slices are up to."""
    found = _memo.findings_of(current, group)
    if found:
        return found[0].summary
    return summary(group, _memo.fits(current).for_group(group))


def _queue(
    current: Snapshot, waiting: Sequence[PlacementGroup], one: PlacementGroup | None
) -> None:
    rows = _memo.once(
        current,
        "queue",
        lambda: [
            {
                "waits": format_duration(group.pending_seconds),
                "group": cell(group.label),
                "asks for": cell(asked(group)),
                "why": cell(reason(current, group)),
                "cluster": cell(f"{group.namespace}/{group.cluster}"),
                "job": cell(group.job_id),
                "state": cell(group.state),
                "tries": group.attempts,
            }
            for group in waiting[:MOST_WAITING]
        ],
    )
    _parts.pick(
        rows,
        [{"id": group.key} for group in waiting[:MOST_WAITING]],
        f"queue-{one.key if one is not None else ''}",
        "scheduling",
        empty="Nothing waits for TPUs.",
        alt="Waiting groups, the longest first, with the reason of each",
        total=len(waiting),
    )


def _one(current: Snapshot, group: PlacementGroup) -> None:
    fits = _memo.fits(current).for_group(group)
    with st.container(border=True, key="waiting-one"):
        _parts.sentence(f"{group.label} asks for {asked(group)}.", "waiting")
        _parts.sentence(reason(current, group))
        _fits_table(
            current,
            fits,
            "fits",
            empty="The Ray cluster has no slice of that kind.",
        )
        found = _memo.findings_of(current, group)
        for number, finding in enumerate(found[:2]):
            _cards.finding_card(current, finding, f"waiting-{number}", folded=True)
        with st.container(horizontal=True, gap="medium"):
            _parts.link("placement", f"Placement group {group.label}", id=group.key)
            _parts.link("scheduling", "The whole queue")


def _fits_table(current: Snapshot, fits: Sequence[Fit], key: str, *, empty: str) -> None:
    _parts.table(
        [
            {
                "slice": cell(fit.slice.name),
                "fits": "yes" if fit.fits else "no",
                "why": cell(fit_words(current, fit)),
                "for": ago(current, fit.since) if fit.since is not None else "–",
                "since": moment(fit.since),
                "would have to end": cell(", ".join(item.label for item in fit.blockers[:4])),
            }
            for fit in fits
        ],
        key,
        empty=empty,
        config={"since": time_column("since")},
        alt="Slices of the asked shape, and why each fits or does not",
    )


def fit_words(current: Snapshot, fit: Fit) -> str:
    """``held by train-a since 03:12``, in the reader's zone."""
    if fit.since is None or fit.state not in ("held", "head held"):
        return fit.reason
    return f"{fit.reason} since {short_time(current, fit.since)}"


# --- the planner ----------------------------------------------------------------------------


def _planner(current: Snapshot) -> None:
    shapes = _memo.once(current, "shapes", lambda: _shapes(current))
    if not shapes:
        st.caption("No slice whose shape is known: nothing to plan with.")
        return
    asked_for = st.query_params.get("shape", "")
    names = list(shapes)
    shape = asked_for if asked_for in shapes else names[0]
    number = _number(st.query_params.get("n", "1"))
    with st.container(horizontal=True, vertical_alignment="bottom", key="planner"):
        st.session_state["plan-n"] = number
        st.number_input("Slices", 1, MOST, key="plan-n", on_change=_asked, width=120)
        st.session_state["plan-shape"] = shape
        st.selectbox("Shape", names, key="plan-shape", on_change=_asked, width=220)
    topology = shapes[shape]
    answers = _memo.once(
        current,
        ("plan", shape, number),
        lambda: plan(_memo.fits(current), topology, number),
    )
    if not answers:
        _parts.sentence("No Ray cluster has a slice of that shape.")
    for place, found in enumerate(answers[:4]):
        _answer(current, found, place, len(answers) > 1)
    if len(answers) > 4:
        st.caption(f"{len(answers) - 4:,} more Ray clusters have it; these are the easiest.")
    st.caption("The call in Ray")
    st.code(call(topology, number), language="python")


def _asked() -> None:
    st.query_params["n"] = str(st.session_state["plan-n"])
    st.query_params["shape"] = st.session_state["plan-shape"]


def _number(text: str) -> int:
    return max(1, min(int(text), MOST)) if text.isascii() and text.isdigit() and text[:3] else 1


def _shapes(current: Snapshot) -> dict[str, Topology]:
    """The shapes that are there, those with most slices first."""
    tally: dict[str, int] = {}
    found: dict[str, Topology] = {}
    for item in current.report.fleet.slices:
        topology = item.topology
        if topology is None and item.generation and item.topology_name:
            try:
                topology = parse_topology(item.generation, item.topology_name)
            except TopologyError:
                continue
        if topology is None:
            continue
        name = f"{topology.generation} {topology.name}"
        if topology.ambiguous:
            name += f" ({describe(topology)['hosts']} hosts)"
        found[name] = topology
        tally[name] = tally.get(name, 0) + 1
    return {name: found[name] for name in sorted(found, key=lambda name: (-tally[name], name))}


def _answer(current: Snapshot, found: Plan, place: int, several: bool) -> None:
    where = f"{found.cluster}: " if several else ""
    _parts.sentence(f"{where}{answer(found)}", f"answer-{place}")
    if found.ends:
        _parts.table(
            [
                {
                    "would have to end": cell(item.label),
                    "job": cell(item.job_id),
                    "does": _does(item),
                    "chips": item.chips,
                    "for": ago(current, item.since),
                    "since": moment(item.since),
                }
                for item in found.ends
            ],
            f"ends-{place}",
            empty="",
            config={"since": time_column("since")},
            alt="What would have to end, the cheapest first",
        )
    if found.broken or found.freed or found.free:
        with st.expander("Slice by slice"):
            _fits_table(
                current,
                [*found.free, *found.freed, *found.forming, *found.broken, *found.unknown],
                f"plan-{place}",
                empty="",
            )


def _does(item: Blocker) -> str:
    if item.leaked:
        return "leaked head reservation"
    if item.group is not None and item.group.waiting and not item.busy:
        return "waits for the slice"
    return "cannot be seen" if item.busy is None else "works" if item.busy else "idle"


# --- who holds what -------------------------------------------------------------------------


def _claims(current: Snapshot) -> None:
    found = _memo.once(current, "claims", lambda: claims(_memo.fits(current)))
    jobs = _memo.once(current, "jobs", lambda: _jobs(current))
    rows = _memo.once(
        current,
        ("claim-rows", str(_parts.zone())),
        lambda: [_claim_row(current, item, jobs) for item in found[: _parts.MOST_ROWS]],
    )
    _parts.pick(
        rows,
        [_claim_address(item) for item in found[: _parts.MOST_ROWS]],
        "claims",
        "placement",
        empty="Nobody holds TPUs, as far as can be seen.",
        config={
            "since": time_column("since"),
            "duty cycle": st.column_config.NumberColumn("duty cycle", format="%.0f %%"),
        },
        alt="Who holds which slices, since when, and whether it works",
        total=len(found),
    )


def _claim_address(item: Claim) -> dict[str, str]:
    return {"id": item.key if item.group is not None else item.label}


def _claim_row(
    current: Snapshot, item: Claim, jobs: dict[tuple[str, str], RayJob]
) -> dict[str, object]:
    job = jobs.get((f"{item.namespace}/{item.cluster}", item.job_id or ""))
    owner = job.submission_id if job is not None else None
    if owner is None and item.namespace != "-":
        owner = item.namespace
    return {
        "holder": cell(item.label),
        "does": item.activity,
        "slices": cell(", ".join(one.name for one in item.slices[:4])),
        "chips": item.chips,
        "job": cell(item.job_id),
        "job is": cell(item.job_status),
        "owner": cell(owner),
        "for": ago(current, item.since),
        "since": moment(item.since),
        "workers": item.workers,
        "duty cycle": None if item.duty_cycle is None else 100 * item.duty_cycle,
        "cluster": cell(f"{item.namespace}/{item.cluster}"),
        "outlives its job": "yes" if item.detached else "",
    }


def _jobs(current: Snapshot) -> dict[tuple[str, str], RayJob]:
    return {
        (f"{ray.namespace}/{ray.cluster}", job.job_id): job
        for ray in current.observation.ray
        for job in ray.jobs or ()
        if job.job_id
    }


_parts.page(body)
