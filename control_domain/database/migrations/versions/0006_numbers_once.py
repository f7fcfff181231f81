"""On SQLite a heartbeat, a queue or a site never gets the number of one that was removed: what the event log and the
column store have of that one would be taken for its own. Postgres gives no number twice anyway."""

import re

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_REFERRING = {
    "heartbeats": ("heartbeat_states", "heartbeat_runs", "monitor_keys"),
    "queues": ("queue_states", "queue_workers", "monitor_keys"),
    "sites": ("goals",),
}


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table, referring in _REFERRING.items():
            _make_anew(table, referring)


def _make_anew(table: str, referring: tuple[str, ...]) -> None:
    """The same table with `AUTOINCREMENT`, which cannot be added to one. A table that rows refer to cannot be dropped:
    they are laid aside."""
    create = _with_autoincrement(table)
    for one in (*referring, table):
        op.execute(f"CREATE TEMPORARY TABLE kept_{one} AS SELECT * FROM {one}")
        op.execute(f"DELETE FROM {one}")
    op.execute(f"DROP TABLE {table}")
    op.get_bind().exec_driver_sql(create)
    for one in (table, *reversed(referring)):
        op.execute(f"INSERT INTO {one} SELECT * FROM kept_{one}")
        op.execute(f"DROP TABLE kept_{one}")


def _with_autoincrement(table: str) -> str:
    query = sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
    create: str = op.get_bind().execute(query, {"name": table}).scalar_one()
    create, ids = re.subn(r"\bid INTEGER NOT NULL", "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", create)
    create, keys = re.subn(rf"CONSTRAINT pk_{table} PRIMARY KEY \(id\),\s*", "", create)
    assert (ids, keys) == (1, 1), create
    return create
