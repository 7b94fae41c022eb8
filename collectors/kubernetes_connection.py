"""The connection to Kubernetes: the official client's credentials, raw bytes.

The client finds the address, certificates and tokens (kubeconfig with its exec plugins, or the
in-cluster account) and renews them; its models are not used, as they are 30 times slower than
msgspec. It is imported when a connection is made and not before: a bundle needs none of it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from collectors.fetching import ERROR_BODY, MEBIBYTE, FetchError, failure, http_failure, too_large
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
    ) -> None:
        self.context = context
        self.in_cluster = in_cluster
        self._client = client
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
        import urllib3

        timeout = urllib3.Timeout(total=self._timeout)
        try:
            response = self._client.rest_client.pool_manager.request(
                "GET",
                f"{self.host}{path}",
                headers=self._headers(headers or {}),
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                return self._body(response)
            finally:
                response.release_conn()
                response.close()
        except FetchError:
            raise
        except Exception as error:  # noqa: BLE001 - urllib3, ssl, exec plugins: all are "no answer"
            raise failure(error, self._timeout) from None

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Our headers and the client's credentials, renewed by the client where they expire."""
        found = {"Accept": "application/json", "User-Agent": "slicewatch", **headers}
        for setting in self._client.configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                found[setting["key"]] = setting["value"]
        return found

    def _body(self, response: Any) -> bytes:
        limit = self._max_body if response.status == 200 else ERROR_BODY
        body = response.read(limit + 1, decode_content=True)
        if response.status != 200:
            raise http_failure(response.status, response.headers, body)
        if len(body) > limit:
            raise too_large(limit)
        return bytes(body)

    def close(self) -> None:
        """Give the connections back."""
        self._client.rest_client.pool_manager.clear()


def connect(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    timeout: float = 10.0,
    max_body: int = 128 * MEBIBYTE,
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
        client, context=name, in_cluster=in_cluster, timeout=timeout, max_body=max_body
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

    def __init__(self, shared: SharedConnection, base_path: str) -> None:
        self._shared = shared
        self._base_path = base_path.rstrip("/")

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        """See :class:`collectors.fetching.Transport`."""

        def get() -> bytes:
            return self._shared.get().get(f"{self._base_path}{path}", headers)

        return await asyncio.to_thread(get)

    async def aclose(self) -> None:
        """Nothing: the connection belongs to whoever made it."""
