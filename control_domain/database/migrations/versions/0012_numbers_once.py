"""Give no number twice on SQLite that people or other programs keep, as of environments, deployments and repositories.

Users, folders and marks of processes, and addresses of webhooks, are named by them. Postgres gives no number twice."""

import re

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_TABLES = (
    "projects",
    "environments",
    "ingest_keys",
    "repositories",
    "deployments",
    "releases",
    "recorded_deployments",
    "variable_sets",
    "variable_changes",
    "config_applications",
    "config_operations",
    "goals",
)
# Where numbers of removed rows are still written. Nothing names the number of a removed environment or release. Each
# new one got the number after the highest, so none was higher than there have been rows: an entry tells of each
# environment that was removed, and each release was made by a deployment of its own, which stays.
_WRITTEN = {
    "environments": (
        "SELECT (SELECT count(*) FROM environments) + count(*) FROM audit_entries WHERE action = 'environment.remove'",
    ),
    "releases": ("SELECT count(*) FROM deployments",),
    "deployments": (
        "SELECT deployment_id FROM webhook_deliveries",
        "SELECT substr(subject, 12) FROM audit_entries WHERE subject GLOB 'deployment [0-9]*'",
        "SELECT json_extract(details, '$.deployment') FROM audit_entries WHERE json_valid(details)",
    ),
    "repositories": (
        "SELECT substr(subject, 12) FROM audit_entries WHERE subject GLOB 'repository [0-9]*'",
        "SELECT substr(subject, 23) FROM audit_entries WHERE subject GLOB 'webhook of repository [0-9]*'",
    ),
    "variable_changes": (
        "SELECT json_extract(details, '$.change') FROM audit_entries WHERE json_valid(details)",
    ),
    "config_applications": (
        "SELECT json_extract(details, '$.application') FROM audit_entries WHERE json_valid(details)",
    ),
}


def upgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    # Rows that refer to a table stay where they are while it is made anew; the commit checks them.
    op.execute("PRAGMA defer_foreign_keys = ON")
    for table in _TABLES:
        _make_anew(table)
        _go_on_from(table)


def _make_anew(table: str) -> None:
    """Replace the table by one with `AUTOINCREMENT`, which cannot be added to one. Its indexes end with the old one."""
    connection = op.get_bind()
    create = _with_autoincrement(table)
    query = sa.text(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :name AND sql IS NOT NULL"
    )
    indexes = connection.execute(query, {"name": table}).scalars().all()
    op.execute(f"CREATE TEMPORARY TABLE kept_{table} AS SELECT * FROM {table}")
    op.execute(f"DROP TABLE {table}")
    connection.exec_driver_sql(create)
    op.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
    op.execute(f"DROP TABLE kept_{table}")
    for index in indexes:
        connection.exec_driver_sql(index)


def _with_autoincrement(table: str) -> str:
    query = sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
    create: str = op.get_bind().execute(query, {"name": table}).scalar_one()
    create, ids = re.subn(r"\bid INTEGER NOT NULL", "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", create)
    create, keys = re.subn(rf"CONSTRAINT pk_{table} PRIMARY KEY \(id\),?\s*", "", create)
    assert (ids, keys) == (1, 1), create
    return create


def _go_on_from(table: str) -> None:
    """Let the next number be higher than any that is known to have been given."""
    connection = op.get_bind()
    known = " UNION ALL ".join((f"SELECT max(id) AS number FROM {table}", *_WRITTEN.get(table, ())))
    # A number that no row has is taken only as far as columns go.
    query = f"SELECT max(CAST(number AS INTEGER)) FROM ({known}) WHERE CAST(number AS INTEGER) < {2**31 - 1}"
    highest = connection.exec_driver_sql(query).scalar_one()
    if highest is None:
        return
    connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
    connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, highest))
