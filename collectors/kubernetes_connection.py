"""The connection to Kubernetes: the official client's credentials, raw bytes.

The client finds the address, certificates and tokens (kubeconfig with its exec plugins, or the
in-cluster account) and renews them; its models are not used, as they are 30 times slower than
msgspec. It is imported when a connection is made and not before: a bundle needs none of it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

from collectors.fetching import (
    ERROR_BODY,
    MEBIBYTE,
    FetchError,
    clock_skew,
    failure,
    http_failure,
    too_large,
)
from collectors.loose_json import shorten

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class NoKubernetes(Exception):  # noqa: N818 - an answer, not a failure
    """There is no kubeconfig and no in-cluster account: Ray stands alone here."""


class KubernetesConnection:
    """GETs below the API server's address. Threads may share it (its pool of connections does)."""

    def __init__(
        self,
        client: Any,
        *,
        context: str | None,
        in_cluster: bool,
        timeout: float = 10.0,
        max_body: int = 128 * MEBIBYTE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.context = context
        self.in_cluster = in_cluster
        self._client = client
        self._clock = clock
        self._timeout = timeout
        self._max_body = max_body

    @property
    def host(self) -> str:
        """The API server's address."""
        return str(self._client.configuration.host).rstrip("/")

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> bytes:
        """The body of a 200 answer.

        Raises:
            FetchError: anything else, with the API's own words.
        """
        return self._get(path, headers or {})[0]

    def ping(self) -> float | None:
        """Ask for the server's version, which every account may: does it answer at all?

        Returns:
            Seconds by which its clock is ahead of ours; ``None`` where it does not say.

        Raises:
            FetchError: no answer, or a refusal.
        """
        _, response = self._get("/version", {})
        return clock_skew(response.headers.get("date"), self._clock())

    def _get(self, path: str, headers: Mapping[str, str]) -> tuple[bytes, Any]:
        import urllib3

        try:
            # The total bounds each wait, not their sum: a body that drips is bounded by _body.
            response = self._request(path, headers, urllib3.Timeout(total=self._timeout))
            try:
                return self._body(response, time.monotonic() + self._timeout), response
            finally:
                response.release_conn()
                response.close()
        except FetchError:
            raise
        except Exception as error:  # noqa: BLE001 - urllib3, ssl, exec plugins: all are "no answer"
            raise failure(error, self._timeout) from None

    def open_stream(self, path: str, *, silence: float, most: float) -> Stream:
        """A GET whose answer comes line by line, as a watch's does.

        Args:
            path: below the API server's address.
            silence: seconds without a byte after which the connection counts as dead.
            most: seconds after which the stream is ended, whatever comes.

        Raises:
            FetchError: the answer is not a 200, or does not begin within the usual timeout.
        """
        import urllib3

        try:
            response = self._request(path, {}, urllib3.Timeout(total=self._timeout))
            if response.status != 200:
                try:
                    self._body(response, time.monotonic() + self._timeout)
                finally:
                    response.release_conn()
                    response.close()
            return Stream(response, silence=silence, most=most, longest=self._max_body)
        except FetchError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise failure(error, self._timeout) from None

    def _request(self, path: str, headers: Mapping[str, str], timeout: Any) -> Any:
        return self._client.rest_client.pool_manager.request(
            "GET",
            f"{self.host}{path}",
            headers=self._headers(headers),
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Our headers and the client's credentials, renewed by the client where they expire."""
        found = {"Accept": "application/json", "User-Agent": "slicewatch", **headers}
        for setting in self._client.configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                found[setting["key"]] = setting["value"]
        return found

    def _body(self, response: Any, deadline: float) -> bytes:
        """The body of a 200 answer, within the limits on its size and its time."""
        limit = self._max_body if response.status == 200 else ERROR_BODY
        body = bytearray()
        for piece in _pieces(response):
            body += piece
            if len(body) > limit:
                break
            if time.monotonic() > deadline:
                raise FetchError("timed_out", f"no whole answer within {self._timeout:g} s")
        if response.status != 200:
            raise http_failure(response.status, response.headers, bytes(body[:limit]))
        if len(body) > limit:
            raise too_large(limit)
        return bytes(body)

    def close(self) -> None:
        """Give the connections back."""
        self._client.rest_client.pool_manager.clear()


READ = 256 * 1024
"""Bytes a read: as few wake-ups as a large list needs, and no wait for a whole one of them."""


def _pieces(response: Any) -> Iterator[bytes]:
    """The body as it comes, without waiting for more than is there."""
    if response.chunked:
        yield from response.read_chunked(READ, decode_content=True)
        return
    while piece := response.read1(READ, decode_content=True):
        yield piece


class Stream:
    """An answer that goes on: its lines, until the server ends it, it falls silent, or we close it.

    One thread reads, and calls :meth:`finish` in the end; any other may :meth:`close`.
    """

    def __init__(self, response: Any, *, silence: float, most: float, longest: int) -> None:
        self._response = response
        self._silence = silence
        self._until = time.monotonic() + most
        self._longest = longest
        self._closed = False
        self._lock = threading.Lock()
        self._socket = _socket_of(response)
        if self._socket is not None:
            self._socket.settimeout(silence)

    def lines(self) -> Iterator[bytes]:
        """Each line without its end. Ends where the server ends the answer, or after ``most``.

        Raises:
            FetchError: the connection broke, fell silent, or ended within a line.
        """
        rest = b""
        try:
            for piece in _pieces(self._response):
                *whole, rest = (rest + piece).split(b"\n")
                yield from (line for line in whole if line.strip())
                if len(rest) > self._longest:
                    raise too_large(self._longest)
                if time.monotonic() > self._until or self._closed:
                    break
        except FetchError:
            raise
        except Exception as error:  # noqa: BLE001 - urllib3, ssl, a socket closed under us
            if self._closed:
                return
            raise failure(error, self._silence) from None
        if rest.strip():
            raise FetchError("truncated", "the watch broke in the middle of a line")

    def close(self) -> None:
        """End it from any thread; the one that waits for the next line wakes up."""
        self._closed = True
        with self._lock:
            if self._socket is not None:
                with suppress(OSError, ValueError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Give the connection up. Only for the thread that reads, and always at its end."""
        with self._lock:
            self._socket = None
            with suppress(Exception):
                self._response.close()


def _socket_of(response: Any) -> Any:
    """The socket below a response; urllib3 has no public way to it once the server closes."""
    found = getattr(response.connection, "sock", None)
    if found is None:
        found = getattr(getattr(response, "_sock_shutdown", None), "__self__", None)
    return found


def connect(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    timeout: float = 10.0,
    max_body: int = 128 * MEBIBYTE,
    clock: Callable[[], float] = time.time,
) -> KubernetesConnection:
    """A connection by the kubeconfig that was named, the in-cluster account, or the usual one.

    Raises:
        NoKubernetes: none of them is there, and none was asked for.
        FetchError: one is there and cannot be used.
    """
    named = kubeconfig is not None or context is not None
    usual = kubeconfig or _usual_kubeconfig()
    in_cluster = not named and "KUBERNETES_SERVICE_HOST" in os.environ and _ACCOUNT.exists()
    if not in_cluster and usual is None:
        if named:
            raise FetchError("missing", "no kubeconfig is there to find the context in")
        raise NoKubernetes("no kubeconfig and no in-cluster account")
    try:
        client, name = _in_cluster() if in_cluster else _by_kubeconfig(str(usual), context)
    except Exception as error:  # noqa: BLE001 - yaml, exec plugins, keys that are no keys
        raise FetchError("unreachable", f"kubeconfig: {shorten(str(error), 200)}") from None
    return KubernetesConnection(
        client,
        context=name,
        in_cluster=in_cluster,
        timeout=timeout,
        max_body=max_body,
        clock=clock,
    )


def _usual_kubeconfig() -> str | None:
    """What ``kubectl`` would read: the files of $KUBECONFIG that exist, or ~/.kube/config."""
    variable = os.environ.get("KUBECONFIG", "")
    if variable:
        there = [path for path in variable.split(os.pathsep) if path and Path(path).exists()]
        return os.pathsep.join(there) or None
    usual = Path("~/.kube/config").expanduser()
    return str(usual) if usual.exists() else None


def _in_cluster() -> tuple[Any, str | None]:
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_incluster_config(client_configuration=configuration)
    return client.ApiClient(configuration), None


def _by_kubeconfig(path: str, context: str | None) -> tuple[Any, str | None]:
    from kubernetes import config

    # persist_config would write renewed tokens into the user's file: this only ever reads.
    client = config.new_client_from_config(path, context=context, persist_config=False)
    if context is None:
        _, active = config.list_kube_config_contexts(config_file=path)
        context = active.get("name") if active else None
    return client, context


class SharedConnection:
    """One connection for all who ask Kubernetes; made at first use, and anew after a drop."""

    def __init__(self, make: Callable[[], KubernetesConnection]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._connection: KubernetesConnection | None = None

    def get(self) -> KubernetesConnection:
        """The connection.

        Raises:
            FetchError: there is one to be made, and it cannot be.
        """
        with self._lock:
            if self._connection is None:
                self._connection = self._make()
            return self._connection

    def drop(self) -> None:
        """Close it; the next use reads the kubeconfig anew, as credentials may have changed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class ServiceProxyTransport:
    """A Ray head behind the API server's service proxy; see :class:`collectors.fetching.Transport`.

    Each GET runs in a thread of its own, as the official client is synchronous.
    """

    def __init__(
        self, shared: SharedConnection, base_path: str, executor: Executor | None = None
    ) -> None:
        """``executor`` runs the requests; heads that hang must not hold up anybody else's work."""
        self._shared = shared
        self._base_path = base_path.rstrip("/")
        self._executor = executor
        self._one = asyncio.Lock()

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        """See :class:`collectors.fetching.Transport`."""

        def get() -> bytes:
            return self._shared.get().get(f"{self._base_path}{path}", headers)

        async with self._one:
            return await asyncio.get_running_loop().run_in_executor(self._executor, get)

    async def aclose(self) -> None:
        """Nothing: the connection belongs to whoever made it."""
