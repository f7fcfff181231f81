"""The migrations that keep SQLite from reusing numbers: of heartbeats, queues and sites, then of all other rows."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from control_domain.database.engine import open_engine
from control_domain.database.migrations import upgrade
from tests.support.databases import KINDS, empty_database

_TABLES = ("heartbeats", "heartbeat_states", "heartbeat_runs", "queues", "queue_states", "queue_workers",
           "monitor_keys", "sites", "goals")  # fmt: skip
_AT = "'2026-11-20 12:00:00'"
_ROWS = f"""
INSERT INTO accounts VALUES (1, 'acc_1', 'Acme', 'acme', 'free', 1, 2, {_AT});
INSERT INTO projects VALUES (1, 'prj_1', 1, 'Shop', 'shop', {_AT});
INSERT INTO environments (id, public_id, project_id, name, slug, type, created_at)
 VALUES (1, 'env_1', 1, 'Production', 'production', 'production', {_AT});
INSERT INTO heartbeats VALUES (3, 1, 'backup: all', NULL, '0 3 * * *', 'Europe/Oslo', 1, 2, 3, true, {_AT});
INSERT INTO heartbeats VALUES (7, 1, 'mail', 60, NULL, 'UTC', 1, 2, 3, false, {_AT});
INSERT INTO heartbeat_states VALUES (3, 'late', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
INSERT INTO heartbeat_runs VALUES (7, 'r1', 1, 2, 3, 4, 5);
INSERT INTO queues VALUES (5, 1, 'default', {_AT});
INSERT INTO queue_states VALUES (5, 's1', 1, 2, 3, 4, 5, 6, 7);
INSERT INTO queue_workers VALUES (5, 'w1', 1, 'busy', 'j1', 2);
INSERT INTO monitor_keys VALUES (8, 7, NULL, 'a', {_AT}, NULL, {_AT});
INSERT INTO monitor_keys VALUES (9, NULL, 5, 'b', {_AT}, {_AT}, NULL);
INSERT INTO sites VALUES (4, 'sit_1', 1, 'Shop', 'UTC', '["https://shop.example"]', {_AT});
INSERT INTO goals VALUES (6, 4, 'Welcome', NULL, '/welcome', {_AT});
"""


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of an empty, unmigrated database."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


def _upgrade_to(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(upgrade.__file__).parent))
    return config


def _all_rows(connection: Connection) -> dict[str, list[Any]]:
    return {
        table: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2"))]
        for table in _TABLES
    }


@pytest.mark.both_databases
async def test_all_rows_stay_and_no_number_is_reused(database_url: str) -> None:
    engine = open_engine(database_url)
    is_sqlite = engine.dialect.name == "sqlite"
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0005")
    async with engine.begin() as connection:
        for statement in _ROWS.split(";\n")[:-1]:
            await connection.execute(text(statement.replace(":", "\\:")))
        before = await connection.run_sync(_all_rows)
    assert all(before.values())
    async with engine.begin() as connection:
        if is_sqlite:
            # Run all migrations in one transaction, as `upgrade_database` does.
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
        await connection.run_sync(_upgrade_to, "0006")
        assert await connection.run_sync(_all_rows) == before
        if is_sqlite:
            broken = await connection.execute(text("PRAGMA foreign_key_check"))
            assert broken.all() == []
            for table in ("goals", "sites"):
                await connection.execute(text(f"DELETE FROM {table}"))
            again = "INSERT INTO sites SELECT NULL, 'sit_2', 1, 'Shop', 'UTC', '[]', created_at FROM accounts"
            await connection.execute(text(again))
            assert (await connection.execute(text("SELECT id FROM sites"))).scalars().all() == [5]
    await engine.dispose()


# Each row follows the rows that it refers to.
_OTHER_ROWS: list[tuple[str, dict[str, Any]]] = [
    ("accounts", {"id": 1}),
    ("projects", {"id": 2, "account_id": 1}),
    ("environments", {"id": 7, "project_id": 2, "slug": "a", "public_id": "env_7"}),
    ("environments", {"id": 9, "project_id": 2, "slug": "b", "public_id": "env_9"}),
    ("ingest_keys", {"id": 3, "environment_id": 7}),
    ("repositories", {"id": 4, "project_id": 2}),
    ("webhook_secrets", {"repository_id": 4}),
    (
        "deployments",
        {
            "id": 5,
            "account_id": 1,
            "project_id": 2,
            "environment_id": 7,
            "repository_id": 4,
            "status": "failed",
        },
    ),
    (
        "deployments",
        {
            "id": 6,
            "account_id": 1,
            "project_id": 2,
            "environment_id": 7,
            "status": "failed",
            "repository_id": 4,
            "rolled_back_to_id": 5,
        },
    ),
    ("deployment_lines", {"id": 1, "deployment_id": 6}),
    ("variable_sets", {"id": 8, "environment_id": 7}),
    ("releases", {"id": 2, "environment_id": 7, "deployment_id": 5, "variables_id": 8}),
    ("live_releases", {"environment_id": 7, "release_id": 2}),
    ("environment_leases", {"environment_id": 7, "leased_until": "2026-11-20 12:00:00.123000"}),
    ("variable_changes", {"id": 3, "environment_id": 7, "state": "approved"}),
    ("recorded_deployments", {"id": 3, "environment_id": 7}),
    ("config_reviews", {"id": 3, "project_id": 2}),
    ("config_applications", {"id": 3, "project_id": 2, "review_id": 3, "status": "failed"}),
    ("config_operations", {"id": 3, "application_id": 3}),
    ("sites", {"id": 3, "project_id": 2}),
    ("goals", {"id": 3, "site_id": 3, "event": "bought"}),
    ("audit_entries", {"id": 1, "subject": "deployment 50", "details": "{}"}),
    (
        "audit_entries",
        {"id": 2, "subject": "environment env_7", "details": '{"change": 70, "deployment": 8}'},
    ),
    ("audit_entries", {"id": 3, "subject": "webhook of repository 12", "details": "no JSON"}),
    # No other row contains the numbers of these removed rows.
    *(
        (
            "audit_entries",
            {"id": 10 + one, "subject": f"environment env_a{one}", "action": "environment.remove"},
        )
        for one in range(12)
    ),
    # Their rows were removed with their environments.
    *(
        (
            "deployments",
            {"id": 20 + one, "account_id": 1, "project_id": 2, "repository_id": 4, "status": "failed"},
        )
        for one in range(8)
    ),
]
_NEXT = {
    "projects": 3,
    "environments": 15,
    "ingest_keys": 4,
    "repositories": 13,
    "deployments": 51,
    "releases": 11,
    "recorded_deployments": 4,
    "variable_sets": 9,
    "variable_changes": 71,
    "config_applications": 4,
    "config_operations": 4,
    "goals": 4,
}


def _insert(connection: Connection, table: str, given: dict[str, Any]) -> int:
    """Insert a row with arbitrary values in the required columns; return its number."""
    values = dict(given)
    for column in inspect(connection).get_columns(table):
        name, kind = column["name"], str(column["type"])
        if name in values or name == "id" or column["nullable"]:
            continue
        values[name] = {"DATETIME": _AT.strip("'"), "BLOB": b"x"}.get(
            kind, 0 if "CHAR" not in kind else f"{name}"
        )
    names = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    done = connection.exec_driver_sql(
        f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values())
    )
    return int(done.lastrowid)


async def test_all_rows_stay_and_numbers_continue_from_the_highest_known(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'control.sqlite'}")
    before = ScriptDirectory.from_config(_config()).get_revision("0012").down_revision
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0009")
    async with engine.begin() as connection:
        for table, given in _OTHER_ROWS:
            await connection.run_sync(_insert, table, given)
    if before != "0009":
        async with engine.begin() as connection:
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
            await connection.run_sync(_upgrade_to, before)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("BEGIN IMMEDIATE")
        rows = await connection.run_sync(_everything)
        await connection.run_sync(_upgrade_to, "0012")
        assert await connection.run_sync(_everything) == rows
    async with engine.begin() as connection:
        assert (await connection.execute(text("PRAGMA foreign_key_check"))).all() == []
        # Numbers are not reused even after all rows were removed.
        await connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        given = {table: values for table, values in _OTHER_ROWS if table in _NEXT}
        for table in _NEXT:
            await connection.exec_driver_sql(f"DELETE FROM {table}")
        for table, number in _NEXT.items():
            values = {name: value for name, value in given[table].items() if name != "id"}
            assert await connection.run_sync(_insert, table, values) == number, table
        await connection.rollback()
    await engine.dispose()


def _everything(connection: Connection) -> dict[str, list[Any]]:
    tables = [name for name in inspect(connection).get_table_names() if name != "alembic_version"]
    return {
        table: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {table}").all()))
        for table in tables
    }
