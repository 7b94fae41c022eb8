"""Links out of Slicewatch, made from templates in the settings.

Names come from a cluster: each is quoted as one piece of a URL, so none can add a path, a query or
another address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

FIELDS = frozenset({"namespace", "cluster", "slice", "pod", "node", "node_pool", "group", "job"})
"""What a template may name in braces."""

_FIELD = re.compile(r"\{([a-z_]*)\}")


class TemplateError(ValueError):
    """A template that cannot be used; the message is one line."""


def check_template(template: str) -> str:
    """The template, when it is one.

    Raises:
        TemplateError: it is no http(s) address, names a field that does not exist, or puts one
            into the host, where a name from a cluster must not stand.
    """
    parts = urlsplit(template)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise TemplateError("is no http:// or https:// address")
    found = set(_FIELD.findall(template))
    if found - FIELDS:
        known = ", ".join(f"{{{name}}}" for name in sorted(FIELDS))
        raise TemplateError(f"names {{{min(found - FIELDS)}}}; what may stand there: {known}")
    rest = _FIELD.sub("", template)
    if "{" in rest or "}" in rest:
        raise TemplateError("has a brace that belongs to no field")
    if _FIELD.search(parts.netloc) and not _allowed(parts.netloc):
        raise TemplateError("may have {namespace} and {cluster} in the host, and nothing else")
    return template


def _allowed(netloc: str) -> bool:
    """Kubernetes names are DNS labels: they may be one in a host (ray-{cluster}.example.com)."""
    return set(_FIELD.findall(netloc)) <= {"namespace", "cluster"}


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def expand(template: str | None, values: Mapping[str, str | None]) -> str | None:
    """The address, or ``None`` without a template or where a name that it needs is not known."""
    if not template:
        return None
    named = set(_FIELD.findall(template))
    if any(not values.get(name) for name in named):
        return None
    head, mark, rest = template.partition("://")
    host, slash, path = rest.partition("/")
    for name in _FIELD.findall(host):
        if not _LABEL.fullmatch(values.get(name) or ""):
            return None
    host = _FIELD.sub(lambda found: values.get(found[1]) or "", host)
    path = _FIELD.sub(lambda found: quote(values.get(found[1]) or "", safe=""), path)
    return f"{head}{mark}{host}{slash}{path}"
