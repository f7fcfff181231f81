"""Rows of the database as the state machine has them; the columns stand in this order in both adapters."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import Heartbeat, State
from pipeline_contracts.ping_pairs import PingPairs
from pipeline_contracts.schedules import Schedule
from storage_backends.monitor_states.interface import SeenQueue, SeenWorker, Watched

HEARTBEAT_COLUMNS = """
    s.heartbeat_id, e.public_id, h.period_seconds, h.cron, h.timezone, h.grace_seconds, h.max_runtime_seconds,
    h.failures_before_down, h.paused, s.state, s.since_ms, s.due_ms, s.deadline_ms, s.last_signal_ms,
    s.last_success_ms, s.last_end_ms, s.failures_in_row, s.open_runs, s.oldest_start_ms, s.version,
    s.judged_from_ms, s.missed_ms, s.pings
"""
HEARTBEAT_TABLES = """
    heartbeat_states AS s
    JOIN heartbeats AS h ON h.id = s.heartbeat_id
    JOIN environments AS e ON e.id = h.environment_id
"""
RUN_TIMES = "heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms"
"""Without what a run has written, which nothing is counted from."""
RUN_COLUMNS = f"{RUN_TIMES}, exit_status, output"
OPEN_RUN = "started_ms IS NOT NULL AND succeeded_ms IS NULL AND failed_ms IS NULL AND timed_out_ms IS NULL"

PRUNABLE = f"""
    SELECT {RUN_TIMES.replace("heartbeat_id", "r.heartbeat_id")} FROM heartbeat_runs AS r
    JOIN heartbeat_states AS s ON s.heartbeat_id = r.heartbeat_id
    WHERE NOT ({OPEN_RUN} AND started_ms > coalesce(s.judged_from_ms, -1))
    AND NOT (succeeded_ms IS NOT NULL AND succeeded_ms >= coalesce(s.last_success_ms, 0)) AND first_ms <
"""
"""Not those that are still waited for, nor the newest success: the failures in the row are counted from it. Ends where
the time belongs."""

_encode = msgspec.json.encode
_decode_missed = msgspec.json.Decoder(list[int]).decode
_decode_pings = msgspec.json.Decoder(PingPairs).decode


def by_id(rows: Iterable[Sequence[Any]]) -> dict[int, Watched]:
    """The heartbeats of these rows (`HEARTBEAT_COLUMNS`), by their IDs."""
    return {(heartbeat := _to_heartbeat(row)).heartbeat_id: Watched(heartbeat) for row in rows}


def add_runs(watched: Mapping[int, Watched], rows: Iterable[Sequence[Any]]) -> None:
    """Put the runs of these rows (`RUN_COLUMNS`) to their heartbeats."""
    for row in rows:
        run = _to_run(row)
        watched[row[0]].runs[run.run_id] = run


def all_runs(watched: Watched, rows: Iterable[Sequence[Any]]) -> list[Run]:
    """The runs of these rows (`RUN_TIMES`), and in their place those that are changed."""
    runs = {run.run_id: run for run in (*map(_to_run, rows), *watched.changed)}
    return list(runs.values())


def _to_heartbeat(row: Sequence[Any]) -> Heartbeat:
    heartbeat = Heartbeat(
        row[0],
        row[1],
        Schedule(row[2], row[3], row[4]),
        1000 * row[5],
        1000 * row[6],
        row[7],
        bool(row[8]),
        cast(State, row[9]),
        *row[10:20],
    )
    heartbeat.judged_from_ms = row[20]
    if row[21]:
        heartbeat.missed_ms = _decode_missed(row[21])
    if row[22]:
        heartbeat.pings = _decode_pings(row[22])
    return heartbeat


def _to_run(row: Sequence[Any]) -> Run:
    return Run(*row[1:])


def runs_of(rows: Iterable[Sequence[Any]]) -> dict[int, list[Run]]:
    """The runs of these rows (`RUN_TIMES`), by their heartbeats."""
    runs: dict[int, list[Run]] = {}
    for row in rows:
        runs.setdefault(row[0], []).append(_to_run(row))
    return runs


def wanted_runs(
    wanted: Mapping[int, Collection[str]], watched: Mapping[int, Watched]
) -> list[tuple[int, str]]:
    """(heartbeat, run) of what is asked for, and of the runs with which pings that name none may pair."""
    keys: set[tuple[int, str]] = set()
    for number, found in watched.items():
        pings = found.heartbeat.pings
        keys.update((number, run) for run in wanted[number])
        keys.update((number, run) for run in (() if pings is None else pings.run_ids()))
    return sorted(keys)


def state_values(heartbeat: Heartbeat) -> tuple[Any, ...]:
    """What is written of a heartbeat: state … oldest_start_ms, missed_ms, pings, then its ID and version."""
    return (
        heartbeat.state,
        heartbeat.since_ms,
        heartbeat.due_ms,
        heartbeat.deadline_ms,
        heartbeat.last_signal_ms,
        heartbeat.last_success_ms,
        heartbeat.last_end_ms,
        heartbeat.failures_in_row,
        heartbeat.open_runs,
        heartbeat.oldest_start_ms,
        _encode(heartbeat.missed_ms).decode() if heartbeat.missed_ms else None,
        None if heartbeat.pings is None else _encode(heartbeat.pings).decode(),
        heartbeat.heartbeat_id,
        heartbeat.version,
    )


def run_values(heartbeat_id: int, run: Run) -> tuple[Any, ...]:
    """In the order of `RUN_COLUMNS`."""
    return (
        heartbeat_id,
        run.run_id,
        run.first_ms,
        run.started_ms,
        run.succeeded_ms,
        run.failed_ms,
        run.timed_out_ms,
        run.exit_status,
        run.output,
    )


def snapshot_values(seen: SeenQueue) -> tuple[Any, ...]:
    """What is written of a queue's snapshot, then the environment that the queue has to be of."""
    return (
        seen.queue_id,
        seen.snapshot_id,
        seen.observed_us,
        seen.received_ms,
        seen.pending,
        seen.delayed,
        seen.reserved,
        seen.failed,
        seen.oldest_wait_seconds,
        seen.environment_id,
    )


def worker_values(seen: SeenWorker) -> tuple[Any, ...]:
    """What is written of a worker's update, then the environment that the queue has to be of."""
    return (
        seen.queue_id,
        seen.worker_id,
        seen.sequence,
        seen.status,
        seen.job_id,
        seen.received_ms,
        seen.environment_id,
    )


def columns_of(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows turned into columns."""
    return [list(column) for column in zip(*rows, strict=True)]
