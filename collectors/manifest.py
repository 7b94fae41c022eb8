"""``manifest.json``: when a look was taken, and what the files alone cannot say.

The contract asks for ``format`` and ``captured_at`` only. A capture adds how each source had
answered, so that whoever reads the bundle sees "403 forbidden" and not just a missing file.
"""

from __future__ import annotations

import logging

import msgspec

from collectors.archive import BundleError
from collectors.decoding import shorten
from fleet.observation import SourceStatus

log = logging.getLogger("slicewatch.bundle")

FORMAT = 1


class RayExtra(msgspec.Struct, frozen=True, kw_only=True):
    """What of a Ray cluster stands in no answer that the bundle holds."""

    namespace: str = ""
    cluster: str = ""
    address: str | None = None
    version: str | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are optional in the file."""

    captured_at: str | None = None
    context: str | None = None
    sources: tuple[SourceStatus, ...] = ()
    ray: tuple[RayExtra, ...] = ()
    format: int = FORMAT

    def ray_of(self, namespace: str, cluster: str) -> RayExtra:
        """The extras of one Ray cluster; empty ones where there are none."""
        for extra in self.ray:
            if (extra.namespace, extra.cluster) == (namespace, cluster):
                return extra
        return RayExtra()


class _Core(msgspec.Struct):
    format: msgspec.Raw = msgspec.Raw(b"1")
    captured_at: msgspec.Raw = msgspec.Raw(b"null")


def parse_manifest(place: str, data: bytes) -> Manifest:
    """The manifest; what cannot be read of it is left out with a warning.

    Raises:
        BundleError: a ``format`` that this version does not know.
    """
    try:
        core = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_Core)
    except (msgspec.MsgspecError, RecursionError) as error:
        log.warning("%s cannot be read and is ignored: %s", place, shorten(str(error)))
        return Manifest()
    try:
        version = msgspec.json.decode(core.format)
    except (msgspec.MsgspecError, RecursionError):
        version = "?"
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise BundleError(f"{place}: format {shorten(repr(version), 40)} is not a format number")
    if version > FORMAT:
        raise BundleError(
            f"{place}: format {shorten(str(version), 40)} is newer than this version "
            f"reads ({FORMAT})"
        )
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as error:
        log.warning("%s: only captured_at is used: %s", place, shorten(str(error)))
    try:
        return Manifest(captured_at=msgspec.json.decode(core.captured_at, type=str | None))
    except msgspec.MsgspecError:
        return Manifest(captured_at="unreadable")


_RANK = {"ok": 0, "suspended": 1, "degraded": 2, "down": 3}


def recorded_or_derived(recorded: SourceStatus | None, derived: SourceStatus) -> SourceStatus:
    """How the source had answered, where that is no healthier than what the files show.

    A file that went missing since, or a manifest that says "ok" about nothing, changes nothing.
    """
    if recorded is None or _RANK[recorded.status] < _RANK[derived.status]:
        return derived
    if recorded.status == "down":
        return recorded
    if recorded.complete and not derived.complete:
        return derived
    lost = {item.part for item in derived.truncated} - {item.part for item in recorded.truncated}
    if lost or set(derived.missing) - set(recorded.missing):
        return derived
    if derived.malformed and not recorded.malformed:
        return derived
    return recorded
