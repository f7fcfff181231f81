"""The current states of monitors in the control plane's Postgres. Uses asyncpg without SQLAlchemy."""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from pipeline_contracts.blind_times import Gap, find_gap
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.heartbeat_states import keep_failures, recount
from pipeline_contracts.times import from_epoch_ms
from storage_backends.monitor_states.interface import (
    BLIND_CLOCK,
    Change,
    LogEntry,
    NamedHeartbeat,
    Progress,
    SeenQueue,
    SeenWorker,
    Watched,
)
from storage_backends.monitor_states.rows import (
    CREATED_COLUMNS,
    add_runs,
    all_runs,
    blind_facts,
    by_id,
    columns_of,
    heartbeats_of,
    log_entry_values,
    logs_to_trim,
    requested_runs,
    run_values,
    runs_of,
    snapshot_values,
    state_values,
    take_alerts,
    without_missing,
    worker_values,
    workers_to_keep,
)
from storage_backends.sql_files import read_statements

T = TypeVar("T")

_SQL = read_statements(__file__)

_CONNECTIONS = 4
_CONNECT_SECONDS = 5.0
_STATEMENT_SECONDS = 30.0
# The server itself ends a statement after the time limit above. This limit is for a server that does not respond at
# all.
_CALL_SECONDS = 35.0
# SQLSTATE classes of a server that is unreachable, starting, stopping or full, of conflicting transactions (23503: a
# monitor was removed between the read and the write), and of a database that is not migrated to this version yet.
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")
_UNAVAILABLE_STATES = ("40001", "40P01", "55P03", "25006", "23503", "42P01", "42703")


class PostgresMonitorStates:
    """A `MonitorStates` in Postgres. Made by `open_postgres_monitor_states`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def change(
        self, requested: Mapping[int, Collection[str]], change: Change, progress: Progress | None
    ) -> None:
        async def run(connection: Any) -> None:
            # Lock the heartbeats in the order of their IDs, so that two consumers never deadlock. Read the heartbeats
            # with a separate statement: the locking one may have waited, and would return settings from before the
            # wait.
            await connection.execute(_SQL["lock_heartbeats"], sorted(requested))
            watched = by_id(await connection.fetch(_SQL["read_heartbeats"], sorted(requested)))
            if keys := requested_runs(requested, watched):
                add_runs(watched, await connection.fetch(_SQL["read_runs"], *columns_of(keys)))
            changed = change(watched)
            for item in changed:
                if item.heartbeat.needs_recount:
                    rows = await connection.fetch(_SQL["read_run_times"], item.heartbeat.heartbeat_id)
                    recount(item.heartbeat, all_runs(item, rows))
            await _write(connection, changed)
            if progress is not None:
                await connection.execute(
                    _SQL["write_progress"], progress.topic, progress.partition, progress.through_ms
                )

        await self._in_transaction(run)

    async def find_or_create(self, requested: Sequence[NamedHeartbeat]) -> Mapping[tuple[str, str], int]:
        names = columns_of({(each.environment_id, each.name) for each in requested})
        creating = [each for each in requested if each.created_ms is not None]
        pings = sorted(each.ping_id for each in creating)

        async def find(connection: Any) -> dict[tuple[str, str], int | None]:
            return {(row[0], row[1]): row[2] for row in await connection.fetch(_SQL["read_names"], *names)}

        async def run(connection: Any) -> Mapping[tuple[str, str], int]:
            if not creating:
                return without_missing(await find(connection))
            # Insert first the pings and then the names, both in order: two consumers of the same record then never
            # deadlock, and the second consumer sees what the first one has created.
            now_ms = time.time_ns() // 1_000_000
            claimed = {row[0] for row in await connection.fetch(_SQL["claim_creating_pings"], pings, now_ms)}
            applied = dict(
                await connection.fetch(_SQL["read_creating_pings"], [p for p in pings if p not in claimed])
            )
            earlier = heartbeats_of(creating, applied)
            known = await find(connection) | earlier
            # The first ping of a name decides when its heartbeat was created.
            missing = {
                (each.environment_id, each.name): each.created_ms
                for each in reversed(creating)
                if each.created_ms is not None and (each.environment_id, each.name) not in known
            }
            for (environment_id, name), created_ms in sorted(missing.items()):
                values = (environment_id, name, from_epoch_ms(created_ms), *CREATED_COLUMNS)
                await connection.execute(_SQL["create_heartbeat"], *values, created_ms)
            found = await find(connection) | earlier
            if claimed:
                heartbeats = {
                    each.ping_id: found.get((each.environment_id, each.name))
                    for each in creating
                    if each.ping_id in claimed
                }
                await connection.execute(
                    _SQL["note_heartbeats_of_pings"], list(heartbeats), list(heartbeats.values())
                )
            return without_missing(found)

        return await self._in_transaction(run)

    async def prune_creating_pings(self, before_ms: int, limit: int) -> int:
        return _count(await self._execute(_SQL["delete_creating_pings"], before_ms, limit))

    async def add_log_entries(self, entries: Sequence[LogEntry]) -> None:
        async def run(connection: Any) -> None:
            await connection.executemany(_SQL["write_log_entry"], [log_entry_values(e) for e in entries])
            await connection.executemany(_SQL["trim_log"], logs_to_trim(entries))

        await self._in_transaction(run)

    async def change_due(self, clock_ms: int, limit: int, change: Change) -> int:
        async def run(connection: Any) -> int:
            watched = by_id(await connection.fetch(_SQL["read_due_heartbeats"], clock_ms, limit))
            running = [number for number, found in watched.items() if found.heartbeat.open_runs]
            if running:
                add_runs(watched, await connection.fetch(_SQL["read_open_runs"], running))
            await _write(connection, change(watched))
            return len(watched)

        return await self._in_transaction(run)

    async def mark_unknown(self, clock_ms: int, until_ms: int, now_ms: int) -> int:
        return _count(await self._execute(_SQL["mark_unknown"], now_ms, clock_ms, until_ms))

    async def keep_clock(self, clock: str, at_ms: int) -> Gap | None:
        async def run(connection: Any) -> Gap | None:
            for name, start_ms in ((clock, at_ms), (BLIND_CLOCK, 0)):
                await connection.execute(_SQL["add_clock"], name, start_ms)
            through = dict(await connection.fetch(_SQL["lock_clocks"], [clock, BLIND_CLOCK]))
            await connection.execute(_SQL["write_progress"], clock, 0, at_ms)
            if (gap := find_gap(through[clock], at_ms, through[BLIND_CLOCK])) is not None:
                await connection.execute(_SQL["write_progress"], BLIND_CLOCK, 0, gap.to_ms)
                await connection.execute(_SQL["lock_all_heartbeats"])
                moved = _count(await connection.execute(_SQL["move_past_gap"], gap.from_ms, gap.to_ms))
                if moved:
                    facts = blind_facts(gap, moved)
                    await connection.execute(_SQL["write_blind_alert"], gap.to_ms, facts)
            return gap

        return await self._in_transaction(run)

    async def apply_queues(
        self, snapshots: Sequence[SeenQueue], workers: Sequence[SeenWorker], progress: Progress
    ) -> None:
        async def run(connection: Any) -> None:
            if snapshots:
                await connection.executemany(_SQL["write_snapshot"], [snapshot_values(s) for s in snapshots])
            if workers:
                await connection.executemany(_SQL["write_worker"], [worker_values(w) for w in workers])
                await connection.executemany(_SQL["forget_workers"], workers_to_keep(workers))
            await connection.execute(
                _SQL["write_progress"], progress.topic, progress.partition, progress.through_ms
            )

        await self._in_transaction(run)

    async def note_progress(self, progress: Progress) -> None:
        await self._execute(_SQL["write_progress"], progress.topic, progress.partition, progress.through_ms)

    async def read_progress(self, topic: str) -> Mapping[int, int]:
        async def run() -> Mapping[int, int]:
            return {row[0]: row[1] for row in await self._pool.fetch(_SQL["read_progress"], topic)}

        return await _translate_errors(run)

    async def forget_progress(self, topic: str, partitions: Collection[int]) -> int:
        return _count(await self._execute(_SQL["delete_progress"], topic, sorted(partitions)))

    async def prune_runs(self, before_ms: int, limit: int) -> int:
        async def run(connection: Any) -> int:
            found = runs_of(await connection.fetch(_SQL["read_prunable_runs"], before_ms, limit))
            if not found:
                return 0
            # No consumer changes these heartbeats until the transaction ends. Lock them in the order of their IDs, as
            # in `change`.
            await connection.execute(_SQL["lock_heartbeats"], sorted(found))
            # Read the runs again: during the wait, another scan may have removed the same runs and counted their
            # failures.
            rows = await connection.fetch(_SQL["read_prunable_runs"], before_ms, limit)
            rows = [row for row in rows if row[0] in found]
            runs = runs_of(rows)
            watched = by_id(await connection.fetch(_SQL["read_heartbeats"], sorted(runs)))
            changed = [item for n, item in watched.items() if keep_failures(item.heartbeat, runs[n])]
            await _write(connection, changed)
            if rows:
                await connection.execute(_SQL["delete_runs"], *columns_of(tuple(row[:2]) for row in rows))
            return len(rows)

        return await self._in_transaction(run)

    async def prune_log(self, before_ms: int, limit: int) -> int:
        return _count(await self._execute(_SQL["delete_log_entries"], before_ms, limit))

    async def close(self) -> None:
        await self._pool.close()

    async def _execute(self, statement: str, *parameters: Any) -> str:
        async def run() -> str:
            status: str = await self._pool.execute(statement, *parameters)
            return status

        return await _translate_errors(run)

    async def _in_transaction(self, run: Callable[[Any], Awaitable[T]]) -> T:
        async def begin() -> T:
            async with self._pool.acquire(timeout=_CONNECT_SECONDS) as connection, connection.transaction():
                return await run(connection)

        return await _translate_errors(begin)


async def _translate_errors(run: Callable[[], Awaitable[T]]) -> T:
    try:
        return await run()
    except asyncpg.PostgresError as error:
        state = error.sqlstate or ""
        if state[:2] in _UNAVAILABLE_CLASSES or state in _UNAVAILABLE_STATES:
            raise StorageUnavailable(f"The database does not answer now ({type(error).__name__}).") from error
        raise
    except (OSError, asyncpg.InterfaceError) as error:
        raise StorageUnavailable(f"The database does not answer now ({type(error).__name__}).") from error


async def _write(connection: Any, changed: Sequence[Watched]) -> None:
    if not changed:
        return
    alerts = take_alerts(changed)
    written = await connection.fetch(
        _SQL["write_states"], *columns_of(state_values(item.heartbeat) for item in changed)
    )
    # Heartbeats that another process has changed meanwhile were not written.
    written_ids = {row[0] for row in written}
    runs = [
        run_values(item.heartbeat.heartbeat_id, run)
        for item in changed
        if item.heartbeat.heartbeat_id in written_ids
        for run in item.changed
    ]
    if runs:
        await connection.execute(_SQL["write_runs"], *columns_of(runs))
    if alerts := [values for values in alerts if values[-1] in written_ids]:
        await connection.execute(_SQL["write_alerts"], *columns_of(alerts))


def _count(status: str) -> int:
    # The status text has the form "UPDATE 5".
    return int(status.rpartition(" ")[2])


async def open_postgres_monitor_states(url: str) -> PostgresMonitorStates:
    """Open the states in the database at `postgresql://user:password@host/name?sslmode=…`, which must be migrated.
    Raises `StorageUnavailable`, without the URL in its message."""
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
