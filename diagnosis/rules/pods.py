"""What several rules ask of a worker group's pods."""

from __future__ import annotations

from diagnosis.rules.base import (
    Links,
)
from diagnosis.view import View
from fleet.model import ClusterView, WorkerGroup
from fleet.observation import Pod
from fleet.pods import (
    phase,
    terminating,
)


def hostnames(view: View, pod: Pod) -> list[str]:
    """The names in ``TPU_WORKER_HOSTNAMES``; empty when it is not in the pod's spec."""
    value = view.env(pod).get("TPU_WORKER_HOSTNAMES")
    return [name.strip() for name in value.split(",") if name.strip()] if value else []


def current(pods: tuple[Pod, ...]) -> list[Pod]:
    """Pods that are neither on their way out nor finished."""
    return [
        pod for pod in pods if not terminating(pod) and phase(pod) not in ("Failed", "Succeeded")
    ]


def worker_group_links(view: View, cluster: ClusterView, group: WorkerGroup) -> Links:
    """What a finding about a worker group touches."""
    return Links(
        cluster=cluster.id,
        slices=tuple(item.id for item in view.slices_of_worker_group(group)),
        worker_groups=(group.id,),
    )
