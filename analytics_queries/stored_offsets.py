"""How many rows does a table already have of each record in a range of the log?"""

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def stored_offsets(
    store: ColumnStore, table: str, log: str, first: int, past_last: int
) -> dict[int, int]:
    """Return the number of rows in `table` (`database.table`) by offset, for offsets from `first` (inclusive) to
    `past_last` (exclusive) of `log`. Offsets without rows are left out.

    The rows of a record are inserted in order, and each block as a whole. So the rows in the table are always the
    first rows of the record. Raises `StorageUnavailable`.
    """
    database, _, name = table.partition(".")
    parameters = {"database": database, "table": name, "log": log, "first": first, "past_last": past_last}
    ((offsets, rows),) = (await store.query(_SQL, parameters)).rows
    return dict(zip(offsets, rows, strict=True))
