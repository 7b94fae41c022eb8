"""PLACEHOLDER until the geometry lands."""
from __future__ import annotations
import msgspec


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Geometry of a slice of one shape."""

    generation: str
    name: str
    dims: tuple[int, int, int]
    chips: int
    hosts: int
    chips_per_host: int
    chips_per_host_bounds: tuple[int, int, int]
    host_bounds: tuple[int, int, int]
    wrap: tuple[bool, bool, bool]
    pod_type: str
    accelerator: str
    verified: bool
