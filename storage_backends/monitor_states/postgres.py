"""Monitors' present states in the control plane's Postgres, over asyncpg alone."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.heartbeat_states import forget_runs, recount
from storage_backends.monitor_states.interface import Change, Progress, SeenQueue, SeenWorker, Watched
from storage_backends.monitor_states.rows import (
    add_runs,
    all_runs,
    by_id,
    columns_of,
    run_values,
    runs_of,
    snapshot_values,
    state_values,
    wanted_runs,
    worker_values,
)
from storage_backends.sql_files import read_statements

T = TypeVar("T")

_SQL = read_statements(__file__)

_CONNECTIONS = 4
_CONNECT_SECONDS = 5.0
_STATEMENT_SECONDS = 30.0
# The server ends a statement after the one above; this is for a server that does not even do that.
_CALL_SECONDS = 35.0
# SQLSTATEs of a server that is away, starting, stopping or full, of two transactions in each other's way (23503: a
# monitor was removed between the look for it and the write), and of a database that is behind this version.
_AWAY_CLASSES = ("08", "53", "57", "58")
_AWAY_STATES = ("40001", "40P01", "55P03", "25006", "23503", "42P01", "42703")


class PostgresMonitorStates:
    """Made by `open_postgres_monitor_states`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def change(
        self, wanted: Mapping[int, Collection[str]], change: Change, progress: Progress | None
    ) -> None:
        async def run(connection: Any) -> None:
            # Locked in the order of their IDs: two consumers never wait for each other crosswise. Read by a statement
            # that begins thereafter: one that has waited would see the settings from before.
            await connection.execute(_SQL["lock_heartbeats"], sorted(wanted))
            watched = by_id(await connection.fetch(_SQL["read_heartbeats"], sorted(wanted)))
            if keys := wanted_runs(wanted, watched):
                add_runs(watched, await connection.fetch(_SQL["read_runs"], *columns_of(keys)))
            changed = change(watched)
            for one in changed:
                if one.heartbeat.recount:
                    rows = await connection.fetch(_SQL["read_run_times"], one.heartbeat.heartbeat_id)
                    recount(one.heartbeat, all_runs(one, rows))
            await _write(connection, changed)
            if progress is not None:
                await connection.execute(
                    _SQL["write_progress"], progress.topic, progress.partition, progress.through_ms
                )

        await self._in_transaction(run)

    async def change_due(self, clock_ms: int, most: int, change: Change) -> int:
        async def run(connection: Any) -> int:
            watched = by_id(await connection.fetch(_SQL["read_due_heartbeats"], clock_ms, most))
            running = [one for one, found in watched.items() if found.heartbeat.open_runs]
            if running:
                add_runs(watched, await connection.fetch(_SQL["read_open_runs"], running))
            await _write(connection, change(watched))
            return len(watched)

        return await self._in_transaction(run)

    async def mark_unknown(self, clock_ms: int, until_ms: int, now_ms: int) -> int:
        return _count(await self._execute(_SQL["mark_unknown"], now_ms, clock_ms, until_ms))

    async def apply_queues(
        self, snapshots: Sequence[SeenQueue], workers: Sequence[SeenWorker], progress: Progress
    ) -> None:
        async def run(connection: Any) -> None:
            if snapshots:
                await connection.executemany(_SQL["write_snapshot"], [snapshot_values(s) for s in snapshots])
            if workers:
                await connection.executemany(_SQL["write_worker"], [worker_values(w) for w in workers])
            await connection.execute(
                _SQL["write_progress"], progress.topic, progress.partition, progress.through_ms
            )

        await self._in_transaction(run)

    async def note_progress(self, progress: Progress) -> None:
        await self._execute(_SQL["write_progress"], progress.topic, progress.partition, progress.through_ms)

    async def read_progress(self, topic: str) -> Mapping[int, int]:
        async def run() -> Mapping[int, int]:
            return {row[0]: row[1] for row in await self._pool.fetch(_SQL["read_progress"], topic)}

        return await _asked(run)

    async def forget_progress(self, topic: str, partitions: Collection[int]) -> int:
        return _count(await self._execute(_SQL["delete_progress"], topic, sorted(partitions)))

    async def prune_runs(self, before_ms: int, most: int) -> int:
        async def run(connection: Any) -> int:
            found = runs_of(await connection.fetch(_SQL["read_prunable_runs"], before_ms, most))
            if not found:
                return 0
            # No consumer changes the heartbeats until the end. In the order of their IDs, as everywhere.
            await connection.execute(_SQL["lock_heartbeats"], sorted(found))
            # Read again: while this waited, another scan may have pruned the same runs and kept their failures.
            rows = await connection.fetch(_SQL["read_prunable_runs"], before_ms, most)
            rows = [row for row in rows if row[0] in found]
            runs = runs_of(rows)
            watched = by_id(await connection.fetch(_SQL["read_heartbeats"], sorted(runs)))
            changed = [one for n, one in watched.items() if forget_runs(one.heartbeat, runs[n])]
            await _write(connection, changed)
            if rows:
                await connection.execute(_SQL["delete_runs"], *columns_of(tuple(row[:2]) for row in rows))
            return len(rows)

        return await self._in_transaction(run)

    async def close(self) -> None:
        await self._pool.close()

    async def _execute(self, statement: str, *parameters: Any) -> str:
        async def run() -> str:
            status: str = await self._pool.execute(statement, *parameters)
            return status

        return await _asked(run)

    async def _in_transaction(self, run: Callable[[Any], Awaitable[T]]) -> T:
        async def begin() -> T:
            async with self._pool.acquire(timeout=_CONNECT_SECONDS) as connection, connection.transaction():
                return await run(connection)

        return await _asked(begin)


async def _asked(run: Callable[[], Awaitable[T]]) -> T:
    try:
        return await run()
    except asyncpg.PostgresError as error:
        state = error.sqlstate or ""
        if state[:2] in _AWAY_CLASSES or state in _AWAY_STATES:
            raise StorageUnavailable(f"The database does not answer now ({type(error).__name__}).") from error
        raise
    except (OSError, asyncpg.InterfaceError) as error:
        raise StorageUnavailable(f"The database does not answer now ({type(error).__name__}).") from error


async def _write(connection: Any, changed: Sequence[Watched]) -> None:
    if not changed:
        return
    written = await connection.fetch(
        _SQL["write_states"], *columns_of(state_values(one.heartbeat) for one in changed)
    )
    # Whose version has moved on was changed by somebody else meanwhile: it is theirs.
    ours = {row[0] for row in written}
    runs = [
        run_values(one.heartbeat.heartbeat_id, run)
        for one in changed
        if one.heartbeat.heartbeat_id in ours
        for run in one.changed
    ]
    if runs:
        await connection.execute(_SQL["write_runs"], *columns_of(runs))


def _count(status: str) -> int:
    # "UPDATE 5"
    return int(status.rpartition(" ")[2])


async def open_postgres_monitor_states(url: str) -> PostgresMonitorStates:
    """The states in the control plane's database, `postgresql://user:password@host/name?sslmode=…`, which is migrated.
    Raises `StorageUnavailable`, which does not repeat the URL."""
    scheme, _, rest = url.partition("://")
    try:
        pool = await asyncpg.create_pool(
            f"{scheme.removesuffix('+asyncpg')}://{rest}",
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=_CONNECT_SECONDS,
            command_timeout=_CALL_SECONDS,
            server_settings={
                "application_name": "pharos monitors",
                "statement_timeout": str(int(_STATEMENT_SECONDS * 1000)),
            },
        )
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StorageUnavailable(f"The database cannot be reached ({type(error).__name__}).") from None
    return PostgresMonitorStates(pool)
