"""Rows of the database as the state machine has them; the columns stand in this order in both adapters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pipeline_contracts.heartbeat_states import Heartbeat, Run, State
from pipeline_contracts.schedules import Schedule
from storage_backends.monitor_states.interface import SeenQueue, SeenWorker, Watched

HEARTBEAT_COLUMNS = """
    s.heartbeat_id, e.public_id, h.period_seconds, h.cron, h.timezone, h.grace_seconds, h.max_runtime_seconds,
    h.failures_before_down, h.paused, s.state, s.since_ms, s.due_ms, s.deadline_ms, s.last_signal_ms,
    s.last_success_ms, s.last_end_ms, s.failures_in_row, s.open_runs, s.oldest_start_ms, s.version
"""
HEARTBEAT_TABLES = """
    heartbeat_states AS s
    JOIN heartbeats AS h ON h.id = s.heartbeat_id
    JOIN environments AS e ON e.id = h.environment_id
"""
RUN_COLUMNS = "heartbeat_id, run_id, first_ms, started_ms, succeeded_ms, failed_ms, timed_out_ms"
OPEN_RUN = "started_ms IS NOT NULL AND succeeded_ms IS NULL AND failed_ms IS NULL AND timed_out_ms IS NULL"


def by_id(rows: Iterable[Sequence[Any]]) -> dict[int, Watched]:
    """The heartbeats of these rows (`HEARTBEAT_COLUMNS`), by their IDs."""
    return {(heartbeat := _to_heartbeat(row)).heartbeat_id: Watched(heartbeat) for row in rows}


def add_runs(watched: Mapping[int, Watched], rows: Iterable[Sequence[Any]]) -> None:
    """Put the runs of these rows (`RUN_COLUMNS`) to their heartbeats."""
    for row in rows:
        run = _to_run(row)
        watched[row[0]].runs[run.run_id] = run


def all_runs(watched: Watched, rows: Iterable[Sequence[Any]]) -> list[Run]:
    """The runs of these rows (`RUN_COLUMNS`), and in their place those that are changed."""
    runs = {run.run_id: run for run in (*map(_to_run, rows), *watched.changed)}
    return list(runs.values())


def _to_heartbeat(row: Sequence[Any]) -> Heartbeat:
    return Heartbeat(
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


def _to_run(row: Sequence[Any]) -> Run:
    return Run(*row[1:7])


def state_values(heartbeat: Heartbeat) -> tuple[Any, ...]:
    """What is written of a heartbeat: state … oldest_start_ms, then what it is told by: ID and version."""
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
