"""A history from settings, without SQLAlchemy where there is to be none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from history.location import default_path

if TYPE_CHECKING:
    from history.service import History

MEBIBYTE = 2**20


def open_history(
    *,
    on: bool,
    path: Path | None,
    url: str | None,
    days: float,
    mebibytes: int,
    scope: str,
    startup_grace: float,
) -> History | None:
    """The history of a live cluster; ``None`` where none is wanted. Touches no disk yet.

    Args:
        on: whether to keep any (no: a bundle is shown, or it is switched off).
        path: the SQLite file; ``None`` for the one in the user's state folder.
        url: a PostgreSQL to use in place of a file.
        days: how far it goes back.
        mebibytes: what it may take.
        scope: what tells this fleet from another in one database
            (:func:`history.location.scope_of`).
        startup_grace: ``Thresholds.slice_startup_grace``.
    """
    if not on:
        return None
    from history.service import History

    place: str | Path = url or ""
    if not place:
        try:
            place = path or default_path()
        except RuntimeError:  # no home folder: a container without a user entry
            place = Path("/var/lib/slicewatch/history.sqlite")
    return History(
        place,
        scope=scope,
        keep_days=days,
        keep_bytes=mebibytes * MEBIBYTE,
        startup_grace=startup_grace,
    )
