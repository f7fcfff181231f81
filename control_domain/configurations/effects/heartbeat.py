"""Heartbeats made, changed and removed by a configuration."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select

from control_domain.configurations.effects.check_unchanged import check_made, check_removable, find_due
from control_domain.configurations.effects.find_environment import hold_around, missing_around
from control_domain.configurations.effects.task import Task, ToTell, tell_changes, tell_new
from control_domain.configurations.plan import Change
from control_domain.configurations.present_fields import heartbeat_fields
from control_domain.configurations.values import FIELDS, Value
from control_domain.monitors.change_heartbeat import change_heartbeat, hold_heartbeat, set_paused
from control_domain.monitors.operations import HeartbeatSettings, create_heartbeat
from control_domain.monitors.remove_monitors import remove_heartbeat
from control_domain.refusals import Refused
from control_domain.tables.monitors import Heartbeat
from control_domain.tables.projects import Environment
from pipeline_contracts.durations import read_duration
from pipeline_contracts.schedules import Schedule


async def carry_out_on_heartbeat(task: Task) -> ToTell:
    """Make the heartbeat, without a key, which nobody could be told; change it, or remove it with its keys."""
    verb = task.action.verb
    environment = await hold_around(task)
    heartbeat = None if environment is None else await _hold(task, environment)
    if verb == "delete":
        return ToTell() if heartbeat is None else await _remove(task, heartbeat)
    if heartbeat is None and verb == "update":
        raise task.gone()
    if environment is None:
        raise missing_around(task)
    if heartbeat is None:
        await _create(task, environment)
    elif verb == "create":
        check_made(task, heartbeat_fields(heartbeat))
    else:
        await _change(task, heartbeat)
    return ToTell()


async def _hold(task: Task, environment: Environment) -> Heartbeat | None:
    query = select(Heartbeat).where(
        Heartbeat.environment_id == environment.id, Heartbeat.name == task.action.address[-1]
    )
    heartbeat = (await task.session.execute(query)).scalar_one_or_none()
    if heartbeat is None:
        return None
    try:
        await hold_heartbeat(task.session, heartbeat)
    except Refused:
        # It was removed since the look.
        return None
    return heartbeat


async def _create(task: Task, environment: Environment) -> None:
    wanted = {**FIELDS["heartbeat"], **_after(task.action.changes)}
    settings = _read_settings(task.action.address[-1], wanted)
    heartbeat = await create_heartbeat(task.session, environment, settings, task.now)
    details = {"environment": environment.public_id, "name": heartbeat.name, **tell_new(task.action.changes)}
    task.record("heartbeat.create", _subject(heartbeat), details)
    if wanted["paused"]:
        await set_paused(task.session, heartbeat, True, task.now)


async def _change(task: Task, heartbeat: Heartbeat) -> None:
    present = heartbeat_fields(heartbeat)
    due = find_due(task, present)
    if not due:
        return
    task.record("heartbeat.set", _subject(heartbeat), tell_changes(due))
    wanted = {**present, **_after(due)}
    await change_heartbeat(task.session, heartbeat, _read_settings(heartbeat.name, wanted), task.now)
    await set_paused(task.session, heartbeat, bool(wanted["paused"]), task.now)


async def _remove(task: Task, heartbeat: Heartbeat) -> ToTell:
    check_removable(task, heartbeat_fields(heartbeat))
    subject, details = _subject(heartbeat), {"name": heartbeat.name}
    digests = await remove_heartbeat(task.session, heartbeat)
    task.record("heartbeat.remove", subject, {**details, "keys": len(digests)})
    return ToTell(forget=digests)


def _after(changes: Iterable[Change]) -> dict[str, Value]:
    return {change.field: change.after for change in changes}


def _read_settings(name: str, fields: Mapping[str, Any]) -> HeartbeatSettings:
    period = fields["period"]
    return HeartbeatSettings(
        name,
        Schedule(None if period is None else read_duration(period), fields["cron"], fields["timezone"]),
        read_duration(fields["grace"]),
        read_duration(fields["max_runtime"]),
        fields["failures_before_down"],
    )


def _subject(heartbeat: Heartbeat) -> str:
    return f"heartbeat {heartbeat.id}"
