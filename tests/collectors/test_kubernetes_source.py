"""Watches against the simulated API server, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.kubernetes_source import WatchSource
from simulator.http_server import Failure
from simulator.kube_api import KubeAPI
from simulator.kube_store import KINDS
from tests.collectors.simulated import PARTS, event, fill, names, obj, pod, source_of, until


@pytest.fixture
def api() -> Iterator[KubeAPI]:
    with KubeAPI(token="", tls=False, bookmark_seconds=0.2) as running:
        yield running


@pytest.fixture
def watching(api: KubeAPI, tmp_path: Path) -> Iterator[Callable[..., WatchSource]]:
    made: list[WatchSource] = []

    def make(**options: Any) -> WatchSource:
        made.append(source_of(api.url, tmp_path, spread=lambda: 0.0, **options))
        return made[-1]

    yield make
    for source in made:
        source.close()
    left = [thread for thread in threading.enumerate() if thread.name.startswith("watch-")]
    assert left == []


def lists(api: KubeAPI) -> dict[str, int]:
    return {part: count for (verb, part), count in api.failures.requests.items() if verb == "list"}


def test_a_whole_look_and_then_only_what_changed(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    fill(api)
    source = watching()
    first = source.look()
    assert (first.source.status, first.source.complete) == ("ok", True)
    assert first.context == "demo"
    assert names(first.pods) == ["p0", "p1", "p2"]
    assert names(first.nodes) == ["node-p0", "node-p1", "node-p2"]
    assert names(first.ray_clusters) == ["train"]
    assert names(first.services) == ["train-head-svc"]
    assert (first.events, first.slices) == ((), ())
    second = source.look()
    assert all(getattr(first, part) is getattr(second, part) for part in PARTS)

    api.store.put("pods", pod("p3"))
    api.store.remove("pods", "p0", "ml")
    third = until(source, lambda look: names(look.pods) == ["p1", "p2", "p3"])
    assert [part for part in PARTS if getattr(third, part) is not getattr(first, part)] == ["pods"]
    assert third.pods is not None
    assert first.pods is not None
    assert third.pods[0] is first.pods[1]
    # One list a kind (events: in the namespace, and nodes' in default), whatever happens.
    assert lists(api) == {
        **dict.fromkeys(("pods", "nodes", "services", "rayclusters", "slices"), 1),
        "events": 2,
    }


def test_looks_cost_one_small_request_each(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    fill(api)
    source = watching()
    source.look()
    until(source, lambda _: len(api._watches) == 7)
    before = api.failures.requests.copy()
    for _ in range(20):
        source.look()
    assert api.failures.requests - before == {("get", ""): 20}


def test_nothing_but_what_was_heard(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    """A list that does not come in time is a missing part, never an empty one."""
    fill(api)
    slow = api.failures.add(Failure(part="pods", verb="list", latency=1.5))
    source = watching(patience=0.3)
    look = source.look()
    assert look.pods is None
    assert "pods" in look.source.missing
    assert "under way" in look.source.detail
    assert look.source.status == "degraded"
    assert look.ray_clusters
    api.failures.remove(slow)
    assert names(until(source, lambda look: look.source.status == "ok").pods) == ["p0", "p1", "p2"]
    assert lists(api)["pods"] == 1


def test_history_that_was_compacted_away(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    """410: one new list a kind, and what is not in it is gone."""
    fill(api)
    source = watching()
    first = source.look()
    cut = [api.failures.add(Failure(part=part, verb="watch", status=410)) for part in ("pods",)]
    api.store.remove("pods", "p1", "ml")
    api._end_streams()
    until(source, lambda look: lists(api)["pods"] >= 2)
    for failure in cut:
        api.failures.remove(failure)
    last = until(source, lambda look: names(look.pods) == ["p0", "p2"])
    assert first.pods is not None
    assert last.pods is not None
    assert last.pods[0] is first.pods[0]
    assert lists(api)["nodes"] == 1


def test_a_compacted_version_in_the_stream(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    fill(api)
    source = watching()
    source.look()
    stop = api.failures.add(Failure(verb="watch", status=500))
    api._end_streams()
    api.store.remove("pods", "p1", "ml")
    api.store.compact()
    api.failures.remove(stop)
    until(source, lambda look: names(look.pods) == ["p0", "p2"] and look.source.status == "ok")
    assert lists(api)["pods"] == 2


def test_a_cut_watch_loses_nothing(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    fill(api)
    source = watching(poll_interval=10.0)
    source.look()
    for number in range(3):
        api._end_streams()
        api.store.put("pods", pod(f"q{number}"))
        look = until(source, lambda look, name=f"q{number}": name in names(look.pods))  # type: ignore[misc]
        assert look.source.status == "ok"
    assert lists(api)["pods"] == 1


def test_a_refusal_names_verb_and_resource(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    fill(api)
    api.failures.add(Failure(part="services", verb="list", status=403))
    api.failures.add(Failure(part="nodes", verb="watch", status=403))
    source = watching()
    look = until(source, lambda look: look.nodes is None)
    assert (look.source.status, look.source.reason) == ("degraded", "forbidden")
    assert set(look.source.missing) == {"services", "nodes"}
    assert "may not list services in namespace ml" in look.source.detail
    assert "may not watch nodes (cluster-wide)" in look.source.detail
    assert look.pods
    api.failures.clear()
    until(source, lambda look: look.source.status == "ok")


def test_an_api_server_that_goes_away(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    """Nothing is shown as it was; one request a look, and all is back by itself."""
    fill(api)
    source = watching()
    source.look()
    api.failures.add(Failure(part="version", status=500))
    look = source.look()
    assert (look.source.status, look.source.reason) == ("down", "server_error")
    assert all(getattr(look, part) is None for part in PARTS)
    assert look.source.fetched_at is not None
    api.failures.clear()
    assert source.look().source.status == "ok"
    assert lists(api)["pods"] == 1


def test_no_kuberay_and_no_slices(tmp_path: Path) -> None:
    served = frozenset(KINDS) - {"rayclusters", "slices"}
    with KubeAPI(token="", tls=False, served=served) as api:
        source = source_of(api.url, tmp_path)
        look = source.look()
        source.close()
    assert (look.source.status, look.ray_clusters, look.slices) == ("ok", (), ())
    assert "KubeRay is not installed" in look.source.detail


def test_only_some_namespaces(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    for name in ("a", "b", "c"):
        fill(api, 1, name)
    look = watching(namespaces=("a", "b")).look()
    assert look.source.status == "ok"
    assert [item.metadata.namespace for item in look.pods or () if item.metadata] == ["a", "b"]
    assert len(look.services or ()) == len(look.ray_clusters or ()) == 2


def test_a_namespace_that_comes_and_goes(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    fill(api)
    source = watching()
    source.look()
    fill(api, 1, "late")
    look = until(source, lambda look: len(look.services or ()) == 2)
    assert look.source.status == "ok"
    api.store.remove("rayclusters", "train", "late")
    api.store.remove("pods", "p0", "late")
    until(source, lambda look: len(look.services or ()) == 1)
    threads = [t.name for t in threading.enumerate() if t.name == "watch-services"]
    until(
        source, lambda _: len([t for t in threading.enumerate() if t.name == "watch-services"]) == 1
    )
    assert threads


def test_many_namespaces_are_one_watch(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    for number in range(12):
        fill(api, 1, f"ns{number}")
    look = watching().look()
    assert look.source.status == "ok"
    assert len(look.services or ()) == 12
    assert lists(api)["services"] == lists(api)["events"] == 1


def test_nodes_that_heads_run_on(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    fill(api)
    api.store.put("pods", pod("head", node="cpu-1", spec={"nodeName": "cpu-1", "containers": []}))
    for number in range(5):
        api.store.put("nodes", obj(f"cpu-{number}"))
    source = watching()
    first = source.look()
    assert names(first.nodes) == ["cpu-1", "node-p0", "node-p1", "node-p2"]
    assert lists(api)["nodes"] == 1
    # Another node of no interest leaves the tuple the same.
    api.store.put("nodes", obj("cpu-9"))
    api.store.put("pods", pod("p9", node="cpu-1"))
    second = until(source, lambda look: "p9" in names(look.pods))
    assert second.nodes is first.nodes
    api.store.put("nodes", obj("cpu-1", spec={"unschedulable": True}))
    until(source, lambda look: look.nodes is not first.nodes)


def test_events_that_matter(api: KubeAPI, watching: Callable[..., WatchSource]) -> None:
    fill(api)
    for item in (
        event("e1", "Pod", "p0", reason="FailedScheduling", type="Warning"),
        event("e2", "Pod", "p0", reason="TriggeredScaleUp", type="Normal"),
        event("e3", "Pod", "p0", reason="Pulled", type="Normal"),
        event("e4", "Pod", "somebody-elses", type="Warning"),
        event("e5", "RayCluster", "train"),
        event("e6", "Job", "x"),
        event("e7", "Node", "node-p0", namespace="default"),
        event("e8", "Pod", "y", namespace="default"),
    ):
        api.store.put("events", item)
    source = watching()
    assert sorted(names(source.look().events)) == ["e1", "e2", "e5", "e7"]


def test_slices_matter_where_there_is_dynamic_slicing(
    api: KubeAPI, watching: Callable[..., WatchSource]
) -> None:
    fill(api)
    api.failures.add(Failure(part="slices", status=403))
    source = watching()
    assert source.look().source.status == "ok"
    label = {"cloud.google.com/gke-tpu-accelerator": "tpu7x"}
    api.store.put("nodes", obj("t7", labels=label))
    look = until(source, lambda look: look.source.status == "degraded")
    assert look.source.missing == ("slices",)
    assert look.slices is None


def test_a_token_that_rotates(tmp_path: Path) -> None:
    from tests.collectors.kube import kubeconfig

    with KubeAPI(token="new", tls=False) as api:
        fill(api)
        source = source_of(api.url, tmp_path, token="old")
        look = source.look()
        assert (look.source.status, look.source.reason) == ("down", "unauthorized")
        assert look.pods is None
        kubeconfig(tmp_path / "config", api.url, token="new")
        until(source, lambda look: look.source.status == "ok")
        source.close()


def test_over_tls(tmp_path: Path) -> None:
    from collectors.kubernetes_connection import SharedConnection, connect

    with KubeAPI() as api:
        fill(api)
        config = api.write_kubeconfig(tmp_path / "config")
        source = WatchSource(SharedConnection(lambda: connect(kubeconfig=config)))
        assert source.look().source.status == "ok"
        api.store.put("pods", pod("late"))
        until(source, lambda look: "late" in names(look.pods))
        source.close()
        assert not [t for t in threading.enumerate() if t.name.startswith("watch-")]


def test_clocks_that_differ(
    api: KubeAPI, watching: Callable[..., WatchSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api)
    source = watching()
    assert "clock" not in source.look().source.detail
    monkeypatch.setattr("collectors.kubernetes_connection.clock_skew", lambda date, now: -90.0)
    look = source.look()
    assert "its clock is 90 s behind ours" in look.source.detail
    assert look.source.status == "ok"
