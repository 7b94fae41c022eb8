"""The sources that the settings name, and those that Kubernetes knows of."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from collectors.discovery import BARE_NAMESPACE, RayTarget, source_name
from collectors.fetching import MEBIBYTE, FetchError, HttpTransport, Transport
from collectors.kubernetes_api import ListSource, ObjectSource
from collectors.kubernetes_connection import (
    KubernetesConnection,
    NoKubernetes,
    ServiceProxyTransport,
    SharedConnection,
    connect,
)
from collectors.kubernetes_source import WatchSource
from collectors.ray_state import RaySource, TokenSource
from fleet.observation import RayObservation, SourceStatus
from settings import Settings, split_address

log = logging.getLogger("slicewatch.sources")

MOST_PROXIED = 128
"""Requests at once through the API server's proxy. They run in threads, made as needed: a few heads
that hang must not use up all there are."""

Key = tuple[str, str]
"""Namespace and name of a Ray cluster."""


class NothingToLookAt(Exception):  # noqa: N818 - shown as it is
    """Neither Kubernetes nor a Ray address: one line says what to give."""


class SourceSet:
    """Makes sources from settings. Holds the one Kubernetes connection that they share.

    Make it in the event loop that will use it: HTTP clients belong to a loop.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        watch: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Find the Kubernetes connection and name the Ray addresses.

        Args:
            settings: what to ask.
            watch: follow Kubernetes by watches, for whoever looks again and again.
            clock: epoch seconds.

        Raises:
            NothingToLookAt: there is nothing to ask.
        """
        self._settings = settings
        self._clock = clock
        self._token = TokenSource(settings.ray_token, settings.ray_token_file)
        self._shared = SharedConnection(self._connect)
        self._proxies = ThreadPoolExecutor(MOST_PROXIED, thread_name_prefix="ray-proxy")
        self._in_cluster = False
        self.addresses = named_addresses(settings.ray_addresses)
        self.kubernetes: ObjectSource | None = None
        if settings.asks_kubernetes and self._has_kubernetes():
            self.kubernetes = self._kubernetes(watch and settings.kubernetes_watch == "on")
        elif not self.addresses:
            raise NothingToLookAt(
                "no Kubernetes (kubeconfig or in-cluster account) and no Ray address: give "
                "--kubeconfig, --ray-address http://HOST:8265 or --bundle PATH"
            )

    def _kubernetes(self, watch: bool) -> ObjectSource:
        settings = self._settings
        if watch:
            return WatchSource(
                self._shared,
                namespaces=settings.namespaces,
                poll_interval=settings.poll_interval,
                patience=settings.request_timeout,
                clock=self._clock,
            )
        return ListSource(
            self._shared,
            namespaces=settings.namespaces,
            poll_interval=settings.poll_interval,
            clock=self._clock,
        )

    def _connect(self) -> KubernetesConnection:
        settings = self._settings
        try:
            connection = connect(
                kubeconfig=settings.kubeconfig,
                context=settings.kube_context,
                timeout=settings.request_timeout,
                max_body=settings.max_body_mebibytes * MEBIBYTE,
                clock=self._clock,
            )
        except NoKubernetes as error:
            raise FetchError("missing", str(error)) from None
        self._in_cluster = connection.in_cluster
        return connection

    def _has_kubernetes(self) -> bool:
        """Is a connection to be had? One that cannot be used is had, and down."""
        try:
            self._shared.get()
        except FetchError as error:
            return self._settings.kubernetes == "on" or error.reason != "missing"
        return True

    def bare(self) -> dict[Key, RaySource]:
        """Ray clusters by address alone."""
        return {
            key: self._source(key, self._http(url), url, "Authorization")
            for key, url in self.addresses.items()
        }

    def of(self, target: RayTarget) -> RaySource:
        """The source for a Ray cluster that Kubernetes knows."""
        if self._in_cluster:
            return self._source(target.key, self._http(target.url), target.url, "Authorization")
        transport = ServiceProxyTransport(self._shared, target.proxy_path, self._proxies)
        # The API server takes the first header for itself.
        return self._source(target.key, transport, target.proxy_path, "X-Ray-Authorization")

    def _source(self, key: Key, transport: Transport, address: str, header: str) -> RaySource:
        return RaySource(
            *key,
            transport,
            address=address,
            token=self._token,
            token_header=header,
            poll_interval=self._settings.poll_interval,
            clock=self._clock,
        )

    def _http(self, url: str) -> HttpTransport:
        verify = None
        if self._settings.ray_ca_file is not None and url.startswith("https:"):
            verify = ssl.create_default_context(cafile=str(self._settings.ray_ca_file))
        return HttpTransport(
            url,
            timeout=self._settings.request_timeout,
            max_body=self._settings.max_body_mebibytes * MEBIBYTE,
            verify=verify,
        )

    def close(self) -> None:
        """Give the Kubernetes connection back."""
        self._proxies.shutdown(wait=False, cancel_futures=True)
        if self.kubernetes is not None:
            self.kubernetes.close()
        self._shared.drop()


def named_addresses(addresses: tuple[str, ...]) -> dict[Key, str]:
    """Each Ray address by the name of its cluster.

    ``namespace/raycluster=URL`` and ``name=URL`` say it. A single plain URL is ``-/default``;
    several are named after their hosts, so that a name means the same in any order.
    """
    split = [split_address(address) for address in addresses]
    plain = sum(not name for name, _ in split)
    found: dict[Key, str] = {}
    for name, url in split:
        if "/" in name:
            namespace, _, cluster = name.partition("/")
        elif name:
            namespace, cluster = BARE_NAMESPACE, name
        elif plain == 1:
            namespace, cluster = BARE_NAMESPACE, "default"
        else:
            namespace, cluster = BARE_NAMESPACE, urlsplit(url).netloc.replace(":", "-")
        found[namespace, cluster] = url
    return found


def suspended_observation(target: RayTarget, poll_interval: float) -> RayObservation:
    """A suspended RayCluster: not asked, and not down."""
    return RayObservation(
        source=SourceStatus(
            name=source_name(*target.key),
            status="suspended",
            detail="the RayCluster is suspended",
            poll_interval_seconds=poll_interval,
        ),
        namespace=target.namespace,
        cluster=target.cluster,
    )


def unasked_status(name: str, poll_interval: float) -> SourceStatus:
    """A source that is known and has not answered yet: down, so that nothing of it looks well."""
    return SourceStatus(
        name=name,
        status="down",
        reason="missing",
        detail="no answer yet",
        complete=False,
        poll_interval_seconds=poll_interval,
    )


def unasked_observation(key: Key, poll_interval: float) -> RayObservation:
    """A Ray cluster that has not answered yet."""
    status = unasked_status(source_name(*key), poll_interval)
    return RayObservation(source=status, namespace=key[0], cluster=key[1])
