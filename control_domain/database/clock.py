"""The clock of the database, for times that several machines compare: their own clocks may differ."""

from datetime import datetime
from typing import Any

from sqlalchemy import Float, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from control_domain.database.base import UtcDateTime


class database_now(FunctionElement[datetime]):
    """SQL for the time of the statement plus `seconds`, in milliseconds on SQLite and microseconds on Postgres.

    The time of the statement is used because the transaction may have waited for a lock since its start.
    """

    type = UtcDateTime()
    inherit_cache = True
    name = "database_now"

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(bindparam(None, float(seconds), type_=Float))


@compiles(database_now, "sqlite")
def _on_sqlite(element: database_now, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # SQLite compares times as text, so use the format of SQLAlchemy: six digits of a second.
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {seconds} || ' seconds')"


@compiles(database_now, "postgresql")
def _on_postgres(element: database_now, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(clock_timestamp() + make_interval(secs => {seconds}))"
