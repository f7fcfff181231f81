"""The current states of monitors in the SQLite file of an embedded control plane.

The module uses one connection, in a thread of its own. The journal (WAL) lets the control plane read at the same
time. Writers wait for each other.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

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

_BATCH = 1000
# The control plane, which writes to the same file, has the same timeout: see `control_domain.database.engine`.
_BUSY_SECONDS = 30.0


class SqliteMonitorStates:
    """A `MonitorStates` in SQLite. Made by `open_sqlite_monitor_states`."""

    def __init__(self, connection: sqlite3.Connection, on_news: Callable[[], object]) -> None:
        self._connection = connection
        self._on_news = on_news
        self._has_news = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="monitor-states")
        self._closed = False

    async def change(
        self, requested: Mapping[int, Collection[str]], change: Change, progress: Progress | None
    ) -> None:
        def run() -> None:
            with self._transaction():
                self._change(requested, change)
                if progress is not None:
                    self._note(progress)

        await self._call(run)

    def _change(self, requested: Mapping[int, Collection[str]], change: Change) -> None:
        watched = self._read(_SQL["read_heartbeats"], (json.dumps(list(requested)),))
        keys = requested_runs(requested, watched)
        for begin in range(0, len(keys), _BATCH):
            self._add_runs(watched, _SQL["read_runs"], keys[begin : begin + _BATCH])
        changed = change(watched)
        for item in changed:
            if item.heartbeat.needs_recount:
                rows = self._connection.execute(_SQL["read_run_times"], (item.heartbeat.heartbeat_id,))
                recount(item.heartbeat, all_runs(item, rows))
        self._write(changed)

    async def find_or_create(self, requested: Sequence[NamedHeartbeat]) -> Mapping[tuple[str, str], int]:
        def run() -> Mapping[tuple[str, str], int]:
            with self._transaction():
                creating = [each for each in requested if each.created_ms is not None]
                ids = json.dumps([each.ping_id for each in creating])
                applied = dict(self._connection.execute(_SQL["read_creating_pings"], (ids,)))
                earlier = heartbeats_of(creating, applied)
                known = self._find_names(requested) | earlier
                for each in creating:
                    if each.created_ms is not None and (each.environment_id, each.name) not in known:
                        self._create(each.environment_id, each.name, each.created_ms)
                found = self._find_names(requested) | earlier
                now_ms = time.time_ns() // 1_000_000
                self._connection.executemany(
                    _SQL["note_creating_ping"],
                    [(e.ping_id, found.get((e.environment_id, e.name)), now_ms) for e in creating],
                )
            return without_missing(found)

        return await self._call(run)

    async def prune_creating_pings(self, before_ms: int, limit: int) -> int:
        return await self._write_once(_SQL["delete_creating_pings"], (before_ms, limit))

    def _find_names(self, requested: Sequence[NamedHeartbeat]) -> dict[tuple[str, str], int | None]:
        names = json.dumps([(each.environment_id, each.name) for each in requested])
        return {(row[0], row[1]): row[2] for row in self._connection.execute(_SQL["read_names"], (names,))}

    def _create(self, environment_id: str, name: str, created_ms: int) -> None:
        created = from_epoch_ms(created_ms).strftime("%Y-%m-%d %H:%M:%S.%f")
        values = (environment_id, name, created, *CREATED_COLUMNS)
        for (number,) in self._connection.execute(_SQL["create_heartbeat"], values).fetchall():
            self._connection.execute(_SQL["create_state"], (number, created_ms))
            self._connection.execute(_SQL["note_created"], (number, created_ms))
            self._has_news = True

    async def add_log_entries(self, entries: Sequence[LogEntry]) -> None:
        def run() -> None:
            with self._transaction():
                self._connection.executemany(_SQL["write_log_entry"], map(log_entry_values, entries))
                self._connection.executemany(_SQL["trim_log"], logs_to_trim(entries))

        await self._call(run)

    async def change_due(self, clock_ms: int, limit: int, change: Change) -> int:
        def run() -> int:
            with self._transaction():
                watched = self._read(_SQL["read_due_heartbeats"], (clock_ms, limit))
                running = [number for number, found in watched.items() if found.heartbeat.open_runs]
                self._add_runs(watched, _SQL["read_open_runs"], running)
                self._write(change(watched))
            return len(watched)

        return await self._call(run)

    async def mark_unknown(self, clock_ms: int, until_ms: int, now_ms: int) -> int:
        return await self._write_once(_SQL["mark_unknown"], (now_ms, clock_ms, until_ms))

    async def keep_clock(self, clock: str, at_ms: int) -> Gap | None:
        def run() -> Gap | None:
            with self._transaction():
                for name, start_ms in ((clock, at_ms), (BLIND_CLOCK, 0)):
                    self._connection.execute(_SQL["add_clock"], (name, start_ms))
                ((through_ms,),) = self._connection.execute(_SQL["read_clock"], (clock,))
                ((blind_to_ms,),) = self._connection.execute(_SQL["read_clock"], (BLIND_CLOCK,))
                self._note(Progress(clock, 0, at_ms))
                if (gap := find_gap(through_ms, at_ms, blind_to_ms)) is not None:
                    self._note(Progress(BLIND_CLOCK, 0, gap.to_ms))
                    self._move_past(gap)
            return gap

        return await self._call(run)

    def _move_past(self, gap: Gap) -> None:
        times = {"from_ms": gap.from_ms, "to_ms": gap.to_ms}
        moved = self._connection.execute(_SQL["move_past_gap"], times).rowcount
        if moved:
            values = {"at_ms": gap.to_ms, "facts": blind_facts(gap, moved)}
            self._connection.execute(_SQL["write_blind_alert"], values)
            self._has_news = True

    async def apply_queues(
        self, snapshots: Sequence[SeenQueue], workers: Sequence[SeenWorker], progress: Progress
    ) -> None:
        def run() -> None:
            with self._transaction():
                self._connection.executemany(_SQL["write_snapshot"], [snapshot_values(s) for s in snapshots])
                self._connection.executemany(_SQL["write_worker"], [worker_values(w) for w in workers])
                self._connection.executemany(_SQL["forget_workers"], workers_to_keep(workers))
                self._note(progress)

        await self._call(run)

    async def note_progress(self, progress: Progress) -> None:
        await self._write_once(
            _SQL["write_progress"], (progress.topic, progress.partition, progress.through_ms)
        )

    async def read_progress(self, topic: str) -> Mapping[int, int]:
        def run() -> Mapping[int, int]:
            return dict(self._connection.execute(_SQL["read_progress"], (topic,)))

        return await self._call(run)

    async def forget_progress(self, topic: str, partitions: Collection[int]) -> int:
        return await self._write_once(_SQL["delete_progress"], (topic, json.dumps(sorted(partitions))))

    async def prune_runs(self, before_ms: int, limit: int) -> int:
        def run() -> int:
            with self._transaction():
                rows = self._connection.execute(_SQL["read_prunable_runs"], (before_ms, limit)).fetchall()
                runs = runs_of(rows)
                watched = self._read(_SQL["read_heartbeats"], (json.dumps(list(runs)),))
                self._write([item for n, item in watched.items() if keep_failures(item.heartbeat, runs[n])])
                self._connection.executemany(_SQL["delete_run"], [row[:2] for row in rows])
            return len(rows)

        return await self._call(run)

    async def prune_log(self, before_ms: int, limit: int) -> int:
        return await self._write_once(_SQL["delete_log_entries"], (before_ms, limit))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._thread.shutdown)
            self._connection.close()

    def _read(self, sql: str, parameters: tuple[Any, ...]) -> dict[int, Watched]:
        return by_id(self._connection.execute(sql, parameters))

    def _add_runs(self, watched: Mapping[int, Watched], sql: str, keys: Sequence[Any]) -> None:
        if keys:
            add_runs(watched, self._connection.execute(sql, (json.dumps(keys),)))

    def _write(self, changed: Sequence[Watched]) -> None:
        # No other connection writes during the transaction, so the stored version is still the one that was read.
        if alerts := take_alerts(changed):
            self._connection.executemany(_SQL["write_alert"], alerts)
            self._has_news = True
        self._connection.executemany(_SQL["write_state"], [state_values(item.heartbeat) for item in changed])
        self._connection.executemany(
            _SQL["write_run"],
            [run_values(item.heartbeat.heartbeat_id, run) for item in changed for run in item.changed],
        )

    def _note(self, progress: Progress) -> None:
        self._connection.execute(
            _SQL["write_progress"], (progress.topic, progress.partition, progress.through_ms)
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Use IMMEDIATE: a transaction that has begun with a read cannot start to write while another one writes.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # On a full disk, the engine may have rolled back by itself, or a failed COMMIT may have left the
            # transaction open.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    async def _write_once(self, sql: str, parameters: tuple[Any, ...]) -> int:
        return await self._call(lambda: self._connection.execute(sql, parameters).rowcount)

    async def _call(self, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The monitors' states are closed.")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except sqlite3.OperationalError as error:
            raise StorageUnavailable(f"The database does not answer now ({error}).") from error
        finally:
            if self._has_news:
                self._has_news = False
                self._on_news()


async def open_sqlite_monitor_states(
    path: Path, on_news: Callable[[], object] = lambda: None
) -> SqliteMonitorStates:
    """Open the states in the control plane's file, which must be migrated. `on_news`: called after alert events or
    heartbeats were written. Raises `StorageUnavailable`."""

    def run() -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    try:
        return SqliteMonitorStates(await asyncio.to_thread(run), on_news)
    except sqlite3.OperationalError as error:
        raise StorageUnavailable(f"{path} cannot be opened: {error}") from error
