"""Completes the table of trace times after a crash in the middle of an insert."""

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def refill_trace_times(store: ColumnStore, log: str, first: int, past_last: int) -> None:
    """Add the traces that `otel_traces_trace_id_ts` lacks. They come from spans at offsets from `first` (inclusive) to
    `past_last` (exclusive) of `log`.

    A materialized view fills that table with each insert, in a data part of its own. A crash between the two parts
    leaves spans whose trace cannot be looked up, and these spans are never inserted again. A second call adds nothing.
    Raises `StorageUnavailable`.
    """
    await store.command(_SQL, {"log": log, "first": first, "past_last": past_last})
