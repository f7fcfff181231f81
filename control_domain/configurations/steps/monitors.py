"""Create, change and remove heartbeats and queues."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from control_domain.configurations.plan import desired_fields
from control_domain.configurations.project_state import build_heartbeat_fields
from control_domain.configurations.resources import FIELDS
from control_domain.configurations.steps.lock_environment import fail_without_environment, lock_environment
from control_domain.configurations.steps.step_context import (
    Publications,
    StepContext,
    check_created,
    check_removable,
    describe_changes,
    describe_new_fields,
    find_remaining_changes,
)
from control_domain.monitors.change_heartbeat import change_heartbeat, lock_heartbeat, set_paused
from control_domain.monitors.operations import HeartbeatSettings, create_heartbeat, create_queue
from control_domain.monitors.remove_monitors import remove_heartbeat, remove_queue
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment
from pipeline_contracts.durations import parse_duration
from pipeline_contracts.errors import NotFound
from pipeline_contracts.schedules import Schedule


async def apply_heartbeat_step(context: StepContext) -> Publications:
    """Create the heartbeat without a key, because nobody could receive its secret; change it, or remove it with its
    keys."""
    verb = context.action.verb
    environment = await lock_environment(context)
    heartbeat = None if environment is None else await _lock_heartbeat(context, environment)
    if verb == "delete":
        if environment is None or heartbeat is None:
            return Publications()
        return await _remove_heartbeat(context, environment, heartbeat)
    if heartbeat is None and verb == "update":
        raise context.fail_removed()
    if environment is None:
        raise fail_without_environment(context)
    if heartbeat is None:
        await _create_heartbeat(context, environment)
        return Publications(names=[(environment.public_id, context.action.address[-1])])
    if verb == "create":
        check_created(context, build_heartbeat_fields(heartbeat))
    else:
        await _change_heartbeat(context, heartbeat)
    return Publications()


async def _lock_heartbeat(context: StepContext, environment: Environment) -> Heartbeat | None:
    query = select(Heartbeat).where(
        Heartbeat.environment_id == environment.id, Heartbeat.name == context.action.address[-1]
    )
    heartbeat = (await context.session.execute(query)).scalar_one_or_none()
    if heartbeat is None:
        return None
    try:
        await lock_heartbeat(context.session, heartbeat)
    except NotFound:
        # Removed since the query.
        return None
    return heartbeat


async def _create_heartbeat(context: StepContext, environment: Environment) -> None:
    desired = {**FIELDS["heartbeat"], **desired_fields(context.action.changes)}
    settings = _read_heartbeat_settings(context.action.address[-1], desired)
    heartbeat = await create_heartbeat(context.session, environment, settings, context.now)
    details = {
        "environment": environment.public_id,
        "name": heartbeat.name,
        **describe_new_fields(context.action.changes),
    }
    context.record("heartbeat.create", _subject(heartbeat), details)
    if desired["paused"]:
        await set_paused(context.session, heartbeat, True, context.now)


async def _change_heartbeat(context: StepContext, heartbeat: Heartbeat) -> None:
    current = build_heartbeat_fields(heartbeat)
    changes = find_remaining_changes(context, current)
    if not changes:
        return
    context.record("heartbeat.set", _subject(heartbeat), describe_changes(changes))
    desired = {**current, **desired_fields(changes)}
    await change_heartbeat(
        context.session, heartbeat, _read_heartbeat_settings(heartbeat.name, desired), context.now
    )
    await set_paused(context.session, heartbeat, bool(desired["paused"]), context.now)


async def _remove_heartbeat(
    context: StepContext, environment: Environment, heartbeat: Heartbeat
) -> Publications:
    check_removable(context, build_heartbeat_fields(heartbeat))
    subject, details = _subject(heartbeat), {"name": heartbeat.name}
    digests = await remove_heartbeat(context.session, heartbeat, context.now)
    context.record("heartbeat.remove", subject, {**details, "keys": len(digests)})
    return Publications(revoke=digests, names=[(environment.public_id, details["name"])])


def _read_heartbeat_settings(name: str, fields: Mapping[str, Any]) -> HeartbeatSettings:
    period = fields["period"]
    return HeartbeatSettings(
        name,
        Schedule(None if period is None else parse_duration(period), fields["cron"], fields["timezone"]),
        parse_duration(fields["grace"]),
        parse_duration(fields["max_runtime"]),
        fields["failures_before_down"],
    )


def _subject(heartbeat: Heartbeat) -> str:
    return f"heartbeat {heartbeat.id}"


async def apply_queue_step(context: StepContext) -> Publications:
    """Create the queue without a key, because nobody could receive its secret, or remove it with its keys."""
    environment = await lock_environment(context)
    queue = None if environment is None else await _lock_queue(context, environment)
    if context.action.verb == "delete":
        return Publications() if queue is None else await _remove_queue(context, queue)
    if environment is None:
        raise fail_without_environment(context)
    if queue is None:
        await _create_queue(context, environment)
    return Publications()


async def _lock_queue(context: StepContext, environment: Environment) -> Queue | None:
    query = select(Queue).where(
        Queue.environment_id == environment.id, Queue.name == context.action.address[-1]
    )
    return (await context.session.execute(query.with_for_update())).scalar_one_or_none()


async def _create_queue(context: StepContext, environment: Environment) -> None:
    queue = await create_queue(context.session, environment, context.action.address[-1], context.now)
    details = {"environment": environment.public_id, "name": queue.name}
    context.record("queue.create", f"queue {queue.id}", details)


async def _remove_queue(context: StepContext, queue: Queue) -> Publications:
    subject, details = f"queue {queue.id}", {"name": queue.name}
    digests = await remove_queue(context.session, queue)
    context.record("queue.remove", subject, {**details, "keys": len(digests)})
    return Publications(revoke=digests)
