"""The migrations lead to the schema that the tables describe."""

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

import control_api.accounts.tables
import control_api.projects.tables  # noqa: F401  (fills the metadata)
from control_api.database import Base, open_engine
from control_api.migrations import upgrade
from control_api.migrations.upgrade import newest_revision, upgrade_database


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, Base.metadata))


def _shape(connection: Connection) -> dict[str, object]:
    inspector = inspect(connection)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)],
            sorted(str(sorted(u["column_names"])) for u in inspector.get_unique_constraints(table)),
            sorted(str((i["name"], i["column_names"], i["unique"])) for i in inspector.get_indexes(table)),
            sorted(
                str((f["constrained_columns"], f["referred_table"]))
                for f in inspector.get_foreign_keys(table)
            ),
        )
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }


async def test_a_migrated_schema_is_the_one_that_the_tables_describe(tmp_path: Path) -> None:
    migrated = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'migrated.sqlite'}")
    fresh = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'fresh.sqlite'}")
    await upgrade_database(migrated)
    await upgrade_database(migrated)
    async with fresh.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        described = await connection.run_sync(_shape)
    async with migrated.connect() as connection:
        assert await connection.run_sync(_differences) == []
        assert await connection.run_sync(_shape) == described
    await migrated.dispose()
    await fresh.dispose()


def test_the_newest_file_is_the_head() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(upgrade.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [newest_revision()]
