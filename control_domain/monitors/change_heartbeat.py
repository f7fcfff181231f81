"""Changes the settings of heartbeats and pauses them, and recomputes their states at once."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import lock_row
from control_domain.monitors.domain import to_domain
from control_domain.monitors.heartbeat_alerts import record_state_alert
from control_domain.monitors.operations import HeartbeatSettings, get_settings
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from pipeline_contracts import heartbeat_states
from pipeline_contracts.errors import NotFound
from pipeline_contracts.heartbeat_states import resume, update_state
from pipeline_contracts.schedules import Schedule, next_due
from pipeline_contracts.times import to_epoch_ms


async def lock_heartbeat(session: AsyncSession, heartbeat: Heartbeat) -> HeartbeatState:
    """Lock the heartbeat until the end of the transaction, also against consumers.

    Returns the present state, and refreshes `heartbeat`. Raises `NotFound` if the heartbeat was removed meanwhile.
    """
    if not await lock_row(session, HeartbeatState.version, HeartbeatState.heartbeat_id == heartbeat.id):
        raise NotFound(f"Heartbeat {heartbeat.id} was just removed by another request.")
    await session.refresh(heartbeat)
    return await session.get_one(HeartbeatState, heartbeat.id, populate_existing=True)


async def change_heartbeat(
    session: AsyncSession, heartbeat: Heartbeat, settings: HeartbeatSettings, now: datetime
) -> None:
    """Set the schedule and the limits of the heartbeat. The name in `settings` is ignored.

    Counters stay, and only a success ends `down`. With the same schedule, the same run stays due. With a new one, the
    next run is due after the last signal, or after `now` if that is past: no run is late by a schedule that did not
    exist yet. Raises `NotFound` if the heartbeat was removed meanwhile.
    """
    row = await lock_heartbeat(session, heartbeat)
    previous, new = get_settings(heartbeat), replace(settings, name=heartbeat.name)
    if previous == new:
        return
    for column, value in new.columns().items():
        setattr(heartbeat, column, value)
    updated = to_domain(heartbeat, row)
    _recompute_state(updated, previous.schedule, to_epoch_ms(now))
    row.state, row.since_ms = updated.state, updated.since_ms
    row.due_ms, row.deadline_ms = updated.due_ms, updated.deadline_ms
    # Always write the row: a scan that has read the former settings must then not write the state.
    row.version += 1
    await record_state_alert(session, heartbeat, row, updated)
    await session.flush()


def _recompute_state(heartbeat: heartbeat_states.Heartbeat, previous: Schedule, now_ms: int) -> None:
    """Recompute the state with the new settings of `heartbeat`. `previous`: the schedule before the change."""
    before = replace(heartbeat)
    if before.state == "new":
        # This also applies after a pause: the heartbeat waits for its next signal.
        return
    update_state(heartbeat, now_ms)
    if heartbeat.state != "up":
        return
    if before.due_ms is not None and _is_same_schedule(heartbeat.schedule, previous):
        # Runs before this one were already counted as missed.
        heartbeat.state, heartbeat.since_ms, heartbeat.due_ms = before.state, before.since_ms, before.due_ms
        is_waiting = before.deadline_ms == before.due_ms
        heartbeat.deadline_ms = before.due_ms + (0 if is_waiting else heartbeat.grace_ms)
    elif heartbeat.due_ms is not None and heartbeat.due_ms <= now_ms:
        heartbeat.due_ms = heartbeat.deadline_ms = next_due(heartbeat.schedule, now_ms)


def _is_same_schedule(schedule: Schedule, previous: Schedule) -> bool:
    # The time zone does not matter for a period.
    return (
        schedule == previous
        or schedule.period_seconds is not None
        and schedule.period_seconds == previous.period_seconds
    )


async def set_paused(session: AsyncSession, heartbeat: Heartbeat, paused: bool, now: datetime) -> None:
    """Pause or resume the heartbeat. A resumed heartbeat waits for its next signal. Idempotent. Raises `NotFound` if
    the heartbeat was removed meanwhile."""
    row = await lock_heartbeat(session, heartbeat)
    if heartbeat.paused == paused:
        return
    heartbeat.paused = paused
    updated = to_domain(heartbeat, row)
    if paused:
        update_state(updated, to_epoch_ms(now))
        updated.failures_in_row = 0
    else:
        resume(updated, to_epoch_ms(now))
        row.judged_from_ms = updated.judged_from_ms
        row.open_runs, row.oldest_start_ms = updated.open_runs, updated.oldest_start_ms
    row.state, row.since_ms = updated.state, updated.since_ms
    row.due_ms, row.deadline_ms = updated.due_ms, updated.deadline_ms
    row.failures_in_row, row.missed_ms = updated.failures_in_row, None
    row.version += 1
    await record_state_alert(session, heartbeat, row, updated)
    await session.flush()
