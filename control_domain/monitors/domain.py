"""Converts rows of heartbeats to the objects of the state machine."""

import json

from control_domain.monitors.operations import get_settings
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from pipeline_contracts import heartbeat_states
from pipeline_contracts.blind_times import BlindTime


def to_domain(heartbeat: Heartbeat, row: HeartbeatState) -> heartbeat_states.Heartbeat:
    """Return the heartbeat of these rows. Its public environment, its pings and its runs are left out."""
    settings = get_settings(heartbeat)
    return heartbeat_states.Heartbeat(
        heartbeat_id=heartbeat.id,
        environment_id="",
        schedule=settings.schedule,
        grace_ms=1000 * settings.grace_seconds,
        max_runtime_ms=1000 * settings.max_runtime_seconds,
        failures_before_down=settings.failures_before_down,
        paused=heartbeat.paused,
        state=row.state,  # type: ignore[arg-type]
        since_ms=row.since_ms,
        due_ms=row.due_ms,
        deadline_ms=row.deadline_ms,
        last_signal_ms=row.last_signal_ms,
        last_success_ms=row.last_success_ms,
        last_end_ms=row.last_end_ms,
        failures_in_row=row.failures_in_row,
        open_runs=row.open_runs,
        oldest_start_ms=row.oldest_start_ms,
        version=row.version,
        judged_from_ms=row.judged_from_ms,
        missed_ms=json.loads(row.missed_ms or "[]"),
        name=heartbeat.name,
        alerted=row.alerted,  # type: ignore[arg-type]
        blind=_blind_time(row),
    )


def _blind_time(row: HeartbeatState) -> BlindTime | None:
    if row.blind_from_ms is None or row.blind_to_ms is None or row.blind_ms is None:
        return None
    return BlindTime(row.blind_from_ms, row.blind_to_ms, row.blind_ms)
