"""The list of independent scenes: a world (or frames of it) and its right answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.scenarios.independent.payloads import HOUR, MINUTE, Host, Json, World, ts

Must = tuple[str, str | None, str | None]


@dataclass
class Scene:
    name: str
    make: Callable[[], World | list[World]]
    must: list[Must] = field(default_factory=list)
    may: list[str] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)
    exit: int | None = None
    unknown: list[str] = field(default_factory=list)
    not_there: list[str] = field(default_factory=list)
    """Codes that may not be there at any severity."""


SCENES: list[Scene] = []


def scene(
    *must: Must,
    may: str = "",
    statuses: dict[str, str] | None = None,
    exit: int | None = None,  # noqa: A002 - named as in expect.json
    unknown: str = "",
    never: str = "",
    each: dict[str, Any] | list[Any] | None = None,
) -> Callable[[Callable[..., World | list[World]]], Callable[..., World | list[World]]]:
    """Register a scene; with ``each`` once for each of its variants."""

    def register(make: Callable[..., World | list[World]]) -> Callable[..., World | list[World]]:
        variants = each if each is not None else [None]
        for variant in variants:
            name = make.__name__ + (f"[{variant}]" if variant is not None else "")
            value = each[variant] if isinstance(each, dict) else variant
            call = make if variant is None else (lambda v=value: make(v))
            SCENES.append(
                Scene(
                    name,
                    call,
                    list(must),
                    may.split(),
                    dict(statuses or {}),
                    exit,
                    unknown.split(),
                    never.split(),
                )
            )
        return make

    return register


def silent(
    *,
    may: str = "",
    statuses: dict[str, str] | None = None,
    each: dict[str, Any] | list[Any] | None = None,
    never: str = "",
) -> Callable[[Callable[..., World | list[World]]], Callable[..., World | list[World]]]:
    """A scene without any warning."""
    return scene(may=may, statuses=statuses, exit=0, each=each, never=never)


# --- worlds and what befalls them ---------------------------------------------------------------


def fleet(kind: str = "v6e", topology: str = "4x4", **more: Any) -> tuple[World, Any, list[Any]]:
    """One cluster with one TPU group on Kubernetes."""
    world = World()
    cluster = world.cluster()
    return world, cluster, world.tpus(cluster, kind, topology, **more)


def bare(kind: str = "v6e", topology: str = "4x4", **more: Any) -> tuple[World, Any, list[Any]]:
    """One Ray cluster without Kubernetes."""
    world = World(kubernetes=False)
    cluster = world.cluster()
    return world, cluster, world.tpus(cluster, kind, topology, **more)


def pending(pod: Json, message: str = "", *, ago: float = 45 * MINUTE) -> None:
    """Never scheduled."""
    pod["metadata"]["creationTimestamp"] = ts(ago)
    pod["spec"]["nodeName"] = None
    pod["status"] = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message
                or "0/12 nodes are available: 12 Insufficient google.com/tpu. "
                "preemption: not eligible.",
                "lastTransitionTime": ts(ago),
            }
        ],
    }


def not_ready(pod: Json, *, ago: float = 30 * MINUTE) -> None:
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition |= {"status": "False", "lastTransitionTime": ts(ago)}
    pod["status"]["containerStatuses"][0]["ready"] = False


def crash(pod: Json, *, ago: float = 30 * MINUTE, reason: str = "CrashLoopBackOff") -> None:
    not_ready(pod, ago=ago)
    pod["status"]["containerStatuses"][0] |= {
        "restartCount": 9,
        "state": {"waiting": {"reason": reason, "message": "back-off 5m0s restarting"}},
        "lastState": {
            "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ts(2 * MINUTE)}
        },
    }


def failed(pod: Json, reason: str = "Evicted", message: str = "", *, ago: float = 1800) -> None:
    not_ready(pod, ago=ago)
    pod["status"] |= {"phase": "Failed", "reason": reason, "message": message}
    pod["status"]["containerStatuses"][0]["state"] = {
        "terminated": {"exitCode": 137, "reason": "Error", "finishedAt": ts(ago)}
    }


def node_down(host: Host, *, ago: float = 1800, status: str = "Unknown") -> None:
    """The kubelet stopped answering: node and pod not ready."""
    assert host.node is not None
    host.node["status"]["conditions"][0] |= {
        "status": status,
        "reason": "NodeStatusUnknown" if status == "Unknown" else "KubeletNotReady",
        "lastTransitionTime": ts(ago),
    }
    host.node["spec"]["taints"].append(
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    )
    if host.pod is not None:
        not_ready(host.pod, ago=ago)
        host.pod["status"]["containerStatuses"][0]["ready"] = True


def env_of(pod: Json) -> list[Json]:
    return pod["spec"]["containers"][0]["env"]  # type: ignore[no-any-return]


def set_env(pod: Json, name: str, value: str | None) -> None:
    env = env_of(pod)
    env[:] = [item for item in env if item["name"] != name]
    if value is not None:
        env.append({"name": name, "value": value})


__all__ = ["HOUR", "MINUTE", "SCENES", "Scene", "scene", "silent"]
