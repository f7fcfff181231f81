"""Reads the plan with which a database would run a query."""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import event, text

from control_domain.database.engine import Sessions


async def explain_only_query(sessions: Sessions, run: Callable[[], Awaitable[object]]) -> str:
    """Run `run`, which sends one statement, and return the plan of this statement. Postgres plans as if tables were
    large."""
    engine = sessions.kw["bind"]
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append((statement, parameters))

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        await run()
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
    ((statement, parameters),) = sent
    explain = "EXPLAIN"
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            # Postgres would not use an index for a few rows.
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
        else:
            explain = "EXPLAIN QUERY PLAN"
        return str((await connection.exec_driver_sql(f"{explain} {statement}", tuple(parameters))).all())
