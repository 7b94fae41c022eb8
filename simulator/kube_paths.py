"""Paths and discovery documents of the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simulator.kube_store import KINDS, Kind

GIT_VERSION = "v1.34.2-gke.1100000"
"""A GKE version with TPU7x slices, so that clients switch on what they know of it."""


@dataclass(frozen=True)
class Target:
    """What a path names. ``sub`` is a subresource (``log``, ``proxy``), ``rest`` what follows."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    sub: str = ""
    rest: str = ""


def parse(path: str) -> Target | None:
    """The target of a resource path; ``None`` when it names no resource that is served."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, version, parts = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if (
        len(parts) >= 3
        and parts[0] == "namespaces"
        and group + parts[2] not in ("status", "finalize")
    ):
        namespace, parts = parts[1], parts[2:]
    if not parts or not parts[0]:
        return None
    kind = KINDS.get(parts[0])
    if kind is None or (kind.group, kind.version) != (group, version):
        return None
    if bool(namespace) and not kind.namespaced:
        return None
    name = parts[1] if len(parts) > 1 else ""
    sub = parts[2] if len(parts) > 2 else ""
    return Target(kind, namespace, name, sub, "/".join(parts[3:]))


def discovery(path: str, served: frozenset[str]) -> dict[str, Any] | None:
    """``/version``, ``/api``, ``/apis`` and the resource lists; ``None`` for another path.

    ``served`` are the plurals that this cluster has: without ``rayclusters`` no ``ray.io``.
    """
    path = path.rstrip("/")
    kinds = [kind for plural, kind in KINDS.items() if plural in served]
    groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    if path == "/version":
        major, minor = GIT_VERSION[1:].split(".")[:2]
        return {
            "major": major,
            "minor": minor,
            "gitVersion": GIT_VERSION,
            "gitCommit": "0" * 40,
            "gitTreeState": "clean",
            "buildDate": "2026-10-01T00:00:00Z",
            "goVersion": "go1.26.3",
            "compiler": "gc",
            "platform": "linux/amd64",
        }
    if path == "/api":
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}
            ],
        }
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(group, version) for group, version in groups],
        }
    if path == "/api/v1":
        return _resources("v1", [kind for kind in kinds if not kind.group])
    for group, version in groups:
        if path == f"/apis/{group}":
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, version)}
        if path == f"/apis/{group}/{version}":
            return _resources(f"{group}/{version}", [k for k in kinds if k.group == group])
    return None


def _group(group: str, version: str) -> dict[str, Any]:
    found = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [found], "preferredVersion": found}


def _resources(group_version: str, kinds: list[Kind]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        row: dict[str, Any] = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["delete", "get", "list", "patch", "update", "watch"],
        }
        if kind.short:
            row["shortNames"] = list(kind.short)
        if kind.categories:
            row["categories"] = list(kind.categories)
        rows.append(row)
    if group_version == "v1":
        rows.extend(
            {
                "name": name,
                "singularName": "",
                "namespaced": True,
                "kind": "Pod" if name.startswith("pods") else "Service",
                "verbs": ["create", "get"],
            }
            for name in ("pods/log", "pods/exec", "pods/proxy", "services/proxy")
        )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": rows,
    }


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A ``Status`` object, as every refusal carries one."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def failure_status(code: int, kind: Kind | None, verb: str, user: str) -> dict[str, Any]:
    """What the real API says with this code about such a request."""
    plural, group = (kind.plural, kind.group) if kind else ("", "")
    if code == 401:
        return status(401, "Unauthorized", "Unauthorized")
    if code == 403:
        return status(
            403,
            "Forbidden",
            f'{plural} is forbidden: User "{user}" cannot {verb} resource "{plural}" in API group '
            f'"{group}" at the cluster scope',
            group=group,
            kind=plural,
        )
    if code == 404:
        return status(404, "NotFound", "the server could not find the requested resource")
    if code == 410:
        return status(410, "Expired", "The resourceVersion for the provided list is too old.")
    if code == 429:
        return status(
            429,
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
            retryAfterSeconds=1,
        )
    if code == 503:
        return status(
            503, "ServiceUnavailable", "the server is currently unable to handle the request"
        )
    return status(
        code, "InternalError", "Internal error occurred: etcdserver: request timed out", causes=[]
    )
