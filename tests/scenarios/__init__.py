"""Clusters with known answers, built by code: each code's fault, its nearest innocents, blindness."""

from tests.scenarios import gangs, hardware, healthy, placement, slices, sources, webhook
from tests.scenarios.scene import SCENARIOS as SCENES
from tests.scenarios.scene import Scenario

__all__ = [
    "SCENES",
    "Scenario",
    "gangs",
    "hardware",
    "healthy",
    "placement",
    "slices",
    "sources",
    "webhook",
]
