"""Shapes of TPU slices as clusters really carry them: labels, pod types, resources, machine types.

The tables follow GKE's node labels and machine types and Ray's ``TPU-<pod type>-head`` names. They
are kept apart from ``fleet.topology`` on purpose: what invents a cluster should not share a mistake
with what judges it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Generation:
    """One TPU generation.

    ``accelerator`` is the value of ``cloud.google.com/gke-tpu-accelerator``; ``pod_prefix`` starts
    Ray's pod type (``v5litepod-16``); ``family`` starts the machine type; ``cores_per_chip`` makes
    the pod type's number (chips for v5e and v6e, twice the chips for the others).
    """

    name: str
    accelerator: str
    pod_prefix: str
    family: str
    cores_per_chip: int
    flat: bool


GENERATIONS: dict[str, Generation] = {
    item.name: item
    for item in (
        Generation("v2", "tpu-v2-podslice", "v2", "ct2-hightpu", 2, True),
        Generation("v3", "tpu-v3-slice", "v3", "ct3p-hightpu", 2, True),
        Generation("v4", "tpu-v4-podslice", "v4", "ct4p-hightpu", 2, False),
        Generation("v5e", "tpu-v5-lite-podslice", "v5litepod", "ct5lp-hightpu", 1, True),
        Generation("v5p", "tpu-v5p-slice", "v5p", "ct5p-hightpu", 2, False),
        Generation("v6e", "tpu-v6e-slice", "v6e", "ct6e-standard", 1, True),
        Generation("v7x", "tpu7x", "v7x", "tpu7x-standard", 2, False),
    )
}


@dataclass(frozen=True)
class Shape:
    """A slice's shape: how many chips and hosts, and the names both sides give to it."""

    generation: Generation
    topology: str
    chips_per_host: int

    @property
    def chips(self) -> int:
        return math.prod(int(part) for part in self.topology.split("x"))

    @property
    def hosts(self) -> int:
        return max(1, self.chips // self.chips_per_host)

    @property
    def pod_type(self) -> str:
        """Ray's pod type: ``v6e-16``, ``v5p-16`` (cores), ``v5litepod-16``."""
        return f"{self.generation.pod_prefix}-{self.chips * self.generation.cores_per_chip}"

    @property
    def head_resource(self) -> str:
        return f"TPU-{self.pod_type}-head"

    @property
    def accelerator_type(self) -> str:
        """The label ``ray.io/accelerator-type``: ``TPU-V6E``."""
        return f"TPU-{self.generation.pod_prefix.upper()}"

    @property
    def env_accelerator_type(self) -> str:
        """``TPU_ACCELERATOR_TYPE`` as the device plugin writes it (Ironwood says ``tpu7x-``)."""
        return self.pod_type.replace("v7x-", "tpu7x-")

    @property
    def machine_type(self) -> str:
        return f"{self.generation.family}-{self.chips_per_host}t"


def shape(generation: str, topology: str, chips_per_host: int | None = None) -> Shape:
    """The shape of a slice; chips per host follow GKE's usual machine where not given.

    Raises ``KeyError`` for an unknown generation and ``ValueError`` for a topology that is none.
    """
    found = GENERATIONS[generation]
    chips = math.prod(int(part) for part in topology.split("x"))
    if chips < 1:
        raise ValueError(f"topology {topology!r} has no chips")
    if chips_per_host is None:
        small = chips <= 8 and generation in ("v5e", "v6e")
        chips_per_host = chips if small else min(4, chips)
    return Shape(found, topology, chips_per_host)
