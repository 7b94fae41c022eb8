"""How history fares, for the Sources page and the metrics."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["starting", "ok", "standby", "failing", "off"]
"""``standby``: another replica writes. ``failing``: looks are lost, it tries again. ``off``: it
cannot work until somebody changes something."""


class HistoryState(msgspec.Struct, frozen=True, kw_only=True):
    """``where``: file or server, without a password. ``problem``: a sentence, empty when all is
    well. ``note``: something of the past worth knowing, such as a damaged file that was set aside.
    ``used_bytes`` and the counts are as of the last housekeeping, a minute old at most.
    ``written``, ``failed`` and ``dropped`` count looks since the start: kept ones, ones that could
    not be written, and ones that waited too long. ``last_written_at``: epoch seconds."""

    status: Status
    where: str
    problem: str = ""
    note: str = ""
    looks: int = 0
    changes: int = 0
    used_bytes: int = 0
    last_written_at: float | None = None
    written: int = 0
    failed: int = 0
    dropped: int = 0
