"""A web application served from a thread on 127.0.0.1, with switchable failures.

Both simulated APIs stand on it. ``Failures`` makes a server answer badly on purpose: an error code,
a delay, a body that is no JSON or cut short; for a time, a number of requests, or until mended.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

BadBody = Literal["html", "cut", "empty", "wrong_json"]


@dataclass
class Failure:
    """One way to fail. ``part`` is a resource (``pods``) or a path's beginning; empty: everything.

    ``verb`` narrows it to ``list``, ``watch``, ``get``, …; ``status`` is the HTTP code to answer
    with; ``latency`` seconds pass before any answer; ``body`` spoils a good answer; ``times`` is
    how many requests it hits (``None``: all until it is removed).
    """

    part: str = ""
    verb: str = ""
    status: int | None = None
    latency: float = 0.0
    body: BadBody | None = None
    times: int | None = None

    def hits(self, part: str, verb: str, path: str) -> bool:
        if self.times == 0:
            return False
        same_part = (
            not self.part or self.part == part or path.startswith(f"/{self.part.strip('/')}")
        )
        return same_part and self.verb in ("", verb)


class Failures:
    """The failures that are on, and a count of the requests that came. Thread-safe."""

    def __init__(self) -> None:
        self._on: list[Failure] = []
        self._lock = threading.Lock()
        self.requests: Counter[tuple[str, str]] = Counter()

    def add(self, failure: Failure) -> Failure:
        """Switch a failure on; the answer can be given to :meth:`remove`."""
        with self._lock:
            self._on.append(failure)
        return failure

    def remove(self, failure: Failure) -> None:
        """Switch one off; nothing happens when it is off already."""
        with self._lock, contextlib.suppress(ValueError):
            self._on.remove(failure)

    def clear(self) -> None:
        """Switch all off."""
        with self._lock:
            self._on.clear()

    def on(self) -> tuple[Failure, ...]:
        """The failures that are on now."""
        with self._lock:
            return tuple(self._on)

    def take(self, part: str, verb: str, path: str) -> Failure | None:
        """Count a request, and give the first failure that hits it."""
        with self._lock:
            self.requests[(verb, part)] += 1
            for failure in self._on:
                if failure.hits(part, verb, path):
                    if failure.times is not None:
                        failure.times -= 1
                    return failure
        return None


def spoil(body: bytes, how: BadBody) -> tuple[bytes, str]:
    """A good JSON body made bad, with its content type."""
    if how == "html":
        return b"<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html"
    if how == "cut":
        return body[: len(body) // 2], "application/json"
    if how == "empty":
        return b"", "application/json"
    return b'["not", "what", "you", "expect", null, 1e999]', "application/json"


class ServerThread:
    """Serves an application from a thread until :meth:`stop`."""

    def __init__(
        self, app: ASGIApp, *, port: int = 0, websockets: bool = False, tls: bool = False
    ) -> None:
        self.tls = tls
        self._folder = Path(tempfile.mkdtemp(prefix="slicewatch-")) if tls else None
        self.certificate: Path | None = None
        key: Path | None = None
        if self._folder is not None:
            from simulator import certificates  # only where it is needed: it costs 50 ms

            self.certificate, key = certificates.make(self._folder)
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self.socket.getsockname()[1]
        self.loop: asyncio.AbstractEventLoop | None = None
        self._before_stop: list[Callable[[], None]] = []
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="error",
                access_log=False,
                lifespan="off",
                ws="websockets-sansio" if websockets else "none",
                timeout_graceful_shutdown=1,
                timeout_keep_alive=75,
                ssl_certfile=self.certificate,
                ssl_keyfile=key,
            )
        )
        self._thread = threading.Thread(target=self._run, name=f"http-{self.port}", daemon=True)

    def _run(self) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self.socket])
            # TLS connections whose client said no goodbye would stay open behind the loop.
            for transport in list(getattr(self.loop, "_transports", {}).values()):
                transport.abort()
            await asyncio.sleep(0)

        asyncio.run(main())

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def on_stop(self, call: Callable[[], None]) -> None:
        """Have something done before the server stops, such as ending open streams."""
        self._before_stop.append(call)

    def start(self) -> None:
        """Start, and return once requests are answered."""
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop and wait until the port is free. Safe to call twice."""
        for call in self._before_stop:
            call()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(5)
        self.socket.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
