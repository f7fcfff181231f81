"""The SQLite of tests refuses the values that Postgres refuses."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.exc import DataError, DBAPIError

from control_domain.database.engine import open_engine
from control_domain.tables.accounts import Account
from tests.support.cheap_engines import engines_are_cheap

__all__ = ["engines_are_cheap"]

_OTHERS = {
    "public_id": "acc_1",
    "slug": "acme",
    "plan": "free",
    "ingest_rate": 1,
    "created_at": datetime(2026, 11, 20, tzinfo=UTC),
}
_GOOD: dict[str, object] = {"name": "ü" * 100, "ingest_burst": 2**31 - 1}
_REFUSED = [
    ("name", "ü" * 101, "value too long"),
    ("name", "a\0b", "NUL character"),
    ("ingest_burst", 2**31, "integer out of range"),
    ("ingest_burst", -(2**31) - 1, "integer out of range"),
]


@pytest.mark.both_databases
async def test_values_that_postgres_refuses_are_refused(database_url: str) -> None:
    engine = open_engine(database_url)
    is_sqlite = engine.dialect.name == "sqlite"
    # asyncpg checks some values itself, with an error that is not a `DataError`.
    error = DataError if is_sqlite else DBAPIError
    for statement in (insert(Account).values(_OTHERS), update(Account)):
        for column, value, message in _REFUSED:
            with pytest.raises(error, match=message if is_sqlite else None):
                async with engine.begin() as connection:
                    await connection.execute(statement.values({**_GOOD, column: value}))
        async with engine.begin() as connection:
            await connection.execute(statement.values(_GOOD))
    for column, value, message in _REFUSED[1:3]:
        with pytest.raises(error, match=message if is_sqlite else None):
            async with engine.begin() as connection:
                await connection.execute(select(Account).where(getattr(Account, column) == value))
    async with engine.begin() as connection:
        # Comparing with a text that is too long is allowed.
        assert (await connection.execute(select(Account).where(Account.name == "ü" * 101))).all() == []
    await engine.dispose()
