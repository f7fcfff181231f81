"""The migration that makes previews with variables wait for approval if their project has a gate."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from control_domain.database.engine import open_engine
from control_domain.database.migrations import upgrade
from tests.support.databases import KINDS, empty_database

_AT = "'2026-11-20 12:00:00'"


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of an empty, unmigrated database."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


def _upgrade_to(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(upgrade.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _environment(number: int, project: int, type_: str, gated: bool = False) -> str:
    return (
        "INSERT INTO environments (id, public_id, project_id, name, slug, type, created_at, deploys_need_approval) "
        f"VALUES ({number}, 'env_{number}', {project}, 'E', 'e{number}', '{type_}', {_AT}, {str(gated).lower()})"
    )


def _variables(number: int, environment: int, count: int) -> str:
    return (
        "INSERT INTO variable_sets (id, environment_id, version, key_id, sealed, count, created_at) "
        f"VALUES ({number}, {environment}, {number}, 'k', '', {count}, {_AT})"
    )


_PROJECT = [
    f"INSERT INTO accounts VALUES (1, 'acc_1', 'Acme', 'acme', 'free', 1, 2, {_AT})",
    *(
        f"INSERT INTO projects (id, public_id, account_id, name, slug, created_at) "
        f"VALUES ({number}, 'prj_{number}', 1, 'P', 'p{number}', {_AT})"
        for number in (1, 2)
    ),
]
_ROWS = [
    *_PROJECT,
    _environment(1, 1, "production", gated=True),
    _environment(2, 1, "preview"),
    _environment(3, 1, "preview"),
    _environment(4, 1, "preview"),
    _environment(5, 1, "staging"),
    _environment(6, 2, "production"),
    _environment(7, 2, "preview"),
    _variables(1, 2, count=3),
    _variables(2, 3, count=0),
    _variables(3, 5, count=3),
    _variables(4, 7, count=3),
]


@pytest.mark.both_databases
async def test_previews_with_variables_are_gated_where_the_project_has_a_gate(database_url: str) -> None:
    engine = open_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0010")
        for row in _ROWS:
            await connection.execute(text(row))
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0011")
        gated = text("SELECT id FROM environments WHERE deploys_need_approval ORDER BY id")
        assert (await connection.execute(gated)).scalars().all() == [1, 2]
    await engine.dispose()


@pytest.mark.both_databases
async def test_old_copies_may_be_of_any_environment(database_url: str) -> None:
    engine = open_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0013")
        for row in _ROWS:
            await connection.execute(text(row))
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0014")
        copied = text("SELECT id FROM environments WHERE variables_of_id = 0 ORDER BY id")
        assert (await connection.execute(copied)).scalars().all() == [2, 7]
    await engine.dispose()


@pytest.mark.both_databases
async def test_copies_of_previews_and_of_removed_environments_may_be_of_any(database_url: str) -> None:
    sources = {3: 1, 4: 3, 5: 99, 6: 4, 7: 2, 9: 8, 10: 9}
    rows = [
        *_PROJECT,
        _environment(1, 1, "production", gated=True),
        _environment(2, 1, "staging"),
        *(_environment(number, 1, "preview") for number in range(3, 8)),
        _environment(8, 2, "production"),
        _environment(9, 2, "preview"),
        _environment(10, 2, "preview"),
        *(
            f"UPDATE environments SET variables_of_id = {source} WHERE id = {number}"
            for number, source in sources.items()
        ),
        # The copy of staging may have waited for an approval.
        "UPDATE environments SET variables_need_approval = true WHERE id = 7",
        # The preview with a copy of production's variables has its gate.
        "UPDATE environments SET deploys_need_approval = true WHERE id = 3",
    ]
    engine = open_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0020")
        for row in rows:
            await connection.execute(text(row))
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade_to, "0021")
        unknown = text("SELECT id FROM environments WHERE variables_of_id = 0 ORDER BY id")
        assert (await connection.execute(unknown)).scalars().all() == [4, 5, 6, 7, 10]
        gated = text("SELECT id FROM environments WHERE deploys_need_approval ORDER BY id")
        assert (await connection.execute(gated)).scalars().all() == [1, 3, 4, 5, 6, 7]
    await engine.dispose()
