"""Ray's state API over HTTP: one Ray cluster, asked one thing at a time.

The head answers these calls from one thread, at most 100 at a time (then 429), so a poll is a
sequence, not a burst. ``limit=10000`` is always sent: the server's default of 100 makes a cluster
of 101 hosts look smaller than it is, without a warning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from pydantic import SecretStr

from collectors.decoding import (
    ROW_LIMIT,
    Decoded,
    decode_cluster_status,
    decode_ray,
    decode_version,
)
from collectors.discovery import source_name
from collectors.fetching import FetchError, Transport
from collectors.sources import RAY_NEEDED, Part, summarise
from fleet.observation import RayObservation, SourceStatus, TpuSample

ROW_PARTS = ("nodes", "placement_groups", "actors", "tasks", "jobs")
"""In this order: without nodes the rest means nothing."""

VERSION_AGE = 600.0
"""Seconds for which Ray's version is remembered: it changes with the head, and only then."""

UNFINISHED = "filter_keys=state&filter_predicates=!%3D&filter_values=FINISHED"
"""Ray filters tasks by state before it cuts the list, unlike all other rows."""

_HOPELESS = frozenset({"refused", "unreachable", "unauthorized", "rate_limited"})
"""Reasons after which asking the same server for the next part helps nobody."""


class TokenSource:
    """The token for clusters with token authentication: given, or in a file that may rotate."""

    def __init__(self, token: SecretStr | None = None, file: Path | None = None) -> None:
        self._token = token
        self._file = file

    def read(self) -> str | None:
        """The token now, or ``None`` where none is set.

        Raises:
            FetchError: the file cannot be read, or holds what no header can carry.
        """
        if self._token is not None:
            text = self._token.get_secret_value()
        elif self._file is not None:
            try:
                with self._file.open(encoding="utf-8") as file:
                    text = file.read(64 * 1024)
            except (OSError, UnicodeDecodeError) as error:
                raise FetchError(
                    "unauthorized", f"the token file cannot be read ({type(error).__name__})"
                ) from None
        else:
            return None
        text = text.strip()
        if not text.isascii() or any(not char.isprintable() for char in text):
            raise FetchError("unauthorized", "the token holds characters that no header can carry")
        return text or None


class RaySource:
    """One Ray cluster. :meth:`look` never raises for what the cluster does."""

    def __init__(
        self,
        namespace: str,
        cluster: str,
        transport: Transport,
        *,
        address: str,
        token: TokenSource | None = None,
        token_header: str = "Authorization",  # noqa: S107
        poll_interval: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A source.

        Args:
            namespace: of the RayCluster; ``-`` outside Kubernetes.
            cluster: its name; ``default`` outside Kubernetes.
            transport: how the head is reached.
            address: for people.
            token: read at each poll.
            token_header: ``X-Ray-Authorization`` where a proxy owns ``Authorization``.
            poll_interval: the nominal pace, for the status.
            clock: epoch seconds.
        """
        self.name = source_name(namespace, cluster)
        self.namespace = namespace
        self.cluster = cluster
        self.address = address
        self.retry_after: float | None = None
        self._transport = transport
        self._token = token or TokenSource()
        self._token_header = token_header
        self._poll_interval = poll_interval
        self._clock = clock
        self._last_good: float | None = None
        self._version: tuple[str, float] | None = None

    async def look(self) -> RayObservation:
        """Ask for everything once. Failures are in ``source``, their parts ``None``."""
        parts: dict[str, Part] = {}
        remarks: list[str] = []
        status_text: str | None = None
        with_token = False
        try:
            token = self._token.read()
            with_token = token is not None
            headers = {self._token_header: f"Bearer {token}"} if token else {}
        except FetchError as error:
            parts = {part: Part(reason=error.reason, detail=error.detail) for part in ROW_PARTS}
            return self._observation(parts, None, remarks)
        for part in ROW_PARTS:
            stop = _stop(parts)
            if stop is not None:
                parts[part] = stop
                continue
            path = f"/api/v0/{part}?detail=1&limit={ROW_LIMIT}"
            parts[part] = await self._rows(part, path, headers, with_token)
            if part == "tasks" and _at_the_limit(parts[part]):
                rest = await self._rows(part, f"{path}&{UNFINISHED}", headers, with_token)
                parts[part] = _with_all_unfinished(parts[part], rest, remarks)
        if _stop(parts) is None:
            status_text = await self._status_text(headers, parts)
            await self._refresh_version(headers)
        return self._observation(parts, status_text, remarks)

    async def _rows(
        self, part: str, path: str, headers: Mapping[str, str], with_token: bool
    ) -> Part:
        try:
            body = await self._transport.get(path, headers)
        except FetchError as error:
            return Part(
                reason=error.reason,
                detail=_explain(error, with_token),
                retry_after=error.retry_after,
            )
        return Part(decoded=decode_ray(part, body))

    async def _status_text(self, headers: Mapping[str, str], parts: dict[str, Part]) -> str | None:
        """The autoscaler's text. No rule needs it, so its failure is a remark."""
        try:
            body = await self._transport.get("/api/cluster_status", headers)
        except FetchError as error:
            parts["cluster_status"] = Part(reason=error.reason, detail=error.detail)
            return None
        return decode_cluster_status(body)

    async def _refresh_version(self, headers: Mapping[str, str]) -> None:
        if self._version and self._clock() - self._version[1] < VERSION_AGE:
            return
        try:
            version = decode_version(await self._transport.get("/api/version", headers))
        except FetchError:
            return
        if version:
            self._version = (version, self._clock())

    def _observation(
        self, parts: Mapping[str, Part], status_text: str | None, remarks: list[str]
    ) -> RayObservation:
        now = self._clock()
        optional = parts.get("cluster_status")
        if optional is not None:
            remarks = [*remarks, f"cluster_status: {optional.detail}"]
        rows = {name: part for name, part in parts.items() if name in ROW_PARTS}
        status = summarise(
            self.name,
            rows,
            needed=RAY_NEEDED,
            fetched_at=now,
            poll_interval=self._poll_interval,
            remarks=remarks,
        )
        if status.fetched_at is not None:
            self._last_good = status.fetched_at
        else:
            self._version = None  # whatever comes back may be another one
            status = msgspec.structs.replace(status, fetched_at=self._last_good)
        waits = [part.retry_after for part in parts.values() if part.retry_after is not None]
        self.retry_after = max(waits, default=None)
        return observation_of(
            self,
            status,
            {name: part.decoded.rows if part.decoded else None for name, part in rows.items()},
            version=self._version[0] if self._version else None,
            cluster_status=status_text,
        )

    async def aclose(self) -> None:
        """Close the connection."""
        await self._transport.aclose()


def observation_of(
    source: RaySource,
    status: SourceStatus,
    rows: Mapping[str, tuple | None],
    *,
    version: str | None = None,
    cluster_status: str | None = None,
    tpu_samples: tuple[TpuSample, ...] | None = None,
) -> RayObservation:
    """One look at one Ray cluster, from its parts."""
    return RayObservation(
        source=status,
        namespace=source.namespace,
        cluster=source.cluster,
        address=source.address,
        version=version,
        nodes=rows.get("nodes"),
        placement_groups=rows.get("placement_groups"),
        actors=rows.get("actors"),
        tasks=rows.get("tasks"),
        jobs=rows.get("jobs"),
        cluster_status=cluster_status,
        tpu_samples=tpu_samples,
    )


def _stop(parts: Mapping[str, Part]) -> Part | None:
    """The failure that makes further questions pointless, to stand for the parts not asked.

    A part that times out leaves the others (a million tasks are slow, nodes are not), unless it
    is the first one or the second one to do so: then the head is stuck, and waiting out each of
    five timeouts would hold up the poll.
    """
    timeouts = 0
    for name, part in parts.items():
        if part.answered or part.reason is None:
            continue
        timeouts += part.reason == "timed_out"
        stuck = part.reason == "timed_out" and (name == "nodes" or timeouts > 1)
        if part.reason in _HOPELESS or stuck:
            return Part(reason=part.reason, detail=part.detail)
    return None


def _at_the_limit(part: Part) -> bool:
    rows = part.decoded.rows if part.decoded is not None else None
    return rows is not None and len(rows) >= ROW_LIMIT


def _with_all_unfinished(first: Part, unfinished: Part, remarks: list[str]) -> Part:
    """Tasks beyond the limit: what came at first, and all that are not finished.

    A busy cluster has more than 10,000 tasks at any time, nearly all of them finished, and rules
    look at the others. So the list counts as whole when those came whole; it does not when the
    server did not know the filter.
    """
    assert first.decoded is not None
    rows = unfinished.decoded.rows if unfinished.decoded is not None else None
    if rows is None or len(rows) >= ROW_LIMIT or any(row.state == "FINISHED" for row in rows):
        return first
    assert unfinished.decoded is not None
    merged = {(row.task_id, str(row.attempt_number)): row for row in first.decoded.rows or ()}
    # The second answer is the newer one.
    merged = {key: row for key, row in merged.items() if row.state == "FINISHED"}
    merged |= {(row.task_id, str(row.attempt_number)): row for row in rows}
    remarks.append("tasks: only some of the finished ones (there are more than Ray lists)")
    malformed = (*first.decoded.malformed, *unfinished.decoded.malformed)
    return Part(
        decoded=Decoded(
            rows=tuple(merged.values()),
            reason="malformed" if malformed else None,
            detail=malformed[0] if malformed else "",
            malformed=malformed,
        )
    )


def _explain(error: FetchError, with_token: bool) -> str:
    """The failure's sentence, with what to do about it where that is known."""
    if error.reason == "unauthorized":
        if with_token:
            return f"the cluster does not accept the token ({error.detail})"
        return f"the cluster asks for a token: set RAY_AUTH_TOKEN ({error.detail})"
    if error.reason == "not_found":
        return f"no Ray state API at this address ({error.detail})"
    return error.detail
