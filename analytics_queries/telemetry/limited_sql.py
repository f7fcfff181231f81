"""Runs queries that anybody with an API token may request. Each query has limits for time and memory, and all queries
of a request share a deadline."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore, QueryResult
from storage_backends.sql_files import read_sql, read_statements

T = TypeVar("T")

_MAX_SECONDS = 20
# The engine plans a query on one core. A request runs at most this many queries at once, so that it does not use the
# whole engine.
_QUERIES_AT_ONCE = 2
# This limit is needed because the embedded engine runs in the process that accepts telemetry.
_MEMORY = "max_memory_usage = 1073741824"
# Python needs several times as much memory as a result has bytes.
_MAX_BYTES = f"{_MEMORY}, max_result_bytes = 67108864, result_overflow_mode = 'throw'"
# Read the indexes before the data parts: a search for a word that no part contains then costs only a fifth.
_SETTINGS = f"{_MAX_BYTES}, max_threads = 2, use_skip_indexes_on_data_read = 0"
# If a query may use projections, the engine checks each projection of each data part before it reads a row. This takes
# half of the time of most queries (decision 53).
_NO_PROJECTIONS = ", optimize_use_projections = 0"
_SETTINGS += _NO_PROJECTIONS
LIMITS = f"\nSETTINGS max_execution_time = {_MAX_SECONDS}, {_SETTINGS}"
_deadline: ContextVar[float | None] = ContextVar("deadline of the queries of a request", default=None)


def read_limited_sql(module_file: str | Path) -> str:
    """Return the text of the module's `.sql` file, with the limits added. A query that exceeds a limit raises
    `StorageUnavailable`."""
    return read_sql(module_file).rstrip() + LIMITS


def read_limited_statements(module_file: str | Path) -> Mapping[str, str]:
    """Return the statements in the module's `.sql` file by name, each with the limits added."""
    return {name: text + LIMITS for name, text in read_statements(module_file).items()}


@contextlib.contextmanager
def share_time(seconds: float) -> Iterator[None]:
    """Limit the total time of all queries that `query_limited` runs in this block to `seconds`. If the block is inside
    another such block, its queries get at most the remaining time of the outer block."""
    outer, deadline = _deadline.get(), monotonic() + seconds
    token = _deadline.set(deadline if outer is None else min(outer, deadline))
    try:
        yield
    finally:
        _deadline.reset(token)


async def query_limited(
    store: ColumnStore,
    sql: str,
    parameters: Mapping[str, Any],
    settings: str = "",
    *,
    uses_projections: bool = False,
) -> QueryResult:
    """Run a query whose text ends with `LIMITS`, within the time that is left in the block of `share_time`. `settings`:
    text to append to the query's settings. `uses_projections`: True if the engine may use projections.

    Raises `StorageUnavailable`, also if no time is left.
    """
    left = _seconds_left()
    if left is not None:
        seconds = min(_MAX_SECONDS, left)
        sql = f"{sql.removesuffix(LIMITS)}\nSETTINGS max_execution_time = {seconds}, {_SETTINGS}"
    if uses_projections:
        sql = sql.replace(_NO_PROJECTIONS, "")
    return await store.query(sql + settings, parameters)


async def command_limited(
    store: ColumnStore,
    sql: str,
    parameters: Mapping[str, Any],
    *,
    is_large: bool = False,
    settings: Sequence[str] = (),
) -> None:
    """Run an `INSERT … SELECT`, within the time that is left in the block of `share_time`. It has the memory and thread
    limits of a query, unless `is_large` is True. Outside such a block, as in a background worker, the statement may
    take minutes. `settings`: the settings of the statement itself.

    Raises `StorageUnavailable`, also if no time is left.
    """
    left = _seconds_left()
    limits = [] if left is None else [f"max_execution_time = {left}"]
    if not is_large:
        limits += [_MEMORY, "max_threads = 2"]
    if settings or limits:
        sql = f"{sql}\nSETTINGS {', '.join([*settings, *limits])}"
    await store.command(sql, parameters)


def _seconds_left() -> int | None:
    """Return how many seconds are left in the block of `share_time`. None outside such a block. Raises
    `StorageUnavailable` if no time is left."""
    deadline = _deadline.get()
    if deadline is None:
        return None
    seconds = int(deadline - monotonic())
    if seconds < 1:
        raise StorageUnavailable("The queries of this request have taken all of their time.")
    return seconds


async def run_together(*reads: Coroutine[Any, Any, T]) -> list[T]:
    """Run independent reads of one request, two at a time, and return their results. If a read fails, cancel the
    others, wait for their end, and raise the error."""
    turns = asyncio.Semaphore(_QUERIES_AT_ONCE)

    async def run(read: Coroutine[Any, Any, T]) -> T:
        async with turns:
            return await read

    tasks = [asyncio.create_task(run(read)) for read in reads]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for read in reads:
            # Without this, Python would warn about a coroutine that was never awaited.
            read.close()
