"""Look any slice shape up, without a cluster: size, links, sub-slices, manifest, Ray call."""

from __future__ import annotations

from typing import cast

import streamlit as st

from charts.grid import View, topology_figure
from fleet.describe import (
    describe,
    machine_line,
    manifest_lines,
    ray_call,
    subslice_lines,
    subslice_note,
    warnings_of,
    wrap_line,
)
from fleet.topology import (
    Topology,
    TopologyError,
    canonical_generation,
    link_counts,
    parse_topology,
    real_topologies,
)
from fleet.topology_tables import GENERATIONS
from pages import _parts, _pictures
from pages._text import plain, printable

NO_PART = "none"
VIEWS = {"layers": "layers", "3d": "3D"}


def body() -> None:
    """The questions, then the shape or what is wrong with it."""
    generation, name, chips = _question()
    try:
        topology = parse_topology(generation, name, chips)
    except TopologyError as error:
        _parts.sentence("No slice has this shape.", "headline")
        _parts.sentence(f"{error}.")
        st.caption("The nearest real ones:")
        for near in error.nearest:
            _parts.link("topologies", near, generation=generation, topology=near)
        return
    _remember(topology)
    _parts.sentence(_headline(topology), "headline")
    for warning in warnings_of(topology):
        if warning != subslice_note(topology):
            st.info(plain(warning, 1000), icon=":material/info:")
    _picture(topology)
    facts, snippets = st.columns(2)
    with facts:
        _facts(topology)
    with snippets:
        _snippets(topology)


def _question() -> tuple[str, str, int | None]:
    known = list(GENERATIONS)
    wanted = canonical_generation(st.query_params.get("generation", "")) or "v6e"
    with st.container(horizontal=True, vertical_alignment="bottom", key="question"):
        generation = st.selectbox("Generation", known, index=known.index(wanted), width=120)
        name = _name(generation)
        chips: int | None = None
        if generation in ("v5e", "v6e") and name == "2x4":
            chips = st.radio(
                "Chips on each host",
                [8, 4],
                index=1 if st.query_params.get("chips") == "4" else 0,
                horizontal=True,
                help="2x4 is sold as one host of eight chips and as two hosts of four.",
            )
    return generation, name, chips


def _name(generation: str) -> str:
    real = list(real_topologies(generation))
    asked = printable(st.query_params.get("topology", ""), 64).strip().lower()
    if canonical_generation(st.query_params.get("generation", "")) not in (None, generation):
        asked = ""  # the address still names a shape of the generation chosen before
    options = real if not asked or asked in real else [asked, *real]
    usual = "4x4" if GENERATIONS[generation].dimensions == 2 else "2x2x2"
    chosen = st.selectbox(
        "Topology",
        options,
        index=options.index(asked or usual),
        accept_new_options=True,
        help="Choose one that Google sells, or type any: 4x4x20, 6x6, …",
        key=f"topology-{generation}-{asked}",
        width=220,
    )
    return chosen or usual


def _remember(topology: Topology) -> None:
    """Put the shape into the address, so that it can be sent to somebody."""
    wanted = {"generation": topology.generation, "topology": topology.name}
    if topology.ambiguous:
        wanted["chips"] = str(topology.chips_per_host)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def _headline(topology: Topology) -> str:
    hosts = f"{topology.hosts:,} host{'s' * (topology.hosts > 1)}"
    return f"{topology.generation} {topology.name}: {topology.chips:,} chips on {hosts}."


def _picture(topology: Topology) -> None:
    parts = [NO_PART, *(name for name, _, _ in subslice_lines(topology))]
    with st.container(horizontal=True, key="view"):
        part = NO_PART
        if len(parts) > 1:
            part = st.selectbox("Colour by sub-slice", parts, width=200)
        view = "layers"
        if topology.host_bounds[2] > 1:
            view = (
                st.segmented_control(
                    "View", ["layers", "3d"], default="layers", format_func=VIEWS.__getitem__
                )
                or "layers"
            )
    if part != NO_PART and (note := subslice_note(topology)):
        st.caption(plain(note, 1000))
    figure = topology_figure(
        topology,
        part=None if part == NO_PART else part,
        view=cast(View, view),
        dark=_pictures.dark(),
        width=_pictures.room(),
        height=600,
    )
    st.plotly_chart(
        figure,
        width="content",
        theme=None,
        key="shape",
        config=_pictures.CONFIG,
        alt=f"The ICI grid of {_headline(topology)}",
    )


def _facts(topology: Topology) -> None:
    plain_links, wrapping = link_counts(topology)
    told = describe(topology)
    grid = " x ".join(str(n) for n in topology.host_bounds)
    block = " x ".join(str(n) for n in topology.chips_per_host_bounds)
    parts = ", ".join(f"{count:,} of {name}" for name, count, _ in subslice_lines(topology))
    rows = [
        ("chips", f"{topology.chips:,}"),
        ("hosts", f"{topology.hosts:,} of {topology.chips_per_host} chips"),
        ("host grid (x, y, z)", f"{grid}, {block} chips in each"),
        ("wrap-around", wrap_line(topology)),
        ("ICI links", f"{plain_links + wrapping:,}, {wrapping:,} of them wrap"),
        ("sub-slices", parts or "none"),
        ("Ray pod type", str(told["pod_type"])),
        ("GKE accelerator label", str(told["accelerator"]) or "none: not on GKE"),
        ("machines", machine_line(topology)),
        ("listed by a source", "yes" if topology.verified else "no: computed, not verified"),
    ]
    st.dataframe(
        [{"what": what, "value": value} for what, value in rows],
        hide_index=True,
        key="facts",
        alt="Facts about this slice shape",
        height="content",
    )


def _snippets(topology: Topology) -> None:
    manifest = manifest_lines(topology)
    if manifest:
        st.caption("Worker group of a RayCluster")
        st.code(manifest, language="yaml")
    st.caption("Reserve one in Ray")
    st.code(
        f"from ray.util.tpu import slice_placement_group\n\n{ray_call(topology)}", language="python"
    )
    chips = f" --chips-per-host {topology.chips_per_host}" if topology.ambiguous else ""
    st.caption("The same in a terminal")
    _parts.command(f"python -m slicewatch topology {topology.generation} {topology.name}{chips}")


body()
