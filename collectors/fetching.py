"""One GET, and one word for each way in which it can fail.

Two ways lead to a Ray head: straight (httpx), or through the Kubernetes API server's service
proxy with the API server's credentials. Both are a :class:`Transport`, so that what is asked and
how failures are named is the same for both.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Protocol

import httpx
import msgspec

from collectors.loose_json import shorten

MEBIBYTE = 1024 * 1024
ERROR_BODY = 64 * 1024
"""How much of an error's body is read for its message."""
LONGEST_WAIT = 300.0
"""A server may ask for any wait; beyond this we look anyway."""


class FetchError(Exception):
    """A request that failed: ``reason`` is one of :class:`~fleet.observation.SourceStatus`."""

    def __init__(
        self, reason: str, detail: str, *, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.status = status
        self.retry_after = retry_after


class Transport(Protocol):
    """Gets one path below a base address."""

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        """The body of a 200 answer.

        Raises:
            FetchError: anything else.
        """
        ...

    async def aclose(self) -> None:
        """Give the connections back."""
        ...


class HttpTransport:
    """Straight to an http(s) address, one request in flight at a time."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float = 10.0,
        max_body: int = 128 * MEBIBYTE,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        """A transport.

        Args:
            base_url: what all paths are below.
            timeout: seconds for a whole answer.
            max_body: bytes.
            verify: which certificates to trust, where the usual ones do not do.
        """
        self.base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._max_body = max_body
        self._client = httpx.AsyncClient(
            timeout=timeout,
            # Loading the usual certificates takes 20 ms, which plain http can do without
            # (no redirect is followed).
            verify=verify or self.base_url.startswith("https:"),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        )
        self._one = asyncio.Lock()

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        """See :class:`Transport`. The timeout is for the whole answer, not for each piece."""
        async with self._one:
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._get(f"{self.base_url}{path}", headers)
            except TimeoutError:
                raise FetchError("timed_out", f"no answer within {self._timeout:g} s") from None
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
                raise failure(error, self._timeout) from None
            except ValueError as error:
                # A header that cannot be sent, an address that cannot be parsed.
                raise FetchError("unreachable", shorten(type(error).__name__)) from None

    async def _get(self, url: str, headers: Mapping[str, str]) -> bytes:
        async with self._client.stream("GET", url, headers=dict(headers)) as response:
            limit = self._max_body if response.status_code == 200 else ERROR_BODY
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > limit:
                    break
            if response.status_code != 200:
                raise http_failure(response.status_code, response.headers, bytes(body))
            if len(body) > limit:
                raise too_large(limit)
            return bytes(body)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()


def too_large(limit: int) -> FetchError:
    """The answer is beyond the limit on its size (bytes)."""
    return FetchError(
        "too_large",
        f"the answer is larger than {limit // MEBIBYTE} MiB (SLICEWATCH_MAX_BODY_MEBIBYTES)",
    )


# --- failures -------------------------------------------------------------------------------


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and all that led to it; libraries wrap the cause several times."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending += [current.__cause__, current.__context__]
        pending += [arg for arg in current.args if isinstance(arg, BaseException)]
        reason = getattr(current, "reason", None)  # urllib3's MaxRetryError
        pending.append(reason if isinstance(reason, BaseException) else None)


def failure(error: BaseException, timeout: float) -> FetchError:
    """The word for an exception of a connection, whichever library raised it."""
    for cause in _chain(error):
        name = type(cause).__name__
        if isinstance(cause, ssl.SSLError):
            text = getattr(cause, "verify_message", "") or cause.reason or "handshake failed"
            return FetchError("unreachable", f"TLS: {shorten(str(text), 120)}")
        if isinstance(cause, socket.gaierror):
            return FetchError("unreachable", "the host name does not resolve")
        if isinstance(cause, ConnectionRefusedError) or (
            isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED
        ):
            return FetchError("refused", "connection refused")
        if isinstance(cause, ConnectionResetError | BrokenPipeError):
            return FetchError("unreachable", "the connection was reset")
        if isinstance(cause, TimeoutError) or "Timeout" in name:
            return FetchError("timed_out", f"no answer within {timeout:g} s")
        text = str(cause)
        if "IncompleteRead" in name or "incomplete" in text or "peer closed connection" in text:
            return FetchError("truncated", "the connection broke in the middle of the answer")
        # httpx writes the errors of several addresses into one text.
        if "Name or service not known" in text or "nodename nor servname" in text:
            return FetchError("unreachable", "the host name does not resolve")
        if "Connection refused" in text or "All connection attempts failed" in text:
            return FetchError("refused", "connection refused")
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return FetchError("unreachable", f"TLS: {shorten(text, 120)}")
    text = shorten(str(error), 120)
    return FetchError("unreachable", text or type(error).__name__)


class _ErrorBody(msgspec.Struct):
    """What Kubernetes (``message``) and Ray (``msg``) say in an error's body."""

    kind: str | None = None
    message: str | None = None
    msg: str | None = None
    error: str | None = None


def error_message(body: bytes) -> tuple[str, bool]:
    """The words in an error's body, and whether Kubernetes' API server wrote them."""
    try:
        parsed = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.MsgspecError, RecursionError):
        text = body[:2048].decode("utf-8", "replace").strip()
        if text.startswith("<"):
            text = re.sub(r"<[^>]*>", " ", text)
        return shorten(text, 200), False
    text = parsed.message or parsed.msg or parsed.error or ""
    return shorten(text, 200), parsed.kind == "Status"


_STATUS_REASONS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    408: "timed_out",
    413: "too_large",
    429: "rate_limited",
    504: "timed_out",
}


def http_failure(status: int, headers: Mapping[str, str], body: bytes) -> FetchError:
    """The word for an answer that is not 200, with the server's own words."""
    message, by_kubernetes = error_message(body)
    if 300 <= status < 400:
        to = shorten(headers.get("location", "nowhere"), 120)
        return FetchError(
            "unreachable", f"answers with a redirect ({status}) to {to}", status=status
        )
    reason = _STATUS_REASONS.get(status, "server_error" if status >= 500 else "not_found")
    if by_kubernetes and status in (502, 503):
        # The API server's service proxy speaks for the head behind it.
        reason = "refused" if "refused" in message or "no endpoints" in message else "unreachable"
    said = f": {message}" if message else ""
    return FetchError(
        reason,
        f"HTTP {status}{said}",
        status=status,
        retry_after=_retry_after(headers.get("retry-after")) if status in (429, 503) else None,
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait; an HTTP date counts as no wish, as clocks differ."""
    if not value:
        return None
    try:
        return min(max(0.0, float(value)), LONGEST_WAIT)
    except ValueError:
        pass
    try:
        parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return 30.0


MOST_SKEW = 5.0
"""Seconds: an HTTP date is whole seconds, and an answer takes its time."""


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which a server's clock is ahead of ours; ``None`` where it does not say."""
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return None


def skew_remark(skew: float | None) -> str | None:
    """A sentence when two clocks differ by so much that ages come out wrong."""
    if skew is None or abs(skew) <= MOST_SKEW:
        return None
    how = "ahead of" if skew > 0 else "behind"
    return f"its clock is {abs(skew):.0f} s {how} ours, and ages are wrong by as much"


def next_delay(
    interval: float,
    failures: int,
    spread: float,
    *,
    retry_after: float | None = None,
    most: float = 60.0,
) -> float:
    """Seconds until the next poll of a source.

    Args:
        interval: the nominal pace.
        failures: failed polls in a row; the pace halves with each, down to one in ``most``
            seconds, so that a dead head is not hammered and a mended one is seen soon.
        spread: a number from 0 to 1 by which the delay is shifted (±10 %), so that many sources
            and many watchers do not ask in step.
        retry_after: what the server asked for, which is a minimum.
    """
    slower = min(interval * 2 ** max(0, min(failures, 16) - 1), max(most, interval))
    return max(slower, retry_after or 0.0) * (0.9 + 0.2 * spread)
