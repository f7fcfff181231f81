"""Completes the table of trace times after a crash between the two parts of an insert."""

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def refill_trace_times(store: ColumnStore, log: str, first: int, past_last: int) -> None:
    """Add missing traces of the spans from `[first, past_last)` of `log` to `otel_traces_trace_id_ts`.

    The materialized view fills that table with each insert, in a separate part: a crash between the two parts leaves
    spans whose trace cannot be looked up, and these spans are never inserted again. A second call adds nothing. Raises
    `StorageUnavailable`.
    """
    await store.command(_SQL, {"log": log, "first": first, "past_last": past_last})
