"""Reading: changes and looks back out of the database."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from diagnosis.finding import Subject
from diagnosis.snapshot import Snapshot
from history import schema
from history.changes import Change, ChangeKind
from history.database import Database
from history.errors import HistoryError
from history.looks import Encoded, LookError, decode_look
from history.packing import unpack, unpack_delta
from history.writer import SEPARATOR, clean

LOOKS_IN_MEMORY = 2
KEYS_IN_MEMORY = 1
NEVER_STALE = 10 * 365 * 86400.0
"""A look of the past is as old as it is, and no newer one is due."""

_COLUMNS = schema.changes.c


class Reader:
    """Everything that is asked of the past, for one scope. Safe to call from several threads."""

    def __init__(self, database: Database, scope: str, startup_grace: float) -> None:
        self._database = database
        self._scope = scope
        self._startup_grace = startup_grace
        self._lock = threading.Lock()
        self._looks: OrderedDict[int, Snapshot] = OrderedDict()
        self._keys: OrderedDict[int, Encoded] = OrderedDict()

    def changes(
        self,
        start: float,
        end: float,
        *,
        kinds: Collection[ChangeKind] | None = None,
        subject: str | Collection[str] | None = None,
        limit: int = 1000,
    ) -> list[Change]:
        """Changes from ``start`` to ``end`` (both included), newest first."""
        query = self._changes(kinds, subject).where(_COLUMNS.at >= start, _COLUMNS.at <= end)
        query = query.order_by(_COLUMNS.at.desc(), _COLUMNS.number.desc()).limit(max(0, limit))
        with self._database.reading() as connection:
            return [_change(row) for row in connection.execute(query).mappings()]

    def last_before(
        self, moment: float, *, kinds: Collection[ChangeKind], subject: str
    ) -> Change | None:
        """The newest such change before ``moment``."""
        query = self._changes(kinds, subject).where(_COLUMNS.at < moment)
        query = query.order_by(_COLUMNS.at.desc(), _COLUMNS.number.desc()).limit(1)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return _change(row) if row is not None else None

    def _changes(
        self, kinds: Collection[ChangeKind] | None, subject: str | Collection[str] | None
    ) -> sa.Select[Any]:
        query = sa.select(schema.changes).where(_COLUMNS.scope == self._scope)
        if kinds is not None:
            query = query.where(_COLUMNS.kind.in_(list(kinds)))
        if subject is not None:
            wanted = [subject] if isinstance(subject, str) else list(subject)
            tests = []
            for item in wanted:
                ident = clean(item)
                tests.append(_COLUMNS.subject_id == ident)
                piece = f"{SEPARATOR}{ident}{SEPARATOR}"
                tests.append(_COLUMNS.related.contains(piece, autoescape=True))
            query = query.where(sa.or_(sa.false(), *tests))
        return query

    def span(self) -> tuple[float, float] | None:
        """The oldest and the newest look; ``None`` when there is none."""
        moment = schema.looks.c.moment
        query = sa.select(sa.func.min(moment), sa.func.max(moment)).where(
            schema.looks.c.scope == self._scope
        )
        with self._database.reading() as connection:
            first, last = connection.execute(query).one()
        return (first / 1000, last / 1000) if first is not None else None

    def moments(self, start: float, end: float, limit: int = 50_000) -> list[float]:
        """When looks were kept, oldest first; of more than ``limit``, the newest."""
        moment = schema.looks.c.moment
        query = (
            sa.select(moment)
            .where(
                schema.looks.c.scope == self._scope,
                moment >= round(start * 1000),
                moment <= round(end * 1000),
            )
            .order_by(moment.desc())
            .limit(max(0, limit))
        )
        with self._database.reading() as connection:
            return [found / 1000 for found in reversed(connection.scalars(query).all())]

    def look_at(self, moment: float) -> Snapshot | None:
        """The last look at or before ``moment``; ``None`` when none is that old."""
        table = schema.looks.c
        where = sa.and_(table.scope == self._scope, table.moment <= round(moment * 1000))
        newest = sa.select(table.moment, table.key_moment).where(where)
        newest = newest.order_by(table.moment.desc()).limit(1)
        with self._database.reading() as connection:
            found = connection.execute(newest).first()
        if found is None:
            return None
        with self._lock:
            known = self._looks.get(found.moment)
            if known is not None:
                self._looks.move_to_end(found.moment)
                return known
        try:
            look = decode_look(
                self._encoded(found.moment, found.key_moment),
                startup_grace=self._startup_grace,
                stale_after=NEVER_STALE,
            )
        except LookError as error:
            raise HistoryError(f"{error} ({self._database.where})") from None
        with self._lock:
            self._looks[found.moment] = look
            while len(self._looks) > LOOKS_IN_MEMORY:
                self._looks.popitem(last=False)
        return look

    def _encoded(self, moment: int, key_moment: int) -> Encoded:
        with self._lock:
            key = self._keys.get(key_moment)
        if key is None:
            key = unpack(self._data(key_moment))
            with self._lock:
                self._keys[key_moment] = key
                while len(self._keys) > KEYS_IN_MEMORY:
                    self._keys.popitem(last=False)
        return key if moment == key_moment else unpack_delta(self._data(moment), key)

    def _data(self, moment: int) -> bytes:
        table = schema.looks.c
        query = sa.select(table.data).where(table.scope == self._scope, table.moment == moment)
        with self._database.reading() as connection:
            data = connection.scalar(query)
        if data is None:
            raise LookError("the look was deleted just now, as it became too old")
        return bytes(data)


def _change(row: Any) -> Change:
    return Change(
        at=row["at"],
        kind=row["kind"],
        subject=Subject(
            kind=row["subject_kind"],
            id=row["subject_id"],
            name=row["subject_name"],
            namespace=row["namespace"],
            cluster=row["cluster"],
        ),
        text=row["text"],
        before=row["before"],
        after=row["after"],
        code=row["code"],
        severity=row["severity"],
        cause=row["cause"],
        happened_at=row["happened_at"],
        related=tuple(item for item in row["related"].split(SEPARATOR) if item),
    )
