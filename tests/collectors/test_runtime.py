from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors import judging
from collectors.bundle import read_bundle
from collectors.looks import look_once
from collectors.replaying import BundleRuntime, runtime_for
from collectors.runtime import Board, Runtime, stale_after
from collectors.source_set import NothingToLookAt, named_addresses
from diagnosis.snapshot import POLL_BUCKETS_SECONDS, Snapshot
from settings import Settings
from tests.collectors.kube import LISTS, items, kube, kubeconfig, named, refused
from tests.collectors.servers import Answer, Server, ray_head, serving

PROXY = "/api/v1/namespaces/ml/services/train-head-svc:8265/proxy"
WAIT = 15.0


def quick(**options: Any) -> Settings:
    return Settings(**{"poll_interval": 1.0, "request_timeout": 1.0, **options})


@pytest.fixture
def run() -> Iterator[Callable[..., Runtime]]:
    running: list[Runtime] = []

    def start(settings: Settings, **options: Any) -> Runtime:
        runtime = Runtime(settings, spread=lambda: 0.5, **options)
        runtime.start()
        running.append(runtime)
        return runtime

    yield start
    for runtime in running:
        runtime.stop()
    assert [t for t in threading.enumerate() if t.name == "slicewatch-runtime"] == []


def until(runtime: Runtime, wanted: Callable[[Snapshot], bool]) -> Snapshot:
    """The first snapshot that is as wanted."""
    deadline = time.monotonic() + WAIT
    snapshot = runtime.wait_for_snapshot(WAIT)
    while snapshot is not None and not wanted(snapshot):
        left = deadline - time.monotonic()
        assert left > 0, snapshot.observation
        snapshot = runtime.wait_for_snapshot(left, newer_than=snapshot)
    assert snapshot is not None
    return snapshot


def status(snapshot: Snapshot, name: str) -> str:
    return {source.name: source.status for source in snapshot.report.fleet.sources}.get(name, "-")


def test_a_bare_ray_cluster(server: Server, run: Callable[..., Runtime]) -> None:
    ray_head(server, nodes=[{"node_id": "a", "state": "ALIVE", "is_head_node": True}])
    seen: list[Snapshot] = []
    runtime = run(quick(ray_addresses=server.url), listeners=[seen.append])
    snapshot = until(runtime, lambda _: True)
    assert snapshot.observation.kubernetes is None
    assert status(snapshot, "ray:-/default") == "ok"
    assert snapshot.observation.now == round(snapshot.observation.now, 3)
    until(runtime, lambda new: new is not snapshot)
    assert seen[0] is snapshot
    assert runtime.problem is None
    (stats,) = snapshot.stats
    assert stats.source == "ray:-/default"
    assert len(stats.bucket_counts) == len(POLL_BUCKETS_SECONDS) + 1
    assert stats.bucket_counts[-1] == stats.polls >= 1
    assert stats.errors == {}


def test_a_head_that_dies_and_comes_back(server: Server, run: Callable[..., Runtime]) -> None:
    ray_head(server, nodes=[{"node_id": "a"}])
    good = dict(server.routes)
    runtime = run(quick(ray_addresses=server.url))
    until(runtime, lambda new: status(new, "ray:-/default") == "ok")
    server.routes = dict.fromkeys(good, Answer(b"", 500))
    dead = until(runtime, lambda new: status(new, "ray:-/default") == "down")
    assert dead.observation.ray[0].nodes is None
    assert dead.observation.ray[0].source.fetched_at is not None
    assert until(runtime, lambda new: bool(new.stats[0].errors.get("server_error")))
    server.routes = good
    until(runtime, lambda new: status(new, "ray:-/default") == "ok")


def test_one_that_hangs_holds_up_nobody(server: Server, run: Callable[..., Runtime]) -> None:
    never = threading.Event()
    ray_head(server)
    with serving() as stuck:
        ray_head(stuck)
        stuck.routes["/api/v0/nodes"] = Answer(wait_for=never)
        runtime = run(
            quick(ray_addresses=(f"good={server.url}", f"stuck={stuck.url}"), request_timeout=3)
        )
        until(
            runtime,
            lambda new: status(new, "ray:-/good") == "ok" and status(new, "ray:-/stuck") == "down",
        )
        asked = server.paths().count("/api/v0/nodes")
        assert asked >= 2
        assert asked > stuck.paths().count("/api/v0/nodes")
        never.set()


def proxied(server: Server, tmp_path: Path, **options: Any) -> Settings:
    config = kubeconfig(tmp_path / "config", server.url)
    return quick(kubeconfig=config, kubernetes_watch="off", **options)


def test_through_the_service_proxy(
    server: Server, run: Callable[..., Runtime], tmp_path: Path
) -> None:
    kube(server)
    ray_head(server, PROXY, nodes=[{"node_id": "a"}])
    runtime = run(proxied(server, tmp_path, ray_token="r4y"))
    snapshot = until(runtime, lambda new: status(new, "ray:ml/train") == "ok")
    assert status(snapshot, "kubernetes") == "ok"
    assert snapshot.observation.ray[0].nodes
    request = next(item for item in server.requests if item.path.startswith(PROXY))
    assert request.headers["X-Ray-Authorization"] == "Bearer r4y"
    assert request.headers["authorization"] == "Bearer t0ken"
    for item in server.requests:
        if not item.path.startswith(PROXY):
            assert "X-Ray-Authorization" not in item.headers


def test_ray_clusters_come_and_go(
    server: Server, run: Callable[..., Runtime], tmp_path: Path
) -> None:
    kube(server)
    ray_head(server, PROXY)
    runtime = run(proxied(server, tmp_path))
    until(runtime, lambda new: status(new, "ray:ml/train") == "ok")
    suspended = {**named("train"), "spec": {"suspend": True}}
    server.json(LISTS["rayclusters"], items(suspended))
    until(runtime, lambda new: status(new, "ray:ml/train") == "suspended")
    server.requests.clear()
    until(runtime, lambda _: server.paths().count(LISTS["pods"]) >= 2)
    assert not [path for path in server.paths() if path.startswith(PROXY)]
    server.json(LISTS["rayclusters"], items(named("train")))
    until(runtime, lambda new: status(new, "ray:ml/train") == "ok")
    # Silence about RayClusters is not their end.
    server.routes[LISTS["rayclusters"]] = refused(500)
    snapshot = until(runtime, lambda new: status(new, "kubernetes") != "ok")
    assert status(snapshot, "ray:ml/train") == "ok"
    server.json(LISTS["rayclusters"], items())
    until(runtime, lambda new: status(new, "ray:ml/train") == "-")


def test_a_named_address_goes_before_the_proxy(
    server: Server, run: Callable[..., Runtime], tmp_path: Path
) -> None:
    kube(server)
    with serving() as head:
        ray_head(head, nodes=[{"node_id": "a"}])
        runtime = run(proxied(server, tmp_path, ray_addresses=f"ml/train={head.url}"))
        snapshot = until(runtime, lambda new: status(new, "ray:ml/train") == "ok")
    assert len(snapshot.observation.ray) == 1
    assert not [path for path in server.paths() if path.startswith(PROXY)]


def test_kubernetes_down_leaves_ray(
    server: Server, run: Callable[..., Runtime], tmp_path: Path, free_port: int
) -> None:
    ray_head(server)
    config = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{free_port}")
    runtime = run(quick(kubeconfig=config, ray_addresses=server.url))
    snapshot = until(runtime, lambda new: status(new, "ray:-/default") == "ok")
    assert status(snapshot, "kubernetes") == "down"


def test_what_one_poll_shows_is_confirmed_soon(server: Server, run: Callable[..., Runtime]) -> None:
    """The second look comes in about 2 s, not after the whole interval."""
    frames = Path(__file__).parent.parent / "bundles" / "real_host_lost" / "frames"

    def serve(frame: str) -> None:
        for path in (frames / frame / "ray" / "default").iterdir():
            name = path.stem if path.stem == "cluster_status" else f"v0/{path.stem}"
            server.json(f"/api/{name}", json.loads(path.read_text()))

    serve("0001")
    runtime = run(quick(ray_addresses=server.url, poll_interval=6.0), clock=lambda: 1796094777.0)
    before = until(runtime, lambda _: True)
    known = {finding.key for finding in before.report.findings}
    serve("0004")
    until(runtime, lambda new: bool({item.key for item in new.report.unconfirmed} - known))
    shown = time.monotonic()
    until(runtime, lambda new: bool({item.key for item in new.report.findings} - known))
    assert time.monotonic() - shown < 4.0


def test_an_error_of_ours_leaves_the_thread_alive(
    server: Server,
    run: Callable[..., Runtime],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ray_head(server)
    real = judging.build_fleet
    broken = threading.Event()
    failed = threading.Event()

    def build(*args: Any, **options: Any) -> Any:
        if broken.is_set():
            failed.set()
            raise ZeroDivisionError("ours")
        return real(*args, **options)

    monkeypatch.setattr(judging, "build_fleet", build)
    runtime = run(quick(ray_addresses=server.url))
    before = until(runtime, lambda _: True)
    with caplog.at_level(logging.ERROR):
        broken.set()
        for _ in range(3):
            failed.clear()
            assert failed.wait(WAIT)
    assert runtime.snapshot() is not None
    assert "ours" in (runtime.problem or "")
    assert len([record for record in caplog.records if "judged" in record.message]) == 1
    broken.clear()
    until(runtime, lambda new: new.published_at > before.published_at and not runtime.problem)


def test_a_listener_that_fails(caplog: pytest.LogCaptureFixture, bundles: Path) -> None:
    runtime = BundleRuntime(bundles / "healthy_idle")
    runtime.start()
    snapshot = runtime.snapshot()
    assert snapshot is not None
    got: list[Snapshot] = []

    def fail(_: Snapshot) -> None:
        raise ZeroDivisionError

    board = Board([fail, got.append])
    board.publish(snapshot)
    assert got == [snapshot]
    assert "listener" in caplog.text


def test_start_and_stop(server: Server) -> None:
    ray_head(server)
    runtime = Runtime(quick(ray_addresses=server.url))
    runtime.stop()
    assert runtime.snapshot() is None
    assert runtime.wait_for_snapshot(0.0) is None
    for _ in range(2):
        runtime.start()
        with pytest.raises(RuntimeError):
            runtime.start()
        assert runtime.wait_for_snapshot(WAIT)
        runtime.stop()
    assert not [t for t in threading.enumerate() if t.name == "slicewatch-runtime"]


def test_nothing_to_look_at() -> None:
    with pytest.raises(NothingToLookAt, match="--ray-address"):
        Runtime(Settings()).start()
    with pytest.raises(NothingToLookAt):
        look_once(Settings(kubernetes="off"))


def test_stale_after() -> None:
    assert stale_after(Settings()) == 40.0
    assert stale_after(Settings(poll_interval=60)) == 190.0


# --- one look ---------------------------------------------------------------------------------


def test_look_once(server: Server, tmp_path: Path) -> None:
    clusters = [
        named("train"),
        {**named("asleep"), "spec": {"suspend": True}},
        named("gone"),
        named("../../etc"),
    ]
    kube(server, rayclusters=clusters)
    ray_head(server, PROXY)
    said: list[str] = []
    look = look_once(proxied(server, tmp_path), said.append)
    states = {item.source.name: (item.source.status, item.source.reason) for item in look.ray}
    assert states == {
        "ray:ml/asleep": ("suspended", None),
        "ray:ml/gone": ("down", "not_found"),
        "ray:ml/train": ("ok", None),
    }
    assert said[0] == "asking Kubernetes"
    assert "ray:ml/train: ok" in said
    assert not [path for path in server.paths() if ".." in path]


def test_look_once_with_nobody_there(free_port: int) -> None:
    look = look_once(quick(ray_addresses=f"127.0.0.1:{free_port}"))
    assert (look.ray[0].source.status, look.ray[0].source.reason) == ("down", "refused")


def test_a_head_service_with_a_port_of_its_own(server: Server, tmp_path: Path) -> None:
    cluster = {**named("train"), "status": {"head": {"serviceName": "my-head"}}}
    service = {**named("my-head"), "spec": {"ports": [{"name": "dashboard", "port": 9999}]}}
    kube(server, rayclusters=[cluster], services=[service])
    ray_head(server, "/api/v1/namespaces/ml/services/my-head:9999/proxy")
    assert look_once(proxied(server, tmp_path)).ray[0].source.status == "ok"


def test_names_of_addresses() -> None:
    assert named_addresses(("http://a:8265",)) == {("-", "default"): "http://a:8265"}
    assert named_addresses(("a:1", "b:2")) == {
        ("-", "a-1"): "http://a:1",
        ("-", "b-2"): "http://b:2",
    }
    assert named_addresses(("x=a:1", "ml/t=b:2", "c:3")) == {
        ("-", "x"): "http://a:1",
        ("ml", "t"): "http://b:2",
        ("-", "default"): "http://c:3",
    }


# --- bundles ----------------------------------------------------------------------------------


def test_a_bundle_in_the_place_of_a_cluster(bundles: Path) -> None:
    runtime = BundleRuntime(bundles / "real_host_lost")
    assert runtime.snapshot() is None
    runtime.start()
    snapshot = runtime.snapshot()
    assert snapshot is not None
    assert runtime.wait_for_snapshot(0.0) is snapshot
    assert runtime.wait_for_snapshot(9.0, newer_than=snapshot) is None
    frames = read_bundle(bundles / "real_host_lost")
    assert snapshot.observation == frames[-1]
    assert snapshot.report.findings
    first = runtime.snapshot_after(0)
    assert first.observation == frames[0]
    with pytest.raises(IndexError):
        runtime.snapshot_after(4)
    runtime.stop()


def test_the_settings_say_which(bundles: Path) -> None:
    assert isinstance(runtime_for(Settings()), Runtime)
    got: list[Snapshot] = []
    runtime = runtime_for(Settings(bundle=bundles / "healthy_idle"), [got.append])
    runtime.start()
    assert got == [runtime.snapshot()]


# --- what counts as two looks -----------------------------------------------------------------


def test_a_blip_of_one_source_is_not_confirmed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine's memory moves on once each source has answered anew."""
    calls: list[tuple[int, object]] = []

    def judge(fleet: object, memory: int, thresholds: object) -> tuple[object, int]:
        calls.append((memory, fleet))
        return ("report", memory + 1)

    monkeypatch.setattr(judging, "judge", judge)
    monkeypatch.setattr(judging, "build_fleet", lambda observation, **_: observation)

    class Nothing(int):
        looks = 0

    monkeypatch.setattr(judging, "Memory", Nothing)
    each = judging.Judging(Settings().thresholds)

    def look(kubernetes: int, ray: int, **failing: int) -> int:
        each.judge((kubernetes, ray), {"kubernetes": kubernetes, "ray": ray} | failing)  # type: ignore[arg-type]
        return calls[-1][0]

    assert look(1, 1) == 0  # the first look
    assert look(1, 2) == 1  # judged as a second one, and forgotten
    assert look(2, 2) == 1  # the second
    assert look(2, 3) == 1  # only Ray is new: a better version of the second
    assert look(2, 4) == 1
    assert look(3, 4) == 2  # both are new: the third
    each.judge((3, 5), {"ray": 5})  # type: ignore[arg-type]  # Kubernetes fails and holds up nothing
    assert calls[-1][0] == 3
    assert look(4, 6) == 4
