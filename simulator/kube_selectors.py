"""Label and field selectors as the Kubernetes API understands them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Matcher = Callable[[Mapping[str, Any]], bool]


class SelectorError(ValueError):
    """A selector that the real API would answer with 400."""


_REQUIREMENT = re.compile(
    r"""\s*(?:
      (?P<set_key>[^\s,=!()<>]+)\s+(?P<set_op>in|notin)\s*\((?P<values>[^)]*)\)
    | !\s*(?P<absent>[^\s,=!()<>]+)
    | (?P<key>[^\s,=!()<>]+)\s*(?:(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,()<>]*))?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


def label_matcher(text: str) -> Matcher:
    """A function that says whether an object's labels match; raises :class:`SelectorError`."""
    tests: list[Callable[[Mapping[str, str]], bool]] = []
    position = 0
    while position < len(text) and text[position:].strip():
        found = _REQUIREMENT.match(text, position)
        if found is None:
            raise SelectorError(f"unable to parse requirement: found '{text[position:]}'")
        position = found.end()
        tests.append(_label_test(found))
    if not tests:
        return lambda _: True

    def matches(obj: Mapping[str, Any]) -> bool:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _label_test(found: re.Match[str]) -> Callable[[Mapping[str, str]], bool]:
    if (key := found["set_key"]) is not None:
        values = {part.strip() for part in found["values"].split(",")}
        if found["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if (absent := found["absent"]) is not None:
        return lambda labels: absent not in labels
    key, op, value = found["key"], found["op"], found["value"]
    if op is None:
        return lambda labels: key in labels
    if op in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if op == "!=":
        return lambda labels: labels.get(key) != value
    try:
        bound = int(value)
    except ValueError:
        raise SelectorError(f"for '{op}' operator the value must be an integer") from None

    def compares(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if op == ">" else number < bound

    return compares


_ALWAYS = ("metadata.name", "metadata.namespace")
FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        *_ALWAYS,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": (*_ALWAYS, "spec.unschedulable"),
    "namespaces": (*_ALWAYS, "status.phase"),
    "services": (*_ALWAYS, "spec.clusterIP", "spec.type"),
    "events": (
        *_ALWAYS,
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}
"""The fields that the real API can select by; all else is answered with 400."""


def field_matcher(text: str, resource: str) -> Matcher:
    """A function that says whether an object's fields match; raises :class:`SelectorError`."""
    allowed = FIELDS.get(resource, _ALWAYS)
    terms: list[tuple[str, bool, str]] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", part)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        name, op, value = found.groups()
        if name not in allowed:
            raise SelectorError(f"field label not supported: {name}")
        terms.append((name, op != "!=", value))
    if not terms:
        return lambda _: True
    return lambda obj: all((_field(obj, name) == value) is equal for name, equal, value in terms)


def _field(obj: Mapping[str, Any], name: str) -> str:
    value: Any = obj
    path = ["source", "component"] if name == "source" else name.split(".")
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
