"""What stands around the rows of an answer: Kubernetes' lists, and Ray's state API's funnel."""

from __future__ import annotations

from typing import Any

import msgspec

from collectors.loose_json import Unreadable, deep, peel, shorten, text_of
from collectors.salvage import json_type

LIST_KINDS = {
    "pods": "PodList",
    "nodes": "NodeList",
    "services": "ServiceList",
    "events": "EventList",
    "ray_clusters": "RayClusterList",
    "slices": "SliceList",
}


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What stood around the rows. ``rows`` are still JSON (raw or parsed) on the slow path."""

    rows: list[Any] = []
    token: str | None = None
    version: str | None = None
    funnel: tuple[object, object, object] | None = None
    warnings: str = ""


def warnings_of(partial: object, warnings: object) -> str:
    """Ray's own words for rows that it could not get, in one line; empty when there are none."""
    texts = [partial] if isinstance(partial, str) and partial else []
    if isinstance(warnings, list):
        texts += [text for text in warnings if isinstance(text, str) and text]
    return shorten("; ".join(texts))


def ray_refusal(message: object) -> str:
    """The sentence for an answer with ``result: false``."""
    text = message if isinstance(message, str) and message else "no message"
    return shorten(f"the state API answered result=false: {text}")


def wrong_kind(part: str, kind: object) -> str | None:
    """A sentence when a list says that it holds something else."""
    if kind in (None, "List", LIST_KINDS[part], "Table"):
        return None
    return f"holds a {shorten(str(kind), 60)}, not a {LIST_KINDS[part]}"


def kubernetes_envelope(part: str, top: Any) -> Envelope:
    """Open a Kubernetes answer, raw or parsed.

    Raises:
        Unreadable: it is none, or a refusal.
    """
    if isinstance(top, list):
        return Envelope(rows=top)
    if not isinstance(top, dict):
        raise Unreadable("malformed", f"expected an object with items, got {json_type(top)}")
    kind = text_of(top.get("kind"))
    if kind == "Status":
        raise Unreadable(*_status(top))
    if "items" not in top:
        if f"{kind}List" == LIST_KINDS[part] and "metadata" in top:
            return Envelope(rows=[{key: deep(value) for key, value in top.items()}])
        raise Unreadable("malformed", "an object without items")
    wrong = wrong_kind(part, kind)
    if wrong:
        raise Unreadable("malformed", wrong)
    items = peel(top["items"])
    if not isinstance(items, list):
        raise Unreadable("malformed", f"items: expected a list, got {json_type(items)}")
    metadata = peel(top.get("metadata"))
    if not isinstance(metadata, dict):
        return Envelope(rows=items)
    return Envelope(
        rows=items,
        token=text_of(metadata.get("continue")),
        version=text_of(metadata.get("resourceVersion")),
    )


def _status(top: dict[str, Any]) -> tuple[str, str]:
    """Kubernetes' own words for a refusal, saved in place of the answer."""
    code = peel(top.get("code"))
    message = text_of(top.get("message")) or "no message"
    return reason_for_status(code if isinstance(code, int) else 0), f"the API said: {message}"


def reason_for_status(status: int) -> str:
    """The one word for an HTTP status that is no success."""
    known = {401: "unauthorized", 403: "forbidden", 404: "not_found", 429: "rate_limited"}
    return known.get(status, "server_error")


def ray_envelope(part: str, top: Any) -> Envelope:
    """Open an answer of Ray's state API, raw or parsed.

    Raises:
        Unreadable: it is none, or a refusal.
    """
    if isinstance(top, list):
        return Envelope(rows=top, funnel=(None, None, None))
    if not isinstance(top, dict):
        raise Unreadable("malformed", f"expected an object with data, got {json_type(top)}")
    if peel(top.get("result")) is False:
        raise Unreadable("server_error", ray_refusal(peel(top.get("msg"))))
    inner: Any = top
    for key in ("data", "result"):
        inner = peel(inner.get(key)) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            raise Unreadable("malformed", f"{key}: expected an object, got {json_type(inner)}")
    rows = peel(inner.get("result"))
    if not isinstance(rows, list):
        raise Unreadable("malformed", f"data.result.result: expected a list, got {json_type(rows)}")
    warnings = peel(inner.get("warnings"))
    if isinstance(warnings, list):
        warnings = [text_of(each) for each in warnings]
    funnel = tuple(
        peel(inner.get(name)) for name in ("total", "num_after_truncation", "num_filtered")
    )
    return Envelope(
        rows=rows,
        funnel=(funnel[0], funnel[1], funnel[2]),
        warnings=warnings_of(peel(inner.get("partial_failure_warning")), warnings),
    )
