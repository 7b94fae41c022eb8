from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException

from simulator.http_server import Failure
from simulator.kube_api import KubeAPI
from simulator.ray_api import RayAPI
from tests.simulator.conftest import wait_for


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }


def trust(api: KubeAPI) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(api.server.certificate))


@pytest.fixture
def api() -> Iterator[KubeAPI]:
    with KubeAPI(bookmark_seconds=0.2) as running:
        for number in range(5):
            running.store.put("pods", pod(f"p{number}", kind="even" if number % 2 == 0 else "odd"))
        yield running


@pytest.fixture
def web(api: KubeAPI) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=api.url,
        verify=trust(api),
        headers={"Authorization": f"Bearer {api.token}"},
        trust_env=False,
        timeout=10,
    ) as client:
        yield client


@pytest.fixture
def core(api: KubeAPI, tmp_path: Path) -> Iterator[kubernetes.client.CoreV1Api]:
    path = api.write_kubeconfig(tmp_path / "kubeconfig", namespace="ml")
    with kubernetes.config.new_client_from_config(str(path)) as client:
        yield kubernetes.client.CoreV1Api(client)
        client.rest_client.pool_manager.clear()  # its own close() leaves the sockets open


def test_the_official_client_lists_selects_and_pages(core: kubernetes.client.CoreV1Api) -> None:
    assert len(core.list_pod_for_all_namespaces().items) == 5
    odd = core.list_namespaced_pod("ml", label_selector="kind in (odd)").items
    assert [item.metadata.name for item in odd] == ["p1", "p3"]
    assert core.list_namespaced_pod("other").items == []
    assert len(core.list_pod_for_all_namespaces(field_selector="spec.nodeName=n1").items) == 5
    names, token = [], None
    while True:
        page = core.list_pod_for_all_namespaces(limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == ["p0", "p1", "p2", "p3", "p4"]


def test_pages_show_one_moment(api: KubeAPI, core: kubernetes.client.CoreV1Api) -> None:
    first = core.list_pod_for_all_namespaces(limit=3)
    assert first.metadata.remaining_item_count == 2
    api.store.put("pods", pod("p9"))
    api.store.remove("pods", "p4", "ml")
    second = core.list_pod_for_all_namespaces(limit=3, _continue=first.metadata._continue)
    assert [item.metadata.name for item in second.items] == ["p3", "p4"]
    assert second.metadata.resource_version == first.metadata.resource_version


def test_an_old_continue_token_has_expired(api: KubeAPI, core: kubernetes.client.CoreV1Api) -> None:
    token = core.list_pod_for_all_namespaces(limit=2).metadata._continue
    api.store.compact()
    with pytest.raises(ApiException) as caught:
        core.list_pod_for_all_namespaces(limit=2, _continue=token)
    assert caught.value.status == 410
    assert json.loads(caught.value.body)["reason"] == "Expired"


def test_one_object_and_none(core: kubernetes.client.CoreV1Api) -> None:
    assert core.read_namespaced_pod("p1", "ml").metadata.labels == {"kind": "odd"}
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_pod("nope", "ml")
    assert caught.value.status == 404
    assert json.loads(caught.value.body)["message"] == 'pods "nope" not found'


def test_the_official_client_watches(api: KubeAPI, core: kubernetes.client.CoreV1Api) -> None:
    version = core.list_pod_for_all_namespaces().metadata.resource_version
    seen: list[tuple[str, str]] = []
    watch = kubernetes.watch.Watch()

    def follow() -> None:
        stream = watch.stream(
            core.list_pod_for_all_namespaces,
            resource_version=version,
            label_selector="kind=odd",
            timeout_seconds=5,
            _request_timeout=6,
        )
        for event in stream:
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 4:
                watch.stop()

    thread = threading.Thread(target=follow)
    thread.start()
    wait_for(lambda: api.failures.requests[("watch", "pods")])
    api.store.put("pods", pod("p0", kind="odd"))  # begins to match
    api.store.put("pods", pod("p2", kind="even", more="1"))  # never does
    api.store.put("pods", pod("p1", kind="odd", more="1"))
    api.store.put("pods", pod("p3", kind="even"))  # stops matching
    api.store.remove("pods", "p0", "ml")
    thread.join(10)
    assert seen == [("ADDED", "p0"), ("MODIFIED", "p1"), ("DELETED", "p3"), ("DELETED", "p0")]


def lines(web: httpx.Client, count: int, **query: str) -> list[dict[str, Any]]:
    """The first events of a watch."""
    found: list[dict[str, Any]] = []
    with web.stream("GET", "/api/v1/pods", params={"watch": "1", **query}) as answer:
        for line in answer.iter_lines():
            found.append(json.loads(line))
            if len(found) == count:
                break
    return found


def test_a_watch_from_zero_gives_all_objects_then_bookmarks(web: httpx.Client) -> None:
    events = lines(web, 7, resourceVersion="0", allowWatchBookmarks="true")
    assert [event["type"] for event in events] == ["ADDED"] * 5 + ["BOOKMARK"] * 2
    assert list(events[-1]["object"]["metadata"]) == ["resourceVersion"]


def test_a_watch_ends_with_a_bookmark_at_its_time(web: httpx.Client, api: KubeAPI) -> None:
    version = str(api.store.version)
    began = time.monotonic()
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
    text = web.get("/api/v1/pods", params={**query, "allowWatchBookmarks": "1"}).text
    assert 0.9 < time.monotonic() - began < 5
    assert {json.loads(line)["type"] for line in text.splitlines()} == {"BOOKMARK"}
    assert web.get("/api/v1/pods", params=query).text == ""


@pytest.mark.parametrize("version", ["1", "999999999", "what"])
def test_a_watch_from_a_version_that_is_not_kept_says_410(
    web: httpx.Client, api: KubeAPI, version: str
) -> None:
    api.store.compact()
    (event,) = lines(web, 1, resourceVersion=version)
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"


def test_open_watches_do_not_hold_up_the_end(api: KubeAPI, web: httpx.Client) -> None:
    with web.stream("GET", "/api/v1/pods", params={"watch": "1"}) as answer:
        next(answer.iter_lines())
        began = time.monotonic()
        api.stop()
        assert time.monotonic() - began < 4


def test_a_client_that_leaves_frees_its_watch(api: KubeAPI, web: httpx.Client) -> None:
    lines(web, 1)
    wait_for(lambda: not api._watches)


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}])
def test_without_the_token_nothing_but_the_version(api: KubeAPI, header: dict[str, str]) -> None:
    with httpx.Client(base_url=api.url, verify=trust(api), headers=header) as web:
        assert web.get("/api/v1/pods").status_code == 401
        assert web.get("/version").json()["gitVersion"].startswith("v1.")
        assert web.get("/healthz").text == "ok"


def test_refusals_are_the_real_apis(api: KubeAPI, core: kubernetes.client.CoreV1Api) -> None:
    api.failures.add(Failure("nodes", "list", 403))
    with pytest.raises(ApiException) as caught:
        core.list_node()
    body = json.loads(caught.value.body)
    assert body["reason"] == "Forbidden"
    assert 'cannot list resource "nodes" in API group ""' in body["message"]
    assert len(core.list_pod_for_all_namespaces().items) == 5
    api.failures.clear()
    assert core.list_node().items == []


def test_failures_for_a_number_of_requests(api: KubeAPI, web: httpx.Client) -> None:
    api.failures.add(Failure("pods", status=429, times=2))
    answers = [web.get("/api/v1/pods") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "1"
    assert api.failures.requests[("list", "pods")] == 3


def test_slow_and_spoilt_answers(api: KubeAPI, web: httpx.Client) -> None:
    api.failures.add(Failure("pods", latency=0.3, body="cut", times=1))
    began = time.monotonic()
    cut = web.get("/api/v1/pods")
    assert time.monotonic() - began >= 0.3
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
        cut.json()
    api.failures.add(Failure("pods", body="html", times=1))
    assert web.get("/api/v1/pods").headers["content-type"].startswith("text/html")


def test_a_group_that_is_not_served_is_not_found(web: httpx.Client) -> None:
    assert web.get("/apis/ray.io/v1/rayclusters").json()["items"] == []
    assert web.get("/apis/batch/v1/jobs").status_code == 404
    assert web.get("/openapi/v3").status_code == 404
    with (
        KubeAPI(served=frozenset({"pods"})) as bare,
        httpx.Client(
            base_url=bare.url,
            verify=trust(bare),
            headers={"Authorization": f"Bearer {bare.token}"},
        ) as other,
    ):
        assert other.get("/apis/ray.io/v1/rayclusters").status_code == 404
        assert other.get("/apis").json()["groups"] == []


def test_wrong_selectors_are_bad_requests(web: httpx.Client) -> None:
    answer = web.get("/api/v1/pods", params={"fieldSelector": "spec.what=1"})
    assert answer.status_code == 400
    assert "field label not supported: spec.what" in answer.json()["message"]


def test_tables_for_kubectl(web: httpx.Client) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = web.get("/api/v1/pods", params={"limit": "2"}, headers=accept).json()
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"][:3]] == [
        "Name",
        "Ready",
        "Status",
    ]
    assert [row["cells"][0] for row in table["rows"]] == ["p0", "p1"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["continue"]


def test_deleting_calls_whoever_is_in_charge(
    api: KubeAPI, core: kubernetes.client.CoreV1Api
) -> None:
    asked: list[str] = []

    def delete(plural: str, obj: dict[str, Any]) -> None:
        asked.append(obj["metadata"]["name"])
        api.store.remove(plural, obj["metadata"]["name"], "ml")

    api.on_delete = delete
    core.delete_namespaced_pod("p0", "ml")
    wait_for(lambda: api.store.get("pods", "p0", "ml") is None)
    assert asked == ["p0"]
    api.on_delete = None
    core.delete_namespaced_pod("p1", "ml")
    assert api.store.get("pods", "p1", "ml") is None


def test_merge_patches(api: KubeAPI, core: kubernetes.client.CoreV1Api) -> None:
    core.patch_namespaced_pod("p0", "ml", {"metadata": {"labels": {"kind": None, "new": "1"}}})
    found = api.store.get("pods", "p0", "ml")
    assert found is not None
    assert found["metadata"]["labels"] == {"new": "1"}


def test_the_service_proxy_reaches_what_is_behind(api: KubeAPI, web: httpx.Client) -> None:
    ports = [{"name": "dashboard", "port": 8265}]
    api.store.put(
        "services",
        {"metadata": {"name": "train-head-svc", "namespace": "ml"}, "spec": {"ports": ports}},
    )
    path = "/api/v1/namespaces/ml/services/{}/proxy/api/v0/nodes"
    assert web.get(path.format("train-head-svc:8265")).status_code == 503
    rows = [{"node_id": f"{number:02d}", "state": "ALIVE"} for number in range(3)]
    with RayAPI(lambda: {"nodes": rows}, token="secret") as ray:
        api.proxies[("ml", "train-head-svc")] = ray.url
        assert web.get(path.format("train-head-svc:8265")).status_code == 401, (
            "the API server keeps the Authorization header to itself"
        )
        own = {"X-Ray-Authorization": "Bearer secret"}
        for name in ("train-head-svc:8265", "train-head-svc:dashboard", "http:train-head-svc:8265"):
            found = web.get(path.format(name), params={"limit": "2", "detail": "1"}, headers=own)
            assert len(found.json()["data"]["result"]["result"]) == 2
        assert web.get(path.format("train-head-svc:1"), headers=own).status_code == 503
        assert web.get(path.format("other:8265"), headers=own).status_code == 404
    gone = web.get(path.format("train-head-svc:8265"), headers=own)
    assert gone.status_code == 503
    assert "error trying to reach service" in gone.json()["message"]


def test_exec_needs_the_token(api: KubeAPI) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    context = trust(api)
    address = api.url.replace("https", "wss")
    with (
        pytest.raises(InvalidStatus),
        connect(
            f"{address}/api/v1/namespaces/ml/pods/p0/exec?command=id&stdout=true",
            ssl=context,
            subprotocols=["v5.channel.k8s.io"],  # type: ignore[list-item]
        ),
    ):
        pass
