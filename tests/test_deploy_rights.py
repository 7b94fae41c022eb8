"""The roles of deploy/kubernetes grant what the collectors ask for, no less and no more.

The simulated API server writes down each request as RBAC sees it: verb, group, resource, namespace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from collectors import kubernetes_connection
from collectors.looks import look_once
from collectors.runtime import Runtime
from settings import Settings
from simulator.fleet_server import FleetServer
from simulator.kube_api import Call
from tests.simulator.conftest import wait_for

Right = tuple[str, str, str]
"""Group, resource, verb."""

PROXY: Right = ("", "services/proxy", "get")
VERSION = "/version"
"""Any account may ask for it: Kubernetes binds ``system:public-info-viewer`` to all of them."""


@pytest.fixture(scope="module")
def invented() -> Iterator[FleetServer]:
    with FleetServer.of_hosts(12, seed=3) as server:
        yield server


@pytest.fixture
def fleet(invented: FleetServer) -> FleetServer:
    invented.kube.calls.clear()
    return invented


@pytest.fixture
def in_cluster(fleet: FleetServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of a pod, as the kubelet mounts it."""
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text(fleet.kube.token)
    assert fleet.kube.server.certificate is not None
    authority.write_bytes(fleet.kube.server.certificate.read_bytes())
    from kubernetes.config import incluster_config

    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(fleet.kube.server.port))
    monkeypatch.setattr(kubernetes_connection, "_ACCOUNT", token)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))


def granted(root: Path, *files: str) -> set[Right]:
    """The rights in these manifests."""
    return {
        (group, resource, verb)
        for file in files
        for item in yaml.safe_load_all((root / "deploy" / "kubernetes" / file).read_text())
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(fleet: FleetServer, wanted: Callable[[Call], bool] = lambda call: True) -> set[Right]:
    return {
        (call.group, call.resource, call.verb)
        for call in list(fleet.kube.calls)
        if call.resource != VERSION and wanted(call)
    }


def quick(**options: object) -> Settings:
    return Settings(**{"poll_interval": 1.0, "request_timeout": 5.0, **options})  # type: ignore[arg-type]


def lists(rights: set[Right]) -> set[Right]:
    return {right for right in rights if right[2] == "list"}


def run_until(settings: Settings, done: Callable[[], bool]) -> None:
    """Run the live service until so much was asked, and end it."""
    runtime = Runtime(settings, spread=lambda: 0.5)
    runtime.start()
    try:
        wait_for(done)
    finally:
        runtime.stop()
    assert [t.name for t in threading.enumerate() if t.name.startswith("slicewatch-runtime")] == []


@pytest.mark.usefixtures("in_cluster")
def test_one_look_lists_exactly_what_the_role_names(root: Path, fleet: FleetServer) -> None:
    look = look_once(quick())
    assert look.kubernetes is not None
    assert look.kubernetes.source.status == "ok", look.kubernetes.source
    assert asked(fleet) == lists(granted(root, "base/clusterrole.yaml"))


@pytest.mark.usefixtures("in_cluster")
def test_one_look_at_one_namespace_stays_there(root: Path, fleet: FleetServer) -> None:
    """What has no namespace needs the small ClusterRole; the rest is asked for in one place."""
    (cluster,) = fleet.fleet.clusters
    look = look_once(quick(namespaces=cluster.namespace))
    assert look.kubernetes is not None
    assert look.kubernetes.source.status == "ok", look.kubernetes.source
    assert {call.namespace for call in fleet.kube.calls} == {"", cluster.namespace}
    everywhere = asked(fleet, lambda call: not call.namespace)
    there = asked(fleet, lambda call: bool(call.namespace))
    assert everywhere == lists(granted(root, "namespaced/clusterrole.yaml"))
    assert there == lists(granted(root, "namespaced/role.yaml"))


def test_from_outside_the_proxy_is_needed_too(
    root: Path, fleet: FleetServer, tmp_path: Path
) -> None:
    kubeconfig = fleet.kube.write_kubeconfig(tmp_path / "config")
    look = look_once(quick(kubeconfig=kubeconfig))
    assert {source.source.status for source in look.ray} == {"ok"}
    role = granted(root, "base/clusterrole.yaml")
    assert granted(root, "out-of-cluster/clusterrole.yaml") == {PROXY}
    assert asked(fleet) == lists(role) | {PROXY}
    namespaces = {call.namespace for call in fleet.kube.calls if call.resource == PROXY[1]}
    assert namespaces == {cluster.namespace for cluster in fleet.fleet.clusters}


@pytest.mark.usefixtures("in_cluster")
def test_the_service_asks_for_exactly_what_the_role_grants(root: Path, fleet: FleetServer) -> None:
    role = granted(root, "base/clusterrole.yaml")
    run_until(quick(), lambda: asked(fleet) >= role)
    assert asked(fleet) == role


@pytest.mark.usefixtures("in_cluster")
def test_the_service_in_one_namespace_asks_for_no_more(root: Path, fleet: FleetServer) -> None:
    (cluster,) = fleet.fleet.clusters
    wide = granted(root, "namespaced/clusterrole.yaml")
    narrow = granted(root, "namespaced/role.yaml")
    run_until(quick(namespaces=cluster.namespace), lambda: asked(fleet) >= wide | narrow)
    assert asked(fleet, lambda call: not call.namespace) == wide
    assert asked(fleet, lambda call: call.namespace == cluster.namespace) == narrow
    assert {call.namespace for call in fleet.kube.calls} == {"", cluster.namespace}
