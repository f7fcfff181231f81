"""Makes SQLite refuse the values that Postgres refuses: texts that are too long, integers beyond 32 bits, and NUL
characters.

SQLite ignores the length of `VARCHAR(n)` and the range of `INTEGER`. Most tests run on SQLite only, so without this
they would pass with values that no production database accepts. The check works only in the process of the tests;
triggers would work in every process, but take an eighth more CPU time.
"""

from typing import Any

from sqlalchemy import BigInteger, Integer, event
from sqlalchemy.exc import DataError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.types import TypeEngine


class _Refused(Exception):
    """Stands for the driver's error."""


def refuse_as_postgres(engine: AsyncEngine) -> None:
    """Raise `DataError` for a statement of this SQLite engine with a value that Postgres refuses."""
    event.listen(engine.sync_engine, "before_cursor_execute", _check_values)


def _check_values(
    connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
) -> None:
    compiled = context.compiled
    if compiled is None:
        return
    # Postgres compares with texts of any length; only stored texts have the column's limit.
    stores = context.isinsert or context.isupdate
    for values in context.compiled_parameters:
        for name, value in values.items():
            if (bound := compiled.binds.get(name)) is None:
                continue
            if reason := _find_fault(value, bound.type, stores):
                raise DataError(statement, None, _Refused(f"{reason} for {name}"))


def _find_fault(value: object, kind: TypeEngine[Any], stores: bool) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return "NUL character"
        length = getattr(kind, "length", None)
        if stores and length is not None and len(value) > length:
            return "value too long"
    elif type(value) is int and isinstance(kind, Integer) and not isinstance(kind, BigInteger):
        return None if -(2**31) <= value < 2**31 else "integer out of range"
    return None
