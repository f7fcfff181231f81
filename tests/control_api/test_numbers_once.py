"""The migration after which SQLite gives no number of a heartbeat, a queue or a site twice."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from control_api.database import open_engine
from control_api.migrations import upgrade
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
    """An empty database, which no migration has seen."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


def _upgrade_to(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(upgrade.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _all_rows(connection: Connection) -> dict[str, list[Any]]:
    return {
        table: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2"))]
        for table in _TABLES
    }


@pytest.mark.both_databases
async def test_every_row_stays_and_no_number_comes_again(database_url: str) -> None:
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
            # As `upgrade_database` does: all of it in one transaction.
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
