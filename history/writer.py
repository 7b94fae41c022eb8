"""Writing: who may, what one look adds, and what retention takes away."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

import msgspec
import sqlalchemy as sa

from diagnosis.memory import Memory
from history import schema
from history.changes import Change
from history.database import Database
from history.looks import LookError
from history.marks import Picture
from history.packing import compress, decompress

SEPARATOR = "\x1f"
CHANGE_BYTES = 700
"""What a change costs with its indices, where the database cannot say."""
VACUUM_PAGES = 4000
DELETED_AT_ONCE = 5000


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the next look is compared with, and what the engine remembers."""

    picture: Picture
    memory: Memory | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One look as it is stored; ``key_moment`` is its own ``moment`` for a whole one."""

    moment: int
    key_moment: int
    data: bytes


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one scope. ``used_bytes``: of the whole file in SQLite."""

    looks: int = 0
    changes: int = 0
    used_bytes: int = 0


Outcome = Literal["written", "held", "moved"]

_encode = msgspec.msgpack.Encoder().encode
_kept = msgspec.msgpack.Decoder(Kept)


def clean(text: str) -> str:
    """Text that any database takes: no NUL, no half characters."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")


class Writer:
    """All that is written, for one scope and in the name of one holder of the lease."""

    def __init__(self, database: Database, scope: str, holder: str, lease_seconds: float) -> None:
        self._database = database
        self._scope = scope
        self._holder = holder
        self._lease_seconds = lease_seconds

    # --- the lease

    def claim(self) -> bool:
        """Take or keep the right to write; ``False`` while another has it."""
        with self._database.writing() as connection:
            return self._claim(connection)

    def _claim(self, connection: sa.Connection) -> bool:
        """As part of a transaction: nobody else can take it before that ends."""
        table = schema.lease
        now = self._now(connection)
        until = now + self._lease_seconds
        held = connection.execute(
            sa.update(table)
            .where(
                table.c.scope == self._scope,
                sa.or_(table.c.holder == self._holder, table.c.until < now),
            )
            .values(holder=self._holder, until=until)
        )
        if held.rowcount == 1:
            return True
        new = connection.execute(
            self._database.insert(table)
            .values(scope=self._scope, holder=self._holder, until=until)
            .on_conflict_do_nothing()
            .returning(table.c.scope)
        )
        return new.first() is not None

    def _now(self, connection: sa.Connection) -> float:
        """One clock for all: the server's, as replicas' own may differ. A file has one machine."""
        if self._database.sqlite:
            return time.time()
        return float(connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())")))

    def release(self) -> None:
        """Let the next replica write at once."""
        with self._database.writing() as connection:
            table = schema.lease
            connection.execute(
                sa.delete(table).where(table.c.scope == self._scope, table.c.holder == self._holder)
            )

    # --- looks

    def write(
        self, found: Iterable[Change], row: Row | None, kept: Kept, since: float | None
    ) -> Outcome:
        """One look's changes, the look if it is kept, and what the next is compared with.

        All or nothing. Writing the same again changes nothing: keys are made of what happened.

        Args:
            found: what changed.
            row: the look, if it is to be kept.
            kept: what the next look is compared with.
            since: when that was last written, as far as the caller knows. Somebody else may have
                written since, while this process slept or had no connection.

        Returns:
            ``held`` when another has the lease, ``moved`` when somebody has written since; then
            nothing was written.
        """
        data = compress(_encode(kept))
        with self._database.writing() as connection:
            if not self._claim(connection):
                return "held"
            last = connection.scalar(
                sa.select(schema.state.c.at).where(schema.state.c.scope == self._scope)
            )
            if last is not None and last != since:
                return "moved"
            lines = [self._line(change, number) for number, change in enumerate(found)]
            if lines:
                connection.execute(
                    self._database.insert(schema.changes).on_conflict_do_nothing(), lines
                )
            if row is not None:
                connection.execute(
                    self._database.insert(schema.looks)
                    .values(
                        scope=self._scope,
                        moment=row.moment,
                        key_moment=row.key_moment,
                        size=len(row.data),
                        data=row.data,
                    )
                    .on_conflict_do_nothing()
                )
            values = {"at": kept.picture.at, "data": data}
            connection.execute(
                self._database.insert(schema.state)
                .values(scope=self._scope, **values)
                .on_conflict_do_update(index_elements=["scope"], set_=values)
            )
        return "written"

    def _line(self, change: Change, number: int) -> dict[str, object]:
        subject = change.subject
        related = "".join(f"{clean(item)}{SEPARATOR}" for item in change.related)
        return {
            "scope": self._scope,
            "key": change.key,
            "at": change.at,
            "number": number,
            "kind": change.kind,
            "subject_kind": subject.kind,
            "subject_id": clean(subject.id),
            "subject_name": clean(subject.name),
            "namespace": clean(subject.namespace),
            "cluster": clean(subject.cluster),
            "text": clean(change.text),
            "before": clean(change.before) if change.before is not None else None,
            "after": clean(change.after) if change.after is not None else None,
            "code": change.code,
            "severity": change.severity,
            "cause": clean(change.cause) if change.cause is not None else None,
            "happened_at": change.happened_at,
            "related": SEPARATOR + related if related else "",
        }

    # --- retention

    def totals(self) -> Totals:
        """How much is there."""
        with self._database.reading() as connection:
            looks, size = connection.execute(
                sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(schema.looks.c.size), 0))
                .select_from(schema.looks)
                .where(schema.looks.c.scope == self._scope)
            ).one()
            changes = connection.scalar(
                sa.select(sa.func.count())
                .select_from(schema.changes)
                .where(schema.changes.c.scope == self._scope)
            )
            if self._database.sqlite:
                page, pages, free = (
                    int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
                    for name in ("page_size", "page_count", "freelist_count")
                )
                used = page * (pages - free)
            else:
                used = int(size) + int(changes or 0) * CHANGE_BYTES
        return Totals(looks=int(looks), changes=int(changes or 0), used_bytes=used)

    def forget_before(self, cutoff: float) -> None:
        """Delete what is older. A whole look stays while a later one is told against it."""
        looks, changes = schema.looks, schema.changes
        needed = (
            sa.select(looks.c.key_moment)
            .where(looks.c.scope == self._scope, looks.c.moment >= int(cutoff * 1000))
            .distinct()
        )
        with self._database.writing() as connection:
            connection.execute(
                sa.delete(looks).where(
                    looks.c.scope == self._scope,
                    looks.c.moment < int(cutoff * 1000),
                    looks.c.key_moment.not_in(needed),
                )
            )
            connection.execute(
                sa.delete(changes).where(changes.c.scope == self._scope, changes.c.at < cutoff)
            )

    def forget_oldest(self) -> bool:
        """Delete the oldest whole look with all that are told against it.

        Changes up to then stay; they are small. Once only one such family of looks is left, the
        oldest changes go instead.

        Returns:
            ``False`` when there is nothing left that may go.
        """
        looks, changes = schema.looks, schema.changes
        with self._database.writing() as connection:
            keys = connection.scalars(
                sa.select(looks.c.key_moment)
                .where(looks.c.scope == self._scope)
                .distinct()
                .order_by(looks.c.key_moment)
                .limit(2)
            ).all()
            if len(keys) > 1:
                connection.execute(
                    sa.delete(looks).where(
                        looks.c.scope == self._scope, looks.c.key_moment == keys[0]
                    )
                )
                return True
            oldest = connection.scalars(
                sa.select(changes.c.key)
                .where(changes.c.scope == self._scope)
                .order_by(changes.c.at)
                .limit(DELETED_AT_ONCE)
            ).all()
            if len(oldest) < DELETED_AT_ONCE:
                return False
            connection.execute(
                sa.delete(changes).where(
                    changes.c.scope == self._scope,
                    changes.c.at
                    <= sa.select(changes.c.at)
                    .where(changes.c.scope == self._scope, changes.c.key == oldest[-1])
                    .scalar_subquery(),
                )
            )
            return True

    def give_back(self) -> None:
        """Return freed pages of an SQLite file to the disk. PostgreSQL reuses its own."""
        if self._database.sqlite:
            with self._database.writing() as connection:
                driver = connection.connection.driver_connection
                assert driver is not None
                # A page a step, and SQLAlchemy takes none from a statement without columns.
                driver.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()


def read_kept(database: Database, scope: str) -> tuple[Kept | None, float | None]:
    """What was last compared, and when; the first is ``None`` when it cannot be made out."""
    with database.reading() as connection:
        found = connection.execute(
            sa.select(schema.state.c.data, schema.state.c.at).where(schema.state.c.scope == scope)
        ).first()
    if found is None:
        return None, None
    try:
        return _kept.decode(decompress(bytes(found.data))), found.at
    except (msgspec.MsgspecError, LookError):
        return None, found.at
