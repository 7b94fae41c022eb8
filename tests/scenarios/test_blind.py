"""With a source dark, every rule that needs it says so: it is unknown, and nothing fires."""

from __future__ import annotations

import msgspec
import pytest

from diagnosis.catalogue import CODES
from diagnosis.engine import judge
from fleet.mapping import build_fleet
from fleet.observation import KubernetesObservation, Observation, RayObservation
from tests.fleet.scene import Scene

SOURCES = {"SourceDown", "SourceTruncated", "SourceStale"}
"""What these judge is the darkness itself; they are never in doubt about it."""


def observation(generation: tuple[str, str, str, int]) -> Observation:
    topology, accelerator, pod_type, hosts = generation
    scene = Scene()
    scene.slice("g-0", topology=topology, accelerator=accelerator, pod_type=pod_type, hosts=hosts)
    return scene.observation()


def dark(look: Observation) -> Observation:
    """The same clusters with neither Kubernetes' parts but the RayClusters' names nor Ray's."""
    assert look.kubernetes is not None
    down = {"status": "down", "reason": "refused", "complete": False}
    ray = tuple(
        RayObservation(
            source=msgspec.structs.replace(item.source, **down),
            namespace=item.namespace,
            cluster=item.cluster,
        )
        for item in look.ray
    )
    kubernetes = KubernetesObservation(
        source=msgspec.structs.replace(look.kubernetes.source, **down)
    )
    return msgspec.structs.replace(look, kubernetes=kubernetes, ray=ray)


@pytest.mark.parametrize(
    "generation",
    [
        ("4x4", "tpu-v3-slice", "v3-32", 4),
        ("4x4", "tpu-v2-slice", "v2-32", 4),
        ("2x2x4", "tpu-v4-podslice", "v4-32", 4),
        ("4x4", "tpu-v6e-slice", "v6e-16", 4),
    ],
)
def test_every_code_is_unknown_where_nothing_can_be_seen(
    generation: tuple[str, str, str, int],
) -> None:
    look = observation(generation)
    healthy, _ = judge(build_fleet(look))
    assert healthy.findings == ()
    assert set(healthy.statuses.values()) == {"idle"}
    report, _ = judge(build_fleet(dark(look)))
    assert {item.code for item in report.findings} == {"SourceDown"}
    assert {item.code for item in report.unknowns} == set(CODES) - SOURCES
