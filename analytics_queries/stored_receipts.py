"""Which of these receipts are stored, and from which record of the log?"""

from collections.abc import Sequence

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)
# With this number of names, the text of a query stays below ClickHouse's limit of 256 KiB.
_BATCH = 2000


async def stored_receipts(store: ColumnStore, names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the receipts in `names` that are stored, as {name: (log, offset of the record)}.

    Raises `StorageUnavailable`.
    """
    found: dict[str, tuple[str, int]] = {}
    for begin in range(0, len(names), _BATCH):
        result = await store.query(_SQL, {"receipts": list(names[begin : begin + _BATCH])})
        for name, log, offset in result.rows:
            found[name] = (log, offset)
    return found
