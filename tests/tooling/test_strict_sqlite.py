"""Values that Postgres refuses are refused on the SQLite of tests, too."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DataError, DBAPIError

from control_api.database import open_engine
from tests.support.cheap_engines import cheap_engines

_INSERT = text(
    "INSERT INTO accounts (public_id, name, slug, plan, ingest_rate, ingest_burst, created_at)"
    " VALUES ('acc_1', :name, 'acme', 'free', 1, :burst, '2026-11-20 12:00:00+00')"
)
_GOOD: dict[str, object] = {"name": "ü" * 100, "burst": 2**31 - 1}
_REFUSED = [
    ("name", "ü" * 101, "value too long for accounts.name"),
    ("name", "a\0b", "NUL character in accounts.name"),
    ("burst", 2**31, "integer out of range for accounts.ingest_burst"),
    ("burst", -(2**31) - 1, "integer out of range for accounts.ingest_burst"),
]


@pytest.mark.both_databases
async def test_what_postgres_refuses_is_refused(database_url: str) -> None:
    with cheap_engines():
        engine = open_engine(database_url)
    is_sqlite = engine.dialect.name == "sqlite"
    # asyncpg checks some values itself, with an error that is no `DataError`.
    error = DataError if is_sqlite else DBAPIError
    for statement in (_INSERT, text("UPDATE accounts SET name = :name, ingest_burst = :burst")):
        for column, value, message in _REFUSED:
            with pytest.raises(error, match=message if is_sqlite else None):
                async with engine.begin() as connection:
                    await connection.execute(statement, {**_GOOD, column: value})
        async with engine.begin() as connection:
            await connection.execute(statement, _GOOD)
    await engine.dispose()
