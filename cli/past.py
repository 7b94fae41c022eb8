"""The history of a live cluster, from settings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from history.location import scope_of
from history.opening import open_history

if TYPE_CHECKING:
    from history.service import History
    from settings import Settings

log = logging.getLogger("slicewatch.history")


def past_of(settings: Settings) -> History | None:
    """What keeps the looks of these clusters; ``None`` where none are to be kept."""
    url = settings.history_url
    return open_history(
        on=settings.history == "on" and settings.bundle is None,
        path=settings.history_path,
        url=url.get_secret_value() if url is not None else None,
        days=settings.history_days,
        mebibytes=settings.history_mebibytes,
        scope=scope(settings),
        startup_grace=settings.thresholds.slice_startup_grace,
    )


def scope(settings: Settings) -> str:
    """What tells these clusters from others in one database.

    The kubeconfig's current context counts: whoever switches it looks at another fleet, and the
    two must not become one story.
    """
    context = None
    if settings.asks_kubernetes:
        context = settings.kube_context or _current_context(settings)
    return scope_of(context, *settings.ray_addresses, *sorted(settings.namespaces))


def _current_context(settings: Settings) -> str | None:
    try:
        from kubernetes import config

        path = str(settings.kubeconfig) if settings.kubeconfig is not None else None
        _, active = config.list_kube_config_contexts(config_file=path)
    except Exception:
        # In a pod there is no kubeconfig; what is wrong with one is said elsewhere.
        log.debug("no current context", exc_info=True)
        return None
    name = active.get("name") if active else None
    return str(name) if name else None
