"""Rows of the database as the state machine has them; the columns stand in this order in both adapters."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from pipeline_contracts.heartbeat_states import Heartbeat, Run, State
from pipeline_contracts.schedules import Schedule

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


def to_heartbeat(row: Sequence[Any]) -> Heartbeat:
    """From `HEARTBEAT_COLUMNS`."""
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


def to_run(row: Sequence[Any]) -> tuple[int, Run]:
    """From `RUN_COLUMNS`: the heartbeat's ID, and the run."""
    return row[0], Run(*row[1:7])


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


def columns_of(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows turned into columns."""
    return [list(column) for column in zip(*rows, strict=True)]
