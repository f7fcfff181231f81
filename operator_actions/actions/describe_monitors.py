"""Heartbeats and queues as documents for people and programs."""

from typing import Any

from control_domain.monitors.operations import HeartbeatWithState, QueueWithState
from control_domain.tables.monitors import HeartbeatRun, QueueWorker
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.times import format_time, from_epoch_ms

LOST_MS = 5 * 60_000
"""A worker that was not heard from for so long is lost."""


def describe_heartbeat(seen: HeartbeatWithState) -> dict[str, Any]:
    """Configuration and present state; times as answers have them, durations in seconds."""
    heartbeat, state = seen.heartbeat, seen.state
    return {
        "id": heartbeat.id,
        "name": heartbeat.name,
        "environment_id": seen.environment_id,
        "state": state.state,
        "since": _time(state.since_ms),
        "period_seconds": heartbeat.period_seconds,
        "cron": heartbeat.cron,
        "timezone": heartbeat.timezone,
        "grace_seconds": heartbeat.grace_seconds,
        "max_runtime_seconds": heartbeat.max_runtime_seconds,
        "failures_before_down": heartbeat.failures_before_down,
        "failures_in_row": state.failures_in_row,
        "open_runs": state.open_runs,
        "last_signal_at": _time(state.last_signal_ms),
        "last_success_at": _time(state.last_success_ms),
        "due_at": _time(state.due_ms),
        "created_at": format_time(heartbeat.created_at),
    }


def describe_run(row: HeartbeatRun) -> dict[str, Any]:
    """One run: its outcome (open, succeeded, failed, timed out) and how long it took."""
    run = Run(row.run_id, row.first_ms, row.started_ms, row.succeeded_ms, row.failed_ms, row.timed_out_ms)
    duration = run.duration_ms
    return {
        "run_id": run.run_id,
        "outcome": run.outcome,
        "first_signal_at": _time(run.first_ms),
        "started_at": _time(run.started_ms),
        "ended_at": _time(run.ended_ms),
        "duration_seconds": None if duration is None else duration / 1000,
        "exit_status": row.exit_status,
        "output": row.output,
    }


def describe_queue(seen: QueueWithState, clock_ms: int) -> dict[str, Any]:
    """The newest snapshot and the workers. `clock_ms`: through when reports are known to be all there."""
    state = seen.state
    counts = ("pending", "delayed", "reserved", "failed", "oldest_wait_seconds")
    return {
        "id": seen.queue.id,
        "name": seen.queue.name,
        "environment_id": seen.environment_id,
        "observed_at": None if state is None else _time(state.observed_us // 1000),
        **{name: None if state is None else getattr(state, name) for name in counts},
        "workers": [_describe_worker(worker, clock_ms) for worker in seen.workers],
        "created_at": format_time(seen.queue.created_at),
    }


def _describe_worker(worker: QueueWorker, clock_ms: int) -> dict[str, Any]:
    lost = worker.status != "stopped" and worker.received_ms + LOST_MS <= clock_ms
    return {
        "worker_id": worker.worker_id,
        "status": "lost" if lost else worker.status,
        "job_id": worker.job_id,
        "sequence": worker.sequence,
        "last_heard_at": _time(worker.received_ms),
    }


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else format_time(from_epoch_ms(milliseconds))
