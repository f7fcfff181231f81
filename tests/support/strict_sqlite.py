"""SQLite that refuses the values that Postgres refuses: too long texts, integers beyond 32 bits, and NUL characters.

SQLite ignores the length of `VARCHAR(n)` and the range of `INTEGER`. Most tests run on SQLite only, so without these
triggers they would pass with values that no production database takes. The triggers belong to the file of a
database: copies have them, and they work in every process.
"""

import contextlib
import importlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import BigInteger, Column, Integer, String, Table, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DataError
from sqlalchemy.ext.asyncio import AsyncEngine

import control_api
from control_api.database import Base


def add_limits(file: Path) -> None:
    """Add triggers to all tables of a migrated database, which refuse values as Postgres does."""
    _import_all_tables()
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        for table in Base.metadata.sorted_tables:
            for trigger in _triggers(table):
                connection.execute(trigger)


def raise_data_errors(engine: AsyncEngine) -> None:
    """Raise `DataError` for a refusal of a trigger, as on Postgres.

    SQLite reports a refusal as a violated constraint (`IntegrityError`), and the product would answer that a name is
    taken.
    """
    event.listen(engine.sync_engine, "handle_error", _to_data_error)


def _to_data_error(context: ExceptionContext) -> DataError | None:
    found = context.original_exception
    if getattr(found, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_TRIGGER":
        return DataError(context.statement, context.parameters, found)
    return None


def _import_all_tables() -> None:
    root = Path(control_api.__file__).parent
    for file in root.rglob("tables.py"):
        importlib.import_module(".".join((root.name, *file.relative_to(root).with_suffix("").parts)))


def _triggers(table: Table) -> Iterator[str]:
    refusals = [refusal for column in table.columns for refusal in _refusals(column)]
    if not refusals:
        return
    any_refusal = " OR ".join(condition for condition, _ in refusals)
    cases = " ".join(f"WHEN {condition} THEN RAISE(ABORT, '{message}')" for condition, message in refusals)
    for verb in ("INSERT", "UPDATE"):
        yield (
            f"CREATE TRIGGER limits_of_{table.name}_on_{verb.lower()} BEFORE {verb} ON {table.name} "
            f"WHEN {any_refusal} BEGIN SELECT CASE {cases} END; END"
        )


def _refusals(column: "Column[object]") -> Iterator[tuple[str, str]]:
    """The conditions on which a new value is refused, each with its message."""
    name, new = f"{column.table.name}.{column.name}", f'NEW."{column.name}"'
    if isinstance(column.type, String):
        if column.type.length is not None:
            yield f"length({new}) > {column.type.length}", f"value too long for {name}"
        # length() counts the characters before the first NUL only.
        yield f"instr(CAST({new} AS BLOB), x'00') > 0", f"NUL character in {name}"
    elif isinstance(column.type, Integer) and not isinstance(column.type, BigInteger):
        yield f"{new} NOT BETWEEN {-(2**31)} AND {2**31 - 1}", f"integer out of range for {name}"
