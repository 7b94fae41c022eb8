from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fetching import FetchError, HttpTransport, http_failure, next_delay
from tests.collectors.servers import Answer, Server


async def fetch(url: str, **options: float) -> bytes:
    transport = HttpTransport(url, **options)  # type: ignore[arg-type]
    try:
        return await transport.get("/x", {"Authorization": "Bearer t"})
    finally:
        await transport.aclose()


def failing(url: str, **options: float) -> FetchError:
    with pytest.raises(FetchError) as caught:
        asyncio.run(fetch(url, **options))
    assert caught.value.detail.isprintable()
    return caught.value


@pytest.fixture
def never() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_an_answer(server: Server) -> None:
    server.routes["/base/x"] = Answer(b"hello")
    assert asyncio.run(fetch(f"{server.url}/base/")) == b"hello"
    assert server.requests[0].headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (Answer(b"who are you", 401), "unauthorized", "who are you"),
        (Answer(b'{"msg": "no such token"}', 403), "forbidden", "no such token"),
        (Answer(b"404: Not Found", 404), "not_found", "404"),
        (Answer(b"slow down", 429, {"Retry-After": "7"}), "rate_limited", "slow down"),
        (Answer(b'{"result": false, "msg": "GCS"}', 500), "server_error", "GCS"),
        (Answer(b"<html><b>bad</b> gateway</html>", 502), "server_error", "bad gateway"),
        (Answer(b"", 503), "server_error", "503"),
        (Answer(b"", 504), "timed_out", "504"),
        (Answer(b"", 302, {"Location": "https://login/"}), "unreachable", "https://login/"),
        (Answer(b"", 418), "not_found", "418"),
        (Answer(b"{", claimed_length=999), "truncated", "middle"),
        (Answer(b"x" * 2048), "too_large", "MAX_BODY"),
    ],
)
def test_failures(server: Server, answer: Answer, reason: str, words: str) -> None:
    server.routes["/x"] = answer
    error = failing(server.url, max_body=1024)
    assert error.reason == reason
    assert words in error.detail
    assert error.retry_after == (7.0 if reason == "rate_limited" else None)


def test_kubernetes_speaks_for_the_head_behind_its_proxy() -> None:
    body = b'{"kind":"Status","message":"no endpoints available for service","code":503}'
    assert http_failure(503, {}, body).reason == "refused"
    body = b'{"kind":"Status","message":"error trying to reach service: EOF","code":502}'
    assert http_failure(502, {}, body).reason == "unreachable"


def test_nobody_listens(free_port: int) -> None:
    assert failing(f"http://127.0.0.1:{free_port}").reason == "refused"


def test_no_such_name() -> None:
    error = failing("http://no-such-host.invalid:8265")
    assert (error.reason, error.detail) == ("unreachable", "the host name does not resolve")


def test_no_answer_in_time(server: Server, never: threading.Event) -> None:
    server.routes["/x"] = Answer(wait_for=never)
    error = failing(server.url, timeout=0.2)
    assert (error.reason, error.detail) == ("timed_out", "no answer within 0.2 s")


def test_tls_where_there_is_none(server: Server) -> None:
    error = failing(server.url.replace("http:", "https:"))
    assert error.reason == "unreachable"
    assert "TLS" in error.detail


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-OpenSSH_9.6\r\n"])
def test_what_is_no_http(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        error = failing(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert error.reason == "unreachable"


@pytest.mark.parametrize("url", ["http://", "http://[::1", "ftp://host", "http://host:99999"])
def test_addresses_that_are_none(url: str) -> None:
    assert failing(url).reason == "unreachable"


def test_one_request_at_a_time(server: Server) -> None:
    server.routes["/x"] = Answer(b"hello")

    async def many() -> None:
        transport = HttpTransport(server.url)
        await asyncio.gather(*(transport.get("/x", {}) for _ in range(8)))
        await transport.aclose()

    asyncio.run(many())
    assert len(server.requests) == 8
    assert server.most_in_flight == 1


@given(
    st.floats(1, 3600),
    st.integers(0, 10**9),
    st.floats(0, 1),
    st.none() | st.floats(0, 300),
)
def test_delays(interval: float, failures: int, spread: float, wish: float | None) -> None:
    delay = next_delay(interval, failures, spread, retry_after=wish)
    assert delay >= 0.9 * interval
    assert delay >= 0.9 * (wish or 0)
    assert delay <= 1.1 * max(interval, 60, wish or 0) + 1e-6
    if failures <= 1 and not wish:
        assert delay <= 1.1 * interval + 1e-6


def test_delays_grow_with_failures() -> None:
    delays = [next_delay(10, failures, 0.5) for failures in range(6)]
    assert delays == [10, 10, 20, 40, 60, 60]
