from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.discovery import folder_name, ray_targets, split_folder
from collectors.fetching import HttpTransport
from collectors.kubernetes_connection import ServiceProxyTransport
from collectors.source_set import SourceSet
from fleet.observation import (
    KubernetesObservation,
    ObjectMeta,
    RayCluster,
    RayClusterHead,
    RayClusterStatus,
    Service,
    ServicePort,
    ServiceSpec,
    SourceStatus,
)
from settings import Settings
from tests.collectors.kube import kubeconfig


def kubernetes(*clusters: RayCluster, services: tuple[Service, ...] = ()) -> KubernetesObservation:
    return KubernetesObservation(
        source=SourceStatus(name="kubernetes", status="ok"),
        ray_clusters=clusters,
        services=services,
    )


def cluster(name: str | None, namespace: str | None = "ml", service: str = "") -> RayCluster:
    return RayCluster(
        metadata=ObjectMeta(name=name, namespace=namespace),
        status=RayClusterStatus(head=RayClusterHead(service_name=service)) if service else None,
    )


def test_addresses_of_heads() -> None:
    (target,) = ray_targets(kubernetes(cluster("train")))
    assert target.url == "http://train-head-svc.ml.svc:8265"
    assert target.proxy_path == "/api/v1/namespaces/ml/services/train-head-svc:8265/proxy"
    (target,) = ray_targets(kubernetes(cluster("train", None, service="my-head")))
    assert target.url == "http://my-head.default.svc:8265"


@pytest.mark.parametrize(("port", "expected"), [(9999, 9999), (None, 8265), (0, 8265), (-1, 8265)])
def test_the_services_own_port(port: int | None, expected: int) -> None:
    service = Service(
        metadata=ObjectMeta(name="train-head-svc", namespace="ml"),
        spec=ServiceSpec(
            ports=(ServicePort(name="gcs", port=1), ServicePort(name="dashboard", port=port))
        ),
    )
    (target,) = ray_targets(kubernetes(cluster("train"), services=(service,)))
    assert target.port == expected


@pytest.mark.parametrize("name", [None, "", "../x", "a/b", "a?b", "a b", "A", "x" * 300, "a\n"])
def test_names_that_are_none(name: str | None) -> None:
    assert ray_targets(kubernetes(cluster(name))) == ()
    assert ray_targets(kubernetes(cluster("a", name))) == () or not name
    if name:
        (target,) = ray_targets(kubernetes(cluster("train", service=name)))
        assert target.service == "train-head-svc"


def test_folders_and_names() -> None:
    assert split_folder("ml__train") == ("ml", "train")
    assert split_folder("default") == ("-", "default")
    assert split_folder("__x") == ("-", "__x")
    for key in (("ml", "train"), ("-", "default"), ("-", "10.0.0.1-8265")):
        assert split_folder(folder_name(*key)) == key


def test_inside_the_cluster_heads_are_reached_straight(tmp_path: Path) -> None:
    settings = Settings(kubeconfig=kubeconfig(tmp_path / "config", "http://127.0.0.1:1"))
    (target,) = ray_targets(kubernetes(cluster("train")))

    async def transports() -> tuple[object, object]:
        sources = SourceSet(settings)
        outside = sources.of(target)
        sources._in_cluster = True
        inside = sources.of(target)
        found = (outside._transport, inside._transport)
        await inside.aclose()
        sources.close()
        return found

    outside, inside = asyncio.run(transports())
    assert isinstance(outside, ServiceProxyTransport)
    assert isinstance(inside, HttpTransport)
    assert inside.base_url == "http://train-head-svc.ml.svc:8265"
