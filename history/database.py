"""Opening the database: SQLite in a file, or PostgreSQL by URL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from history import schema
from history.errors import (
    DamagedError,
    HistoryError,
    UnusableError,
    hide_password,
    is_damage,
    sentence,
)

BUSY_MILLISECONDS = 5000
CONNECT_SECONDS = 5
QUERY_SECONDS = 15
WAL_BYTES = 16 * 2**20
"""The write-ahead log is cut back to this after a checkpoint."""

TABLE_LOCK = 0x534C5743
"""PostgreSQL's advisory lock under which tables are made: two replicas may start at once."""

_MAGIC = b"SQLite format 3\x00"


def parse_url(url: str | Path) -> URL:
    """A database URL from what people write: a path, ``sqlite:///path``, ``postgresql://…``.

    Raises:
        UnusableError: no place that history can be kept in. The message repeats no password.
    """
    text = str(url)
    if isinstance(url, Path) or "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        found = make_url(text)
    except (ArgumentError, ValueError):
        raise UnusableError("the history's URL cannot be read") from None
    backend = found.get_backend_name()
    if backend == "sqlite":
        if not found.database or found.database == ":memory:":
            raise UnusableError("history in memory is lost at the next start; name a file")
        return URL.create("sqlite", database=str(Path(found.database).expanduser()))
    if backend in ("postgresql", "postgres"):
        return found.set(drivername="postgresql+psycopg")
    raise UnusableError(f"history can be kept in SQLite or PostgreSQL, not in {backend!r}")


class Database:
    """A database that is open. ``where`` names it for people, without a password."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.sqlite = url.get_backend_name() == "sqlite"
        self.where = (url.database or "") if self.sqlite else hide_password(url.render_as_string())
        self.damage: DamagedError | None = None
        """Set by whoever meets it, for the recorder to act on."""
        self._writer: sa.Engine | None = None
        self._reader: sa.Engine | None = None

    def open(self) -> None:
        """Make what is missing, check what is there.

        Raises:
            DamagedError: the SQLite file is none, or broken.
            UnusableError: it is another program's, or of a newer version.
            HistoryError: anything else; trying again later may help.
        """
        self.damage = None
        try:
            if self.sqlite:
                self._check_file()
            # Reading comes first: a file that may not be written can still be shown.
            self._reader = self._engine(write=False)
            self._writer = self._engine(write=True)
            self._prepare()
        except (SQLAlchemyError, OSError, sqlite3.Error) as error:
            raise self.translated(error) from None

    def close(self) -> None:
        """Let go of all connections."""
        for engine in (self._writer, self._reader):
            if engine is not None:
                engine.dispose()

    @property
    def readable(self) -> bool:
        """Was it opened at least as far as to be asked?"""
        return self._reader is not None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads.

        Raises:
            HistoryError: in the driver's stead.
        """
        if self._reader is None:
            raise HistoryError(f"history is not open yet ({self.where})")
        with self._transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that is all or nothing.

        Raises:
            HistoryError: in the driver's stead.
        """
        if self._writer is None:
            raise HistoryError(f"history is not open yet ({self.where})")
        with self._transaction(self._writer) as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        try:
            with engine.begin() as connection:
                if not self.sqlite:
                    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{QUERY_SECONDS}s'")
                yield connection
        except (SQLAlchemyError, OSError, sqlite3.Error) as error:
            raise self.translated(error) from None

    def translated(self, error: BaseException) -> HistoryError:
        """A driver's error as ours."""
        text = sentence(error, self.where)
        if self.sqlite and is_damage(error):
            self.damage = DamagedError(text)
            return self.damage
        return HistoryError(text)

    def insert(self, table: sa.Table) -> Any:
        """An INSERT of the dialect, which knows ON CONFLICT."""
        if self.sqlite:
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
        return insert(table)

    # --- opening

    def _engine(self, *, write: bool) -> sa.Engine:
        if not self.sqlite:
            return sa.create_engine(
                self.url,
                pool_size=1 if write else 3,
                max_overflow=0 if write else 7,
                pool_timeout=CONNECT_SECONDS,
                pool_pre_ping=True,
                # No prepared statements: a pooler in between may hand out another session.
                connect_args={
                    "connect_timeout": CONNECT_SECONDS,
                    "prepare_threshold": None,
                    "application_name": "slicewatch",
                },
                hide_parameters=True,
            )
        engine = sa.create_engine(
            self.url,
            pool_timeout=CONNECT_SECONDS,
            connect_args={"timeout": BUSY_MILLISECONDS / 1000, "check_same_thread": False},
            hide_parameters=True,
        )

        @event.listens_for(engine, "connect")
        def connected(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions begin where we say so
            if write:
                # Before the first table, else pages that retention frees stay in the file.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            else:
                connection.execute("PRAGMA query_only = ON")

        @event.listens_for(engine, "begin")
        def begun(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

        return engine

    def _check_file(self) -> None:
        path = Path(self.where)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # names, errors, commands
            with path.open("rb") as file:
                head = file.read(100)
        except FileNotFoundError:
            return
        if head and not head.startswith(_MAGIC):
            raise DamagedError(f"the file is no SQLite database ({self.where})")
        application = int.from_bytes(head[68:72], "big") if len(head) == 100 else 0
        if head and application not in (0, schema.APPLICATION_ID):
            raise UnusableError(f"the file is another program's database ({self.where})")

    def _prepare(self) -> None:
        assert self._writer is not None
        with self._writer.begin() as connection:
            if self.sqlite:
                names = set(sa.inspect(connection).get_table_names())
                if names and schema.about.name not in names:
                    raise UnusableError(f"the file is another program's database ({self.where})")
                connection.exec_driver_sql(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            else:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({TABLE_LOCK})")
            if sa.inspect(connection).has_table(schema.about.name):
                self._check_version(connection)
            schema.metadata.create_all(connection)
            connection.execute(
                self.insert(schema.about)
                .values(name="version", value=str(schema.VERSION))
                .on_conflict_do_nothing()
            )

    def _check_version(self, connection: sa.Connection) -> None:
        text = connection.scalar(
            sa.select(schema.about.c.value).where(schema.about.c.name == "version")
        )
        try:
            found = int(text if text is not None else schema.VERSION)
        except ValueError:
            raise DamagedError(f"the history's version cannot be read ({self.where})") from None
        if found > schema.VERSION:
            raise UnusableError(
                f"the history was kept by a newer Slicewatch (tables of version {found}, this one "
                f"knows {schema.VERSION}); update this one, or name another place ({self.where})"
            )


def set_aside(path: Path, stamp: str) -> Path:
    """Rename a damaged SQLite file and what belongs to it, so that a new one can begin.

    Returns:
        Its new place. Nothing is deleted.

    Raises:
        OSError: it may not be renamed.
    """
    goal = path.with_name(f"{path.name}.damaged-{stamp}")
    path.rename(goal)
    for end in ("-wal", "-shm"):
        beside = path.with_name(path.name + end)
        if beside.exists():
            beside.rename(goal.with_name(goal.name + end))
    return goal
