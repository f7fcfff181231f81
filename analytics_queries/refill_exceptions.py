"""Completes the table of exceptions after a crash in the middle of an insert."""

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)
_VIEWS = {
    "pharos.telemetry_events": "exceptions_of_events",
    "pharos.otel_traces": "exceptions_of_spans",
    "pharos.otel_logs": "exceptions_of_logs",
}

TABLES = tuple(_VIEWS)
"""Tables whose rows may have exceptions."""


async def refill_exceptions(store: ColumnStore, table: str, log: str, first: int, past_last: int) -> None:
    """Add the exceptions that `pharos.exceptions` lacks. They come from rows of `table` at offsets from `first`
    (inclusive) to `past_last` (exclusive) of `log`.

    Materialized views fill that table with each insert, in a data part of its own. A crash between the two parts
    leaves exceptions that no group counts. A second call adds nothing. Raises `StorageUnavailable`.
    """
    parameters = {"view": _VIEWS[table], "log": log, "first": first, "past_last": past_last}
    await store.command(_SQL, parameters)
