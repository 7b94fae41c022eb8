"""What a slice of one shape is, for the terminal, for scripts and for the page that looks it up."""

from __future__ import annotations

from fleet.drawing import draw
from fleet.places import link_counts
from fleet.subslices import subslice_shapes
from fleet.topology_shape import Topology, nearest_topologies
from fleet.topology_tables import GENERATIONS, RAY_ONLY, RAY_WORKER_GRIDS, ray_accepts

AXES = "xyz"


def describe(topology: Topology) -> dict[str, object]:
    """The JSON of ``slicewatch topology --format json``, keys and types as promised there."""
    return {
        "generation": topology.generation,
        "topology": topology.name,
        "chips": topology.chips,
        "hosts": topology.hosts,
        "chips_per_host": topology.chips_per_host,
        "host_bounds": list(topology.host_bounds),
        "wrap": list(topology.wrap),
        "pod_type": topology.pod_type,
        "accelerator": topology.accelerator,
        "verified": topology.verified,
    }


def machine_line(topology: Topology) -> str:
    """The machines that make up the slice: ``4 x ct6e-standard-4t``."""
    machine = topology.machine_type
    if machine is None:
        return "not on GKE" if not topology.accelerator else "no machine type known for such hosts"
    doubt = ", name not confirmed" if topology.generation == "v3" else ""
    return f"{topology.hosts} x {machine}{doubt}"


def wrap_line(topology: Topology) -> str:
    """Which axes close into rings, in words."""
    closed = [axis for axis, wraps in zip(AXES, topology.wrap, strict=True) if wraps]
    if not closed:
        return "none"
    return f"{', '.join(closed)} (each end is linked to the other)"


def subslice_lines(topology: Topology) -> list[tuple[str, int, int]]:
    """The sub-slices it can be cut into, as (shape, how many, hosts in each), smallest first.

    For a slice that Ray can cut (:func:`ray_cuts`) those that Ray can hand out; for any other the
    shapes that divide it.
    """
    lines = []
    for name, size in subslice_shapes(topology).items():
        hosts = size[0] * size[1] * size[2]
        divides = all(w % s == 0 for w, s in zip(topology.host_bounds, size, strict=True))
        if divides:
            lines.append((name, topology.hosts // hosts, hosts))
        elif ray_cuts(topology):  # the first one only: Ray gives the others the same number
            lines.append((name, 1, hosts))
    return lines


def ray_cuts(topology: Topology) -> bool:
    """Whether Ray 2.60 can cut sub-slices from a slice of this shape."""
    return topology.name in RAY_WORKER_GRIDS and ray_accepts(topology.generation, topology.name)


def manifest_lines(topology: Topology) -> str:
    """What a RayCluster's worker group needs for this shape (YAML); empty where GKE has none."""
    if not topology.accelerator:
        return ""
    return "\n".join(
        (
            f"numOfHosts: {topology.hosts}",
            "template:",
            "  spec:",
            "    nodeSelector:",
            f"      cloud.google.com/gke-tpu-accelerator: {topology.accelerator}",
            f"      cloud.google.com/gke-tpu-topology: {topology.name}",
            "    containers:",
            "    - name: ray-worker",
            "      resources:",
            "        requests:",
            f'          google.com/tpu: "{topology.chips_per_host}"',
            "        limits:",
            f'          google.com/tpu: "{topology.chips_per_host}"',
        )
    )


def ray_call(topology: Topology) -> str:
    """The call that reserves a whole slice of this shape in Ray."""
    prefix = GENERATIONS[topology.generation].prefix
    arguments = [f'topology="{topology.name}"', f'accelerator_version="{prefix}"']
    if topology.chips_per_host != _rays_chips_per_host(topology):
        arguments.append(f"chips_per_vm={topology.chips_per_host}")
    return f"slice_placement_group({', '.join(arguments)})"


def _rays_chips_per_host(topology: Topology) -> int:
    """What Ray 2.60 assumes when nobody says (``get_chips_per_host``)."""
    small = topology.generation in ("v5e", "v6e") and topology.name in ("1x1", "2x2", "2x4")
    return topology.chips if small else 4


def warnings_of(topology: Topology) -> list[str]:
    """What to know before using this shape, each a sentence."""
    found = []
    if not topology.verified:
        near = ", ".join(nearest_topologies(topology.generation, topology.name))
        found.append(
            f"No source lists {topology.name} on {topology.chips_per_host}-chip hosts for "
            f"{topology.generation}; this is computed from its numbers. Nearest real ones: {near}."
        )
    elif topology.name in RAY_ONLY:
        found.append(f"Ray accepts {topology.name}; GKE's tables do not list it.")
    if not ray_accepts(topology.generation, topology.name):
        found.append(
            "Ray 2.60 refuses this shape in slice_placement_group (ValueError: Invalid "
            "accelerator topology). Reserve it with placement_group and bundle_label_selector on "
            "ray.io/tpu-slice-name instead, one bundle a host."
        )
    if topology.ambiguous:
        other = 4 if topology.chips_per_host == 8 else 8
        hosts = topology.chips // other
        found.append(
            f"{topology.name} is also sold as {hosts} host{'s' * (hosts > 1)} of {other} chips "
            f"(--chips-per-host {other}). Ray assumes one host of 8: with hosts of 4 its bundle "
            "of 8 chips fits nowhere unless chips_per_vm=4 is given."
        )
    if note := subslice_note(topology):
        found.append(note)
    return found


def subslice_note(topology: Topology) -> str:
    """What to know about cutting this shape; empty when there is nothing."""
    if not subslice_shapes(topology):
        return ""
    if not ray_cuts(topology):
        return "Ray 2.60 cuts no sub-slices from this shape; those listed are by geometry."
    if topology.dimensions == 3:
        return (
            "Ray 2.60 takes the hosts of a 3D slice to lie along other axes than libtpu does; its "
            "sub-slice discovery can fail or give two hosts the same place."
        )
    return ""


def describe_text(topology: Topology, *, width: int = 100, ascii_only: bool = False) -> str:
    """Everything about a shape as text for a terminal ``width`` columns wide."""
    plain, wrapping = link_counts(topology)
    bounds = " x ".join(str(n) for n in topology.host_bounds)
    block = " x ".join(str(n) for n in topology.chips_per_host_bounds)
    hosts = f"{topology.hosts:,} host{'s' * (topology.hosts > 1)}"
    facts = [
        ("size", f"{topology.chips:,} chips on {hosts} of {topology.chips_per_host}"),
        ("host grid", f"{bounds} hosts (x, y, z), {block} chips in each"),
        ("wrap-around", wrap_line(topology)),
        ("ICI links", f"{plain + wrapping:,}" + (f", {wrapping:,} of them wrap" * bool(wrapping))),
        ("Ray pod type", topology.pod_type),
        ("GKE label", topology.accelerator or "none"),
        ("machines", machine_line(topology)),
        ("sub-slices", _subslice_text(topology)),
        ("listed", "yes" if topology.verified else "no: computed, not verified"),
    ]
    parts = [f"TPU {topology.generation} {topology.name}"]
    parts.append("\n".join(f"  {name:<13}{value}" for name, value in facts))
    parts.append(
        "Hosts by worker id (x to the right, y down). The layout is assumed: a worker id does not\n"
        "prove a place.\n" + draw(topology, width=width, ascii_only=ascii_only)
    )
    if manifest := manifest_lines(topology):
        parts.append("Worker group of a RayCluster:\n" + _indent(manifest))
    parts.append(
        "Ray:\n" + _indent("from ray.util.tpu import slice_placement_group\n" + ray_call(topology))
    )
    parts += [f"Note: {warning}" for warning in warnings_of(topology)]
    return "\n\n".join(parts) + "\n"


def _subslice_text(topology: Topology) -> str:
    return ", ".join(f"{count} of {name}" for name, count, _ in subslice_lines(topology)) or "none"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
