from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from collectors.fetching import FetchError
from collectors.kubernetes_api import ListSource
from collectors.kubernetes_connection import NoKubernetes, SharedConnection, connect
from fleet.observation import KubernetesObservation
from tests.collectors.kube import EMPTY, LISTS, items, kube, kubeconfig, named, paged, refused
from tests.collectors.servers import Answer, Request, Server


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def config(server: Server, tmp_path: Path) -> Path:
    return kubeconfig(tmp_path / "config", server.url)


def source_of(config: Path, *, timeout: float = 5.0, **options: object) -> ListSource:
    def make() -> object:
        return connect(kubeconfig=config, timeout=timeout, max_body=1 << 20)

    return ListSource(SharedConnection(make), clock=Clock(), **options)  # type: ignore[arg-type]


def look(config: Path, **options: object) -> KubernetesObservation:
    source = source_of(config, **options)  # type: ignore[arg-type]
    try:
        return source.look()
    finally:
        source.close()


def test_a_whole_look(server: Server, config: Path) -> None:
    pod = named("p", spec={"nodeName": "tpu-1"})
    service = named("train-head-svc")
    kube(server, pods=[pod], nodes=[named("tpu-1", None)], services=[service])
    found = look(config)
    assert found.source.status == "ok"
    assert (found.source.complete, found.source.fetched_at) == (True, 1000.0)
    assert found.context == "demo"
    assert [item.metadata.name for item in found.pods or ()] == ["p"]
    assert [item.metadata.name for item in found.services or ()] == ["train-head-svc"]
    assert found.slices == ()
    queries = {request.path: request.query for request in server.requests}
    assert queries["/api/v1/pods"]["labelSelector"] == ["ray.io/is-ray-node=yes"]
    assert queries["/api/v1/nodes"]["labelSelector"] == ["cloud.google.com/gke-tpu-accelerator"]
    assert all(query["limit"] == ["500"] for query in queries.values())
    assert server.requests[0].headers["authorization"] == "Bearer t0ken"
    assert server.most_in_flight == 1


def test_pages(server: Server, config: Path) -> None:
    kube(server)
    server.routes["/api/v1/pods"] = paged([named(f"p{n}") for n in range(1201)], 500)
    found = look(config)
    assert len(found.pods or ()) == 1201
    assert found.source.status == "ok"
    assert server.paths().count("/api/v1/pods") == 3


def test_a_list_that_expires_between_pages_begins_anew_once(server: Server, config: Path) -> None:
    kube(server)
    whole = paged([named(f"p{n}") for n in range(30)], 10)
    expired = iter([True, False, False, False])

    def answer(request: Request) -> Answer:
        if "continue" in request.query and next(expired, True):
            return refused(410, "the provided continue parameter is too old")
        return whole(request)

    server.routes["/api/v1/pods"] = answer
    found = look(config)
    assert (len(found.pods or ()), found.source.status) == (30, "ok")
    server.routes["/api/v1/pods"] = lambda request: (
        refused(410) if "continue" in request.query else whole(request)
    )
    found = look(config)
    assert (len(found.pods or ()), found.source.reason) == (10, "truncated")
    assert found.source.truncated[0].part == "pods"


def test_a_list_without_end(server: Server, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.kubernetes_lists.MOST_PAGES", 3)
    kube(server)
    server.json("/api/v1/pods", items(named("p"), token="more"))
    found = look(config)
    assert found.source.truncated[0].rows == 3
    assert "too many pages" in found.source.detail


@pytest.mark.parametrize("part", ["pods", "nodes", "services", "events", "rayclusters"])
def test_a_refusal_names_verb_and_resource(server: Server, config: Path, part: str) -> None:
    kube(server)
    message = f'{part} is forbidden: User "u" cannot list resource "{part}"'
    server.routes[LISTS[part]] = refused(403, message)
    if part == "rayclusters":  # then nobody knows the namespace
        for name in ("services", "events"):
            server.json(f"/api/v1/{name}", items())
    found = look(config)
    assert (found.source.status, found.source.reason) == ("degraded", "forbidden")
    assert found.source.missing == ("ray_clusters" if part == "rayclusters" else part,)
    assert f"may not list {part}" in found.source.detail
    assert message in found.source.detail


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refused(500, "etcd"), "server_error"),
        (Answer(b"junk"), "not_json"),
        (Answer(b'{"items": ['), "truncated"),
        (Answer(b"{", claimed_length=999), "truncated"),
        (Answer(b"{}"), "malformed"),
        (Answer(b" " * (2 << 20)), "too_large"),
    ],
)
def test_one_failing_part_leaves_the_others(
    server: Server, config: Path, answer: Answer, reason: str
) -> None:
    kube(server, pods=[named("p")])
    server.routes[LISTS["events"]] = answer
    found = look(config)
    assert (found.source.status, found.source.reason) == ("degraded", reason)
    assert found.source.missing == ("events",)
    assert found.events is None
    assert found.pods
    assert found.ray_clusters


def test_refused_credentials_read_the_kubeconfig_anew(server: Server, tmp_path: Path) -> None:
    kube(server)
    good = dict(server.routes)

    def check(request: Request) -> Answer:
        if request.headers.get("authorization") != "Bearer new":
            return refused(401, "Unauthorized")
        answer = good[request.path]
        return answer if isinstance(answer, Answer) else answer(request)

    server.routes.update(dict.fromkeys(good, check))
    config = kubeconfig(tmp_path / "config", server.url, token="old")
    source = source_of(config)
    found = source.look()
    assert (found.source.status, found.source.reason) == ("down", "unauthorized")
    assert len(server.requests) == 1
    kubeconfig(config, server.url, token="new")
    assert source.look().source.status == "ok"
    source.close()


def test_nobody_listens(tmp_path: Path, free_port: int) -> None:
    found = look(kubeconfig(tmp_path / "config", f"http://127.0.0.1:{free_port}"))
    assert (found.source.status, found.source.reason) == ("down", "refused")
    assert found.pods is None
    assert found.context == "demo"


def test_no_answer_in_time(server: Server, config: Path) -> None:
    never = threading.Event()
    kube(server)
    server.routes[LISTS["rayclusters"]] = Answer(wait_for=never)
    found = look(config, timeout=0.3)
    never.set()
    assert (found.source.status, found.source.reason) == ("down", "timed_out")
    assert len(server.requests) == 1


def test_a_last_good_time(server: Server, config: Path) -> None:
    kube(server)
    source = source_of(config)
    assert source.look().source.fetched_at == 1000.0
    Clock.now = 1010.0
    for path in server.routes:
        server.routes[path] = refused(500)
    bad = source.look()
    source.close()
    Clock.now = 1000.0
    assert (bad.source.status, bad.source.fetched_at) == ("down", 1000.0)
    assert bad.pods is None


def test_nodes_without_tpu_that_pods_run_on(server: Server, config: Path) -> None:
    """Few are asked for by name; a deleted one is in no answer, and that is the answer."""
    pods = [named(f"p{n}", spec={"nodeName": name}) for n, name in enumerate(("tpu", "cpu", "x"))]
    kube(server, pods=pods)
    nodes = {"tpu": named("tpu", None), "cpu": named("cpu", None), "other": named("other", None)}

    def answer(request: Request) -> Answer:
        names = ["tpu"] if "labelSelector" in request.query else list(nodes)
        if "fieldSelector" in request.query:
            names = [request.query["fieldSelector"][0].removeprefix("metadata.name=")]
        rows = [nodes[name] for name in names if name in nodes]
        return Answer(json.dumps(items(*rows)).encode())

    server.routes["/api/v1/nodes"] = answer
    assert sorted(node.metadata.name for node in look(config).nodes or ()) == ["cpu", "tpu"]
    assert server.paths().count("/api/v1/nodes") == 3
    pods += [named(f"q{n}", spec={"nodeName": f"c{n}"}) for n in range(30)]
    server.json("/api/v1/pods", items(*pods))
    server.requests.clear()
    assert sorted(node.metadata.name for node in look(config).nodes or ()) == ["cpu", "tpu"]
    assert server.paths().count("/api/v1/nodes") == 2


def test_events_of_other_kinds_are_left_out(server: Server, config: Path) -> None:
    def event(kind: str) -> dict[str, object]:
        return named(f"e-{kind}", involvedObject={"kind": kind, "name": "x"})

    kube(server, events=[event(kind) for kind in ("Pod", "RayCluster", "Job", "Deployment")])
    server.json("/api/v1/namespaces/default/events", items(event("Node")))
    kinds = [item.involved_object.kind for item in look(config).events or ()]
    assert kinds == ["Pod", "RayCluster", "Node"]


def test_only_some_namespaces(server: Server, config: Path) -> None:
    kube(server)
    for name in EMPTY:
        if name != "nodes":
            server.json(f"/api/v1/namespaces/a/{name}", items())
            server.json(f"/api/v1/namespaces/b/{name}", items())
    for name in ("a", "b"):
        server.json(f"/apis/ray.io/v1/namespaces/{name}/rayclusters", items(named("c", name)))
    found = look(config, namespaces=("a", "b"))
    assert found.source.status == "ok"
    assert len(found.ray_clusters or ()) == 2
    cluster_wide = {"/api/v1/nodes", LISTS["slices"]}
    assert {path for path in server.paths() if "/namespaces/" not in path} == cluster_wide


def test_no_kuberay(server: Server, config: Path) -> None:
    kube(server)
    server.routes[LISTS["rayclusters"]] = Answer(b"404 page not found", 404)
    for name in ("services", "events"):
        server.json(f"/api/v1/{name}", items())
    found = look(config)
    assert (found.ray_clusters, found.source.status) == ((), "ok")
    assert "KubeRay is not installed" in found.source.detail


@pytest.mark.parametrize(
    ("accelerator", "status"), [("tpu-v6e-slice", "ok"), ("tpu7x", "degraded")]
)
def test_slices_matter_where_there_is_dynamic_slicing(
    server: Server, config: Path, accelerator: str, status: str
) -> None:
    labels = {"cloud.google.com/gke-tpu-accelerator": accelerator}
    kube(server, nodes=[{"metadata": {"name": "n", "labels": labels}}])
    server.routes[LISTS["slices"]] = refused(403, "slices is forbidden")
    found = look(config)
    assert found.slices is None
    assert found.source.status == status


# --- connections ------------------------------------------------------------------------------


def test_no_kubeconfig_at_all() -> None:
    with pytest.raises(NoKubernetes):
        connect()


def test_kubeconfigs_that_do_not_help(tmp_path: Path) -> None:
    with pytest.raises(FetchError) as caught:
        connect(context="demo")
    assert caught.value.reason == "missing"
    with pytest.raises(FetchError, match="kubeconfig"):
        connect(kubeconfig=tmp_path / "nothing")
    (tmp_path / "junk").write_text("{[")
    with pytest.raises(FetchError, match="kubeconfig"):
        connect(kubeconfig=tmp_path / "junk")
    with pytest.raises(FetchError, match="kubeconfig"):
        connect(kubeconfig=kubeconfig(tmp_path / "c", "http://h"), context="nobody")


def test_the_usual_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{config}")
    connection = connect()
    assert (connection.context, connection.host) == ("demo", "http://127.0.0.1:1")
    assert not connection.in_cluster
    assert connect(context="other").context == "other"


def test_the_token_is_in_no_message(server: Server, tmp_path: Path) -> None:
    kube(server)
    server.routes[LISTS["pods"]] = refused(500)
    config = kubeconfig(tmp_path / "config", server.url, token="s3cret")
    assert "s3cret" not in repr(look(config))
