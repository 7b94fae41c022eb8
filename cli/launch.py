"""Starting the server: what ``serve``, ``demo`` and ``app.py`` have in common.

One process and one port for pages, ``/metrics``, health and ``/api/v1``. Nothing here imports
Streamlit before the dashboard is really wanted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from starlette.routing import Route

from cli.looks import frames_of, live_runtime
from cli.options import read_settings
from cli.terminal import InputError, say
from cli.version import version
from diagnosis.snapshot import Snapshot
from exporter.routes import make_routes

if TYPE_CHECKING:
    from pages._state import Demo
    from settings import Settings

ROOT = Path(__file__).parent.parent
REFRESH_SECONDS = 3.0
"""How often an open page draws itself anew: well within a poll, and cheap, as nothing is asked."""


class Source(Protocol):
    """The live runtime or a bundle."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def snapshot(self) -> Snapshot | None: ...


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a server needs.

    ``past`` answers what was: the history of live clusters, or a bundle's frames; ``None`` without.
    ``demo``: faults to make.
    """

    settings: Any
    source: Any
    past: Any = None
    demo: Any = None


_prepared: Prepared | None = None
_started = False


def prepare(settings: Settings, demo: Demo | None = None) -> Prepared:
    """Decide what this process serves, before ``app.py`` is imported.

    Raises:
        InputError: the bundle that the settings name cannot be read.
    """
    global _prepared
    source: Any
    past: Any
    if settings.bundle is not None:
        from cli.replay import Replay

        frames = frames_of(settings.bundle)
        source = past = Replay(frames, settings.thresholds, settings.bundle.name)
    else:
        from cli.past import past_of

        past = past_of(settings)
        source = live_runtime(settings, past)
    _prepared = Prepared(settings=settings, source=source, past=past, demo=demo)
    return _prepared


def prepared() -> Prepared:
    """What was prepared; from the environment where nobody did (``streamlit run app.py``)."""
    if _prepared is not None:
        return _prepared
    try:
        settings = read_settings({})
        log_to_stderr(settings)
        return prepare(settings)
    except InputError as error:
        say(f"slicewatch: {error.format_message()}")
        raise SystemExit(2) from None


def log_to_stderr(settings: Settings) -> None:
    """Logs go to standard error, so that standard output holds only results."""
    logging.basicConfig(
        level=settings.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Each poll would otherwise be a line or two.
    for chatty in ("httpx", "httpcore", "urllib3", "watchfiles"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def routes(what: Prepared) -> list[Route]:
    """``/metrics``, health and ``/api/v1`` for what is served."""
    token = what.settings.api_token
    return make_routes(
        what.source.snapshot,
        token=token.get_secret_value() if token is not None else None,
        version=version(),
    )


def start(what: Prepared) -> None:
    """Start the collectors, once; :class:`InputError` when there is nothing to look at."""
    global _started
    if _started:
        return
    from collectors.source_set import NothingToLookAt

    try:
        what.source.start()
    except NothingToLookAt as error:
        raise InputError(str(error)) from None
    _started = True


@asynccontextmanager
async def running(what: Prepared) -> AsyncIterator[None]:
    """The collectors, for as long as the server runs."""
    start(what)
    try:
        yield
    finally:
        await asyncio.to_thread(what.source.stop)
        if hasattr(what.past, "close"):
            await asyncio.to_thread(what.past.close)


def serve_headless(what: Prepared) -> None:
    """Serve without the dashboard, until a signal ends it."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with running(what):
            yield

    app = Starlette(
        routes=routes(what),
        lifespan=lifespan,
        middleware=[Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1)],
    )
    host, port = what.settings.host, what.settings.port
    check_port(host, port)
    start(what)
    say(f"Slicewatch (headless) on {url(host, port)}/metrics; Ctrl-C ends it")
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)


def serve_dashboard(what: Prepared) -> None:
    """Serve pages and routes, until a signal ends it."""
    host, port = what.settings.host, what.settings.port
    check_port(host, port)
    try:
        import streamlit  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            "the dashboard is not installed: pip install 'slicewatch[dashboard]', "
            "or serve without it: slicewatch serve --headless"
        ) from None
    start(what)
    say(f"Slicewatch on {url(host, port)}; Ctrl-C ends it")
    from app import app

    app.run(config={**theme(), "server.port": port, "server.address": host})


def check_port(host: str, port: int) -> None:
    """Raise :class:`InputError` when the port cannot be had, before anything is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port"
        ) from None


def url(host: str, port: int) -> str:
    """The address to open in a browser on this machine."""
    shown = "localhost" if host in ("0.0.0.0", "127.0.0.1", "::", "::1") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def theme() -> dict[str, Any]:
    """Our Streamlit settings from any working directory, as ``App.run`` takes them."""
    try:
        data = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    except OSError:
        return {"client.showErrorDetails": "none", "browser.gatherUsageStats": False}
    return _flat(data)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
