"""The whole service as one ASGI application: pages, ``/metrics``, health and ``/api/v1``.

``streamlit run app.py``, ``uvicorn app:app`` and ``slicewatch serve`` all serve it. Settings come
from ``SLICEWATCH_…`` variables, or from the command line's flags.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st

from cli import launch, replay
from pages import _state

_what = launch.prepared()


@asynccontextmanager
async def _lifespan(_: Any) -> AsyncIterator[None]:
    settings = _what.settings
    bundle = settings.bundle
    _state.install(
        _state.Serving(
            source=_what.source,
            refresh_seconds=None if bundle is not None else launch.REFRESH_SECONDS,
            bundle=bundle.name if bundle is not None else None,
            past=_what.past,
            demo=_what.demo,
            open_bundle=replay.opener(settings.thresholds),
            pack=replay.packed,
            links={
                "Ray dashboard": settings.link_ray,
                "Console": settings.link_console,
                "Grafana": settings.link_grafana,
            },
        )
    )
    async with launch.running(_what):
        yield


app = st.App(
    Path(__file__).parent / "pages" / "shell.py",
    lifespan=_lifespan,
    routes=launch.routes(_what),
)
