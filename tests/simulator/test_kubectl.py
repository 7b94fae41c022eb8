"""The real ``kubectl`` against the simulated API: what people and findings type."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulator.fleet import FleetBuilder
from simulator.fleet_server import FleetServer
from tests.simulator.conftest import wait_for

pytestmark = pytest.mark.kubectl

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[FleetServer]:
    def make():
        return (
            FleetBuilder()
            .cluster("ml", "train")
            .slices("v6e", "4x4", 2)
            .gang("train-a", "v6e-4x4-0")
            .fault("crash_loop", slice_name="v6e-4x4-1", worker=2)
            .build()
        )

    with FleetServer(make) as running:
        yield running


@pytest.fixture(scope="module")
def environment(server: FleetServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("kube")
    path = server.kube.write_kubeconfig(folder / "kubeconfig", namespace="ml")
    return {**os.environ, "KUBECONFIG": str(path), "HOME": str(folder)}


@pytest.fixture
def kubectl(environment: dict[str, str]) -> Kubectl:
    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            ["kubectl", *arguments], env=environment, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_get_pods_wide(kubectl: Kubectl) -> None:
    header, *rows = kubectl("get", "pods", "-A", "-o", "wide").splitlines()
    assert header.split()[:6] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert len(rows) == 9
    assert sum("CrashLoopBackOff" in row for row in rows) == 1
    assert all(row.split()[0] == "ml" for row in rows)


def test_labels_as_columns_and_selectors(kubectl: Kubectl) -> None:
    out = kubectl("get", "nodes", "-L", "cloud.google.com/gke-tpu-topology")
    assert out.count("4x4") >= 8
    names = kubectl("get", "pods", "-l", "ray.io/node-type in (head)", "-o", "name").split()
    assert len(names) == 1
    assert names[0].startswith("pod/train-head-")


def test_describe_a_pod_shows_environment_and_events(kubectl: Kubectl) -> None:
    rows = kubectl("get", "pods", "--no-headers").splitlines()
    bad = next(row.split()[0] for row in rows if "CrashLoopBackOff" in row)
    text = kubectl("describe", "pod", bad)
    assert "TPU_WORKER_ID:" in text
    assert "google.com/tpu:  4" in text
    assert "BackOff" in text
    assert "Back-off restarting failed container" in text


def test_other_things_that_findings_suggest(kubectl: Kubectl) -> None:
    assert "numOfHosts: 4" in kubectl("get", "raycluster", "train", "-o", "yaml")
    assert "train" in kubectl("describe", "raycluster", "train")
    assert "train-headless" in kubectl("get", "svc", "-l", "ray.io/headless-worker-svc=train")
    assert "BackOff" in kubectl("get", "events", "--field-selector", "reason=BackOff")
    node = kubectl("get", "nodes", "-o", "name").split()[-1]
    assert "Non-terminated Pods" in kubectl("describe", node)
    assert kubectl("get", node, "-o", "jsonpath={.status.allocatable.pods}") == "110"
    assert "rayclusters" in kubectl("api-resources")
    assert 'pods "nope" not found' in kubectl("get", "pod", "nope", code=1)


def test_watch(environment: dict[str, str], server: FleetServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("w") as sink:
        watch = subprocess.Popen(
            ["kubectl", "get", "pods", "-w", "--no-headers"], env=environment, stdout=sink
        )
    try:
        wait_for(lambda: len(out.read_text().splitlines()) == 9)
        found = server.kube.store.all("pods")[-1].obj
        server.kube.store.remove("pods", found["metadata"]["name"], "ml")
        wait_for(lambda: len(out.read_text().splitlines()) == 10)
        assert out.read_text().splitlines()[-1].startswith(found["metadata"]["name"])
        server.kube.store.put("pods", found)
    finally:
        watch.terminate()
        watch.wait(10)


def test_delete_waits_until_the_pod_is_gone(kubectl: Kubectl, server: FleetServer) -> None:
    extra = server.kube.store.all("pods")[-1].obj
    server.kube.store.put(
        "pods", {**extra, "metadata": {**extra["metadata"], "name": "extra", "uid": ""}}
    )
    assert 'pod "extra" deleted' in kubectl("delete", "pod", "extra")
    assert server.kube.store.get("pods", "extra", "ml") is None


def test_exec_and_logs(kubectl: Kubectl, server: FleetServer, monkeypatch) -> None:
    name = kubectl("get", "pods", "-l", "ray.io/node-type=head", "-o", "name").strip()
    monkeypatch.setattr(server.kube, "exec_env", lambda _: {"PATH": os.environ["PATH"], "A": "7"})
    monkeypatch.setattr(server.kube, "logs", lambda _: "one\ntwo\n")
    assert kubectl("exec", name, "--", "sh", "-c", "echo $A") == "7\n"
    assert "exit code 3" in kubectl("exec", name, "--", "sh", "-c", "exit 3", code=3)
    assert "not found in $PATH" in kubectl("exec", name, "--", "no-such-program", code=1)
    assert kubectl("logs", name, "--tail=1") == "two\n"
