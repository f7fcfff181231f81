"""Which records of a stretch of the log have rows in a table already?"""

from analytics_queries.sql_text import sql_beside
from storage_backends.column_store.interface import ColumnStore

_SQL = sql_beside(__file__)


async def stored_offsets(store: ColumnStore, table: str, log: str, first: int, past_last: int) -> set[int]:
    """Offsets in `[first, past_last)` of `log` that `table` (`database.table`) has rows of.

    An insert is one block, so a record has all of its rows there or none. Raises `StorageUnavailable`.
    """
    database, _, name = table.partition(".")
    parameters = {"database": database, "table": name, "log": log, "first": first, "past_last": past_last}
    return {row[0] for row in (await store.query(_SQL, parameters)).rows}
