"""Heartbeats get other settings and are paused: their present states are worked out by that at once."""

import json
from dataclasses import replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import hold_row
from control_domain.monitors.operations import HeartbeatSettings, settings_of
from control_domain.refusals import Refused
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from pipeline_contracts import heartbeat_states
from pipeline_contracts.heartbeat_states import resume, settle
from pipeline_contracts.schedules import Schedule, next_due
from pipeline_contracts.times import to_epoch_ms


async def hold_heartbeat(session: AsyncSession, heartbeat: Heartbeat) -> HeartbeatState:
    """Let neither consumers nor anybody else change the heartbeat until the end of the transaction.

    It gives the present state, and `heartbeat` the present settings. Raises `Refused` where it was removed since it was
    looked for.
    """
    if not await hold_row(session, HeartbeatState.version, HeartbeatState.heartbeat_id == heartbeat.id):
        raise Refused(f"Heartbeat {heartbeat.id} was removed by somebody else just now.")
    await session.refresh(heartbeat)
    return await session.get_one(HeartbeatState, heartbeat.id, populate_existing=True)


async def change_heartbeat(
    session: AsyncSession, heartbeat: Heartbeat, settings: HeartbeatSettings, now: datetime
) -> None:
    """Give the heartbeat this schedule and these limits; its name stays, that of `settings` is not looked at.

    What was counted stays counted, and only a success ends `down`, as always. Where the schedule is the same, the run
    that was waited for is waited for; by another one the next run is due after the last signal, or after `now` where
    that is over: nobody is late by a schedule that there was not. Raises `Refused` where the heartbeat was removed
    since it was looked for.
    """
    row = await hold_heartbeat(session, heartbeat)
    was, wanted = settings_of(heartbeat), replace(settings, name=heartbeat.name)
    if was == wanted:
        return
    for column, value in wanted.columns().items():
        setattr(heartbeat, column, value)
    judged = _read(heartbeat, row)
    _judge_anew(judged, was.schedule, to_epoch_ms(now))
    row.state, row.since_ms = judged.state, judged.since_ms
    row.due_ms, row.deadline_ms = judged.due_ms, judged.deadline_ms
    # Whatever became of the state: a scan that has read the settings from before must not write it.
    row.version += 1
    await session.flush()


def _read(heartbeat: Heartbeat, row: HeartbeatState) -> heartbeat_states.Heartbeat:
    settings = settings_of(heartbeat)
    return heartbeat_states.Heartbeat(
        heartbeat_id=heartbeat.id,
        # Whose signals it takes is of no concern here.
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
    )


def _judge_anew(heartbeat: heartbeat_states.Heartbeat, was: Schedule, now_ms: int) -> None:
    """Work the state out by the heartbeat's settings, which are new; `was`: its schedule before."""
    before = replace(heartbeat)
    if before.state == "new":
        # After a pause too, with signals from before it: the next one is waited for.
        return
    settle(heartbeat, now_ms)
    if heartbeat.state != "up":
        return
    if before.due_ms is not None and _is_same(heartbeat.schedule, was):
        # Runs that did not begin are counted up to this one.
        heartbeat.state, heartbeat.since_ms, heartbeat.due_ms = before.state, before.since_ms, before.due_ms
        is_waiting = before.deadline_ms == before.due_ms
        heartbeat.deadline_ms = before.due_ms + (0 if is_waiting else heartbeat.grace_ms)
    elif heartbeat.due_ms is not None and heartbeat.due_ms <= now_ms:
        heartbeat.due_ms = heartbeat.deadline_ms = next_due(heartbeat.schedule, now_ms)


def _is_same(schedule: Schedule, was: Schedule) -> bool:
    # A period has no use for the time zone.
    return (
        schedule == was
        or schedule.period_seconds is not None
        and schedule.period_seconds == was.period_seconds
    )


async def set_paused(session: AsyncSession, heartbeat: Heartbeat, paused: bool, now: datetime) -> None:
    """Stop judging the heartbeat, or begin anew: then it waits for its next signal. Again changes nothing. Raises
    `Refused` where it was removed since it was looked for."""
    row = await hold_heartbeat(session, heartbeat)
    if heartbeat.paused == paused:
        return
    heartbeat.paused = paused
    judged = _read(heartbeat, row)
    if paused:
        settle(judged, to_epoch_ms(now))
        judged.failures_in_row = 0
    else:
        resume(judged, to_epoch_ms(now))
        row.judged_from_ms = judged.judged_from_ms
        row.open_runs, row.oldest_start_ms = judged.open_runs, judged.oldest_start_ms
    row.state, row.since_ms = judged.state, judged.since_ms
    row.due_ms, row.deadline_ms = judged.due_ms, judged.deadline_ms
    row.failures_in_row, row.missed_ms = judged.failures_in_row, None
    row.version += 1
    await session.flush()
