"""The migrations lead to the schema that the tables describe."""

import asyncio
import importlib
import pkgutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import ClauseElement, Connection, inspect, text

from control_domain import tables
from control_domain.database.base import Base
from control_domain.database.engine import open_engine
from control_domain.database.migrations import upgrade
from control_domain.database.migrations.upgrade import newest_revision, upgrade_database
from pipeline_contracts.errors import StorageUnavailable
from tests.support.databases import KINDS, empty_database

for _module in pkgutil.iter_modules(tables.__path__):
    # Each module adds its tables to the metadata with which the migrations are compared.
    importlib.import_module(f"{tables.__name__}.{_module.name}")


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of an empty, unmigrated database."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


@pytest.fixture
async def second_database_url(
    request: pytest.FixtureRequest, tmp_path: Path, database_url: str
) -> AsyncIterator[str]:
    """Yield the URL of another empty database of the same kind."""
    kind = "sqlite" if database_url.startswith("sqlite") else "postgres"
    async with empty_database(kind, request, tmp_path) as url:
        yield url


def _differences(connection: Connection) -> list[object]:
    options = {"compare_type": True, "compare_server_default": True}
    context = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(context, Base.metadata))


def _shape(connection: Connection, only: str | None = None) -> dict[str, object]:
    """Return the definition of each table in the database, without that of alembic."""
    inspector = inspect(connection)
    return {
        table: {
            "columns": [_column(connection, column) for column in inspector.get_columns(table)],
            "primary key": inspector.get_pk_constraint(table),
            "unique": _sorted(inspector.get_unique_constraints(table)),
            "indexes": _sorted(inspector.get_indexes(table)),
            "foreign keys": _sorted(inspector.get_foreign_keys(table)),
            "checks": _sorted(inspector.get_check_constraints(table)),
        }
        for table in sorted(inspector.get_table_names() if only is None else [only])
        if table != "alembic_version"
    }


def _column(connection: Connection, column: Any) -> dict[str, object]:
    # Use the database's name of the type, because str() of a type omits the time zone.
    return {**column, "type": column["type"].compile(connection.dialect)}


def _sorted(found: Any) -> list[str]:
    return sorted(str(sorted(_in_words(one).items(), key=str)) for one in found)


def _in_words(found: Any) -> Any:
    """Return the conditions of indexes as text, because condition objects compare by identity."""
    if isinstance(found, dict):
        return {name: _in_words(value) for name, value in found.items()}
    return str(found) if isinstance(found, ClauseElement) else found


async def _create_all(url: str) -> dict[str, object]:
    engine = open_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        described = await connection.run_sync(_shape)
    await engine.dispose()
    return described


@pytest.mark.both_databases
async def test_a_migrated_schema_is_the_one_that_the_tables_describe(
    database_url: str, second_database_url: str
) -> None:
    migrated = open_engine(database_url)
    await upgrade_database(migrated)
    await upgrade_database(migrated)
    described = await _create_all(second_database_url)
    assert len(described) == len(Base.metadata.tables) > 6
    async with migrated.connect() as connection:
        assert await connection.run_sync(_differences) == []
        assert await connection.run_sync(_shape) == described
    await migrated.dispose()


# Tables, and a change of each in a migrated schema.
_CHANGES = [
    ("projects", "CREATE INDEX extra ON projects (name)"),
    ("people", "CREATE UNIQUE INDEX extra ON people (name)"),
    ("api_tokens", "DROP INDEX ix_api_tokens_account_id"),
    ("accounts", "ALTER TABLE accounts ADD COLUMN extra INTEGER"),
    ("accounts", "ALTER TABLE accounts DROP COLUMN plan"),
    ("accounts", "ALTER TABLE accounts RENAME COLUMN plan TO tariff"),
]
_CHANGES_ON_POSTGRES = [
    ("accounts", "ALTER TABLE accounts ALTER COLUMN created_at TYPE timestamp"),
    ("accounts", "ALTER TABLE accounts ALTER COLUMN ingest_burst TYPE bigint"),
    ("accounts", "ALTER TABLE accounts ALTER COLUMN name TYPE varchar(99)"),
    ("accounts", "ALTER TABLE accounts ALTER COLUMN plan DROP NOT NULL"),
    ("accounts", "ALTER TABLE accounts ALTER COLUMN plan SET DEFAULT 'free'"),
    ("accounts", "ALTER TABLE accounts ALTER COLUMN id DROP DEFAULT"),
    ("accounts", "ALTER TABLE accounts DROP CONSTRAINT uq_accounts_slug"),
    ("accounts", "ALTER TABLE accounts RENAME CONSTRAINT uq_accounts_slug TO other"),
    ("memberships", "ALTER TABLE memberships DROP CONSTRAINT fk_memberships_person_id_people"),
    ("accounts", "ALTER TABLE accounts ADD CHECK (ingest_burst > 0)"),
]


@pytest.mark.both_databases
async def test_differences_are_seen(database_url: str, second_database_url: str) -> None:
    """Each change is rolled back, which both databases support for changes of tables too."""
    described = await _create_all(second_database_url)
    migrated = open_engine(database_url)
    await upgrade_database(migrated)
    is_sqlite = migrated.dialect.name == "sqlite"
    for table, change in _CHANGES if is_sqlite else _CHANGES + _CHANGES_ON_POSTGRES:
        async with migrated.connect() as connection:
            if is_sqlite:
                # Python's driver begins a transaction at the first INSERT only.
                await connection.exec_driver_sql("BEGIN")
            await connection.execute(text(change))
            assert await connection.run_sync(_shape, table) != {table: described[table]}, change
            await connection.rollback()
    async with migrated.connect() as connection:
        assert await connection.run_sync(_shape) == described
    await migrated.dispose()


@pytest.mark.both_databases
async def test_concurrent_upgrades_all_succeed(database_url: str) -> None:
    # One engine for each, as separate processes have.
    engines = [open_engine(database_url) for _ in range(6)]
    await asyncio.gather(*(upgrade_database(engine) for engine in engines))
    async with engines[0].connect() as connection:
        assert await connection.run_sync(_differences) == []
        found = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalars().all()
        assert found == [newest_revision()]
    for engine in engines:
        await engine.dispose()


@pytest.mark.both_databases
async def test_failed_upgrade_is_rolled_back_and_can_be_repeated(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(database_url)

    def fail(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("in the middle")

    # The third table has the first index.
    monkeypatch.setattr(op, "create_index", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        await upgrade_database(engine)
    async with engine.connect() as connection:
        assert await connection.run_sync(lambda sync: inspect(sync).get_table_names()) == []
    monkeypatch.undo()
    await upgrade_database(engine)
    async with engine.connect() as connection:
        assert await connection.run_sync(_differences) == []
    await engine.dispose()


def test_the_newest_file_is_the_head() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(upgrade.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [newest_revision()]


@pytest.mark.both_databases
async def test_database_of_a_newer_version_is_refused_with_advice(database_url: str) -> None:
    engine = open_engine(database_url)
    await upgrade_database(engine)
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StorageUnavailable, match=r"revision 9999.*restore a backup"):
        await upgrade_database(engine)
    await engine.dispose()
