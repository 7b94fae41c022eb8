from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from collectors.fetching import HttpTransport
from collectors.ray_state import RaySource, TokenSource
from fleet.observation import RayObservation
from tests.collectors.servers import RAY_PARTS, Answer, Request, Server, ray_answer, ray_head

API = [f"/api/v0/{part}" for part in RAY_PARTS]
WHOLE = [*API, "/api/cluster_status", "/api/version"]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def looks(
    server: Server,
    count: int = 1,
    *,
    between: object = None,
    token: TokenSource | None = None,
    header: str = "Authorization",
    timeout: float = 5.0,
    clock: Clock | None = None,
) -> list[RayObservation]:
    async def run() -> list[RayObservation]:
        source = RaySource(
            "ml",
            "train",
            HttpTransport(server.url, timeout=timeout, max_body=1 << 21),
            address=server.url,
            token=token,
            token_header=header,
            clock=clock or Clock(),
        )
        found = []
        for index in range(count):
            if index and callable(between):
                between()
            found.append(await source.look())
        await source.aclose()
        return found

    return asyncio.run(run())


def test_a_whole_look(server: Server) -> None:
    ray_head(server, nodes=[{"node_id": "a"}], jobs=[{"job_id": "1"}])
    (look,) = looks(server)
    assert look.source.status == "ok"
    assert look.source.fetched_at == 1000.0
    assert look.source.complete
    assert [node.node_id for node in look.nodes or ()] == ["a"]
    assert look.tasks == ()
    assert look.version == "2.60.0"
    assert look.cluster_status == "fine"
    assert server.paths() == WHOLE
    for request in server.requests[:5]:
        assert request.query == {"detail": ["1"], "limit": ["10000"]}
    assert server.most_in_flight == 1


def test_the_version_is_asked_once(server: Server) -> None:
    ray_head(server)
    first, second = looks(server, 2)
    assert second.version == first.version
    assert server.paths().count("/api/version") == 1


@pytest.mark.parametrize("part", RAY_PARTS)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(b"GCS", 500), "server_error"),
        (Answer(b'{"result": false, "msg": "no"}'), "server_error"),
        (Answer(b"", 403), "forbidden"),
        (Answer(b"", 404), "not_found"),
        (Answer(b"junk"), "not_json"),
        (Answer(b"<html>"), "not_json"),
        (Answer(b'{"result": tr'), "truncated"),
        (Answer(b"{", claimed_length=999), "truncated"),
        (Answer(b"null"), "malformed"),
        (Answer(b" " * (3 << 20)), "too_large"),
    ],
)
def test_one_failing_part_leaves_the_others(
    server: Server, part: str, answer: Answer, reason: str
) -> None:
    ray_head(server)
    server.routes[f"/api/v0/{part}"] = answer
    (look,) = looks(server)
    assert (look.source.status, look.source.reason) == ("degraded", reason)
    assert look.source.missing == (part,)
    assert not look.source.complete
    assert getattr(look, part) is None
    others = [other for other in RAY_PARTS if other != part]
    assert all(getattr(look, other) == () for other in others)
    assert server.paths()[:5] == API


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Answer(b"", 401), "unauthorized"), (Answer(b"", 429), "rate_limited")],
)
def test_what_makes_further_questions_pointless(
    server: Server, answer: Answer, reason: str
) -> None:
    ray_head(server)
    server.routes["/api/v0/nodes"] = answer
    (look,) = looks(server)
    assert (look.source.status, look.source.reason) == ("down", reason)
    assert look.source.missing == RAY_PARTS
    assert server.paths() == API[:1]


def test_a_head_that_is_not_there(server: Server, free_port: int) -> None:
    server.url = f"http://127.0.0.1:{free_port}"
    (look,) = looks(server)
    assert (look.source.status, look.source.reason) == ("down", "refused")
    assert look.source.fetched_at is None
    assert look.nodes is None


def test_slow_parts(server: Server) -> None:
    """One that times out leaves the others; a second one ends the look."""
    never = threading.Event()
    ray_head(server)
    server.routes["/api/v0/actors"] = Answer(wait_for=never)
    (look,) = looks(server, timeout=0.3)
    assert look.source.missing == ("actors",)
    assert (look.source.status, look.source.reason) == ("degraded", "timed_out")
    server.routes["/api/v0/placement_groups"] = Answer(wait_for=never)
    server.requests.clear()
    (look,) = looks(server, timeout=0.3)
    assert look.source.missing == ("placement_groups", "actors", "tasks", "jobs")
    assert server.paths() == API[:3]
    server.routes["/api/v0/nodes"] = Answer(wait_for=never)
    server.requests.clear()
    (look,) = looks(server, timeout=0.3)
    assert (look.source.status, look.source.reason) == ("down", "timed_out")
    assert server.paths() == API[:1]
    never.set()


def test_lost_rows(server: Server) -> None:
    ray_head(server)
    server.json("/api/v0/nodes", ray_answer([{"node_id": "a"}], total=11_000))
    server.json("/api/v0/tasks", ray_answer([], partial_failure_warning="1 node is silent"))
    (look,) = looks(server)
    assert (look.source.status, look.source.reason) == ("degraded", "truncated")
    assert [(item.part, item.total, item.rows) for item in look.source.truncated] == [
        ("nodes", 11_000, 1),
        ("tasks", -1, 0),
    ]
    assert "1 node is silent" in look.source.detail


def test_the_autoscalers_text_is_worth_a_remark_only(server: Server) -> None:
    ray_head(server)
    server.routes["/api/cluster_status"] = Answer(b"x", 500)
    server.routes["/api/version"] = Answer(b"x", 500)
    (look,) = looks(server)
    assert (look.source.status, look.source.complete) == ("ok", True)
    assert "cluster_status" in look.source.detail
    assert look.version is None


def test_old_rows_do_not_outlive_an_answer(server: Server) -> None:
    clock = Clock()
    ray_head(server, nodes=[{"node_id": "a"}])

    def fail() -> None:
        clock.now += 10
        for path in API:
            server.routes[path] = Answer(b"", 500)

    good, bad = looks(server, 2, between=fail, clock=clock)
    assert good.source.fetched_at == 1000.0
    assert bad.source.status == "down"
    assert bad.nodes is None
    assert bad.source.fetched_at == 1000.0
    assert bad.version is None


def tasks(count: int, state: str, start: int = 0) -> list[dict[str, object]]:
    return [
        {"task_id": f"{n:08x}", "attempt_number": 0, "state": state}
        for n in range(start, start + count)
    ]


@pytest.mark.parametrize("knows_filters", [True, False])
def test_more_tasks_than_ray_lists(server: Server, knows_filters: bool) -> None:
    """All that are not finished come by a second question; a server that ignores it is cut off."""
    ray_head(server)
    first = ray_answer(tasks(10_000, "FINISHED"), total=90_000)
    rest = ray_answer(tasks(3, "RUNNING", start=50_000), total=80_003)

    def answer(request: Request) -> Answer:
        filtered = request.query.get("filter_values") == ["FINISHED"]
        return Answer(json.dumps(rest if filtered and knows_filters else first).encode())

    server.routes["/api/v0/tasks"] = answer
    (look,) = looks(server)
    assert server.paths().count("/api/v0/tasks") == 2
    running = [task for task in look.tasks or () if task.state == "RUNNING"]
    if knows_filters:
        assert (len(look.tasks or ()), len(running)) == (10_003, 3)
        assert (look.source.status, look.source.complete) == ("ok", True)
        assert "finished" in look.source.detail
    else:
        assert look.source.truncated[0].total == 90_000
        assert look.source.status == "degraded"


# --- tokens -----------------------------------------------------------------------------------


def secured(server: Server, header: str, token: str) -> None:
    ray_head(server)
    good = dict(server.routes)

    def check(request: Request) -> Answer:
        if request.headers.get(header) != f"Bearer {token}":
            return Answer(b"Unauthorized: Missing authentication token", 401)
        answer = good[request.path]
        assert isinstance(answer, Answer)
        return answer

    server.routes.update(dict.fromkeys(good, check))


@pytest.mark.parametrize("header", ["Authorization", "X-Ray-Authorization"])
def test_a_token(server: Server, header: str) -> None:
    secured(server, header, "s3cret")
    source = TokenSource(SecretStr("s3cret\n"))
    assert looks(server, token=source, header=header)[0].source.status == "ok"


def test_no_token_and_a_wrong_one(server: Server) -> None:
    secured(server, "Authorization", "s3cret")
    (look,) = looks(server)
    assert look.source.reason == "unauthorized"
    assert "RAY_AUTH_TOKEN" in look.source.detail
    (look,) = looks(server, token=TokenSource(SecretStr("wr0ng")))
    assert look.source.reason == "unauthorized"
    assert "does not accept the token" in look.source.detail
    assert "wr0ng" not in str(look)


def test_a_token_file_that_rotates(server: Server, tmp_path: Path) -> None:
    secured(server, "Authorization", "new")
    file = tmp_path / "token"
    file.write_text("old")

    def rotate() -> None:
        file.write_text("new\n")

    first, second = looks(server, 2, between=rotate, token=TokenSource(file=file))
    assert (first.source.status, second.source.status) == ("down", "ok")


@pytest.mark.parametrize("text", [None, "a\nb", "ä", "\x00"])
def test_token_files_that_hold_no_token(server: Server, tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "token").write_text(text)
    (look,) = looks(server, token=TokenSource(file=tmp_path / "token"))
    assert (look.source.status, look.source.reason) == ("down", "unauthorized")
    assert server.requests == []


def test_a_recorded_head(server: Server, bundles: Path) -> None:
    """What a real head answered, over HTTP again, is what the bundle's reader makes of it."""
    from collectors.bundle import read_bundle

    folder = bundles / "real_running" / "ray" / "default"
    for path in folder.iterdir():
        name = path.stem if path.stem == "cluster_status" else f"v0/{path.stem}"
        server.json(f"/api/{name}", json.loads(path.read_text()))
    (look,) = looks(server)
    (recorded,) = read_bundle(bundles / "real_running")
    for part in (*RAY_PARTS, "cluster_status"):
        assert getattr(look, part) == getattr(recorded.ray[0], part)
