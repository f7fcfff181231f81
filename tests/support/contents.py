"""All rows of a control plane's database, to compare them before and after something."""

import functools
import sqlite3
from contextlib import closing
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.base import Base


async def read_contents(
    engine: AsyncEngine, without: frozenset[str] = frozenset()
) -> dict[str, list[tuple[Any, ...]]]:
    """The committed rows of every table in the order of their keys, without the columns of these names.

    SQLite files are read with `sqlite3` in one go (a tenth of the time), so values have the driver's types.
    """
    queries = _queries(without)
    if engine.dialect.name == "sqlite":
        assert engine.url.database is not None
        with closing(sqlite3.connect(engine.url.database)) as file:
            return {name: file.execute(sql).fetchall() for name, (_, sql) in queries.items()}
    async with engine.connect() as connection:
        return {
            name: [tuple(row) for row in await connection.execute(query)]
            for name, (query, _) in queries.items()
        }


@functools.cache
def _queries(without: frozenset[str]) -> dict[str, tuple[Select[Any], str]]:
    """By the tables' names, as SQLAlchemy and as text."""
    found = {}
    for table in Base.metadata.sorted_tables:
        columns = [column for column in table.columns if column.name not in without]
        query = select(*columns).order_by(*table.primary_key.columns)
        found[table.name] = (query, str(query))
    return found
