"""What to show of a fleet, chosen with widgets and kept in the address: a link shows the same."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from charts.palette import SLICE_SIGNS, WORST_FIRST
from diagnosis.finding import Report
from fleet.choosing import Choice, options
from pages._text import printable

NAMES = {
    "cluster": "Ray cluster",
    "namespace": "Namespace",
    "generation": "Generation",
    "state": "State",
}
MOST = 50
"""Values of one kind that an address may name; more is no filter any more."""


def from_address() -> Choice:
    """The choice that the address names."""
    query = st.query_params
    states = [value for value in query.get_all("state") if value in SLICE_SIGNS]
    return Choice(
        clusters=tuple(query.get_all("cluster")[:MOST]),
        namespaces=tuple(query.get_all("namespace")[:MOST]),
        generations=tuple(query.get_all("generation")[:MOST]),
        states=tuple(states[:MOST]),
        text=query.get("q", "")[:200],
    )


def ask(report: Report) -> Choice:
    """Draw the widgets; gives what is chosen. Few slices need no filter, so it is folded."""
    choice = from_address()
    there = options(report.fleet)
    states = [status for status in WORST_FIRST if status in set(report.statuses.values())]
    label = "Filter" if choice.all else f"Filter: {_words(choice)}"
    fold = st.expander(
        label,
        expanded=not choice.all,
        icon=":material/filter_list:",
        key="fold-filter",
        on_change="rerun",
    )
    if not fold.open:
        return choice
    with fold, st.container(horizontal=True, vertical_alignment="bottom", key="filters"):
        _several("cluster", there["clusters"], choice.clusters)
        _several("namespace", there["namespaces"], choice.namespaces)
        _several("generation", there["generations"], choice.generations)
        _several("state", states, choice.states)
        _text(choice.text)
        if not choice.all:
            st.button("Show all", on_click=_clear, key="filter-clear")
    return choice


def _words(choice: Choice) -> str:
    # A label reads Markdown; what stands in an address is hostile.
    from pages._text import plain

    parts = [*choice.clusters, *choice.namespaces, *choice.generations, *choice.states]
    parts += [f"“{choice.text}”"] if choice.text.strip() else []
    return plain(", ".join(parts))


def _several(name: str, there: Sequence[str], chosen: Sequence[str]) -> None:
    key = f"filter-{name}"
    # What the address asks for stays an option when the last slice of it is gone.
    choices = list(dict.fromkeys((*there, *chosen)))
    if len(choices) < 2 and not chosen:
        return
    st.session_state[key] = list(chosen)
    st.multiselect(
        NAMES[name],
        choices,
        key=key,
        on_change=_several_changed,
        args=(name,),
        format_func=lambda value: printable(value, 60),
        placeholder="all",
        width=220,
    )


def _several_changed(name: str) -> None:
    st.query_params.pop(name, None)
    chosen = list(st.session_state[f"filter-{name}"])
    if chosen:
        st.query_params[name] = chosen


def _text(text: str) -> None:
    st.session_state["filter-q"] = text
    st.text_input(
        "Words",
        key="filter-q",
        on_change=_text_changed,
        placeholder="slice, pod, node, group …",
        help="Words that must all occur in the name of a slice, its pool, pods, nodes or holders.",
        width=260,
    )


def _text_changed() -> None:
    text = st.session_state["filter-q"].strip()
    st.query_params.pop("q", None)
    if text:
        st.query_params["q"] = text[:200]


def _clear() -> None:
    for name in (*NAMES, "q"):
        st.query_params.pop(name, None)
