"""The tables, the same in SQLite and PostgreSQL.

``scope`` keeps fleets apart that share a database: another kubeconfig context on one's own
machine, another installation in one PostgreSQL.
"""

from __future__ import annotations

import sqlalchemy as sa

VERSION = 1
"""Of the tables. Raised by a change that an older Slicewatch cannot live with."""

APPLICATION_ID = 0x534C5743
"""``SLWC``: SQLite keeps it in the file's head, so another program's file is told from ours."""

metadata = sa.MetaData()

about = sa.Table(
    "slicewatch_about",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

looks = sa.Table(
    "slicewatch_looks",
    metadata,
    sa.Column("scope", sa.String(200), primary_key=True),
    sa.Column("moment", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("key_moment", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index("slicewatch_looks_by_key", "scope", "key_moment"),
)
"""``moment``: milliseconds since the epoch. A whole look has ``key_moment == moment``; others are
told against the one at ``key_moment``."""

changes = sa.Table(
    "slicewatch_changes",
    metadata,
    sa.Column("scope", sa.String(200), primary_key=True),
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("subject_kind", sa.String(32), nullable=False),
    sa.Column("subject_id", sa.Text, nullable=False),
    sa.Column("subject_name", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
    sa.Column("code", sa.String(64)),
    sa.Column("severity", sa.String(16)),
    sa.Column("cause", sa.Text),
    sa.Column("happened_at", sa.Double),
    sa.Column("related", sa.Text, nullable=False),
    sa.Index("slicewatch_changes_by_time", "scope", "at", "number"),
)
"""``number``: the place among the changes of one look. ``related``: ids between separators."""

state = sa.Table(
    "slicewatch_state",
    metadata,
    sa.Column("scope", sa.String(200), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
"""What the next look is compared with, and the engine's memory."""

lease = sa.Table(
    "slicewatch_lease",
    metadata,
    sa.Column("scope", sa.String(200), primary_key=True),
    sa.Column("holder", sa.String(64), nullable=False),
    sa.Column("until", sa.Double, nullable=False),
)
"""Who writes. Of several replicas one does; the others stand by and take over when it is gone."""
