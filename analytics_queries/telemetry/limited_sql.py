"""Queries that anybody with an API token may request. Each has limits for time and memory, and all queries of a request
share a deadline."""

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
# The engine plans a query on one core. A request runs no more queries at once, so that it does not occupy the whole
# engine.
_QUERIES_AT_ONCE = 2
# The embedded engine runs in the process that accepts telemetry.
_MEMORY = "max_memory_usage = 1073741824"
# Python needs several times the bytes of a result.
_MAX_BYTES = f"{_MEMORY}, max_result_bytes = 67108864, result_overflow_mode = 'throw'"
# Read indexes before the parts: a search for a word that no part has then costs a fifth.
_SETTINGS = f"{_MAX_BYTES}, max_threads = 2, use_skip_indexes_on_data_read = 0"
# With projections, the engine checks each projection of each part before it reads a row, which takes half of the time
# of most reads (decision 53).
_NO_PROJECTIONS = ", optimize_use_projections = 0"
_SETTINGS += _NO_PROJECTIONS
LIMITS = f"\nSETTINGS max_execution_time = {_MAX_SECONDS}, {_SETTINGS}"
_deadline: ContextVar[float | None] = ContextVar("deadline of the queries of a request", default=None)


def read_limited_sql(module_file: str | Path) -> str:
    """Return the text of the module's `.sql` file with the limits. A query that exceeds them raises
    `StorageUnavailable`."""
    return read_sql(module_file).rstrip() + LIMITS


def read_limited_statements(module_file: str | Path) -> Mapping[str, str]:
    """Return the statements of the module's `.sql` file by name, each with the limits."""
    return {name: text + LIMITS for name, text in read_statements(module_file).items()}


@contextlib.contextmanager
def share_time(seconds: float) -> Iterator[None]:
    """Give all queries that `query_limited` runs in this block this much time together. Inside another such block, they
    get at most its remaining time."""
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
    """Run a query whose text ends with `LIMITS`, within the rest of the shared time. `settings` are appended to its
    settings. `uses_projections`: the engine may use projections.

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
    """Run `INSERT … SELECT` within the rest of the shared time, with the memory and the threads of a query unless
    `is_large`. Outside `share_time`, in a background worker, it may take minutes. `settings` are the settings of the
    statement itself.

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
    """Return the rest of the shared time in seconds; None without a shared time. Raises `StorageUnavailable` if no time
    is left."""
    deadline = _deadline.get()
    if deadline is None:
        return None
    seconds = int(deadline - monotonic())
    if seconds < 1:
        raise StorageUnavailable("The queries of this request have taken all of their time.")
    return seconds


async def run_together(*reads: Coroutine[Any, Any, T]) -> list[T]:
    """Run independent reads of one request two at a time, and return their results. After an error the others are
    cancelled, and have ended before the error is raised."""
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
            # Python would warn that a coroutine that has not begun was never awaited.
            read.close()
