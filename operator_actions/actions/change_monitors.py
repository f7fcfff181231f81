"""Heartbeats and queues as an operator changes and removes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import make_operator, record_audit_entry
from control_domain.keys import revoke_published_keys
from control_domain.monitors.change_heartbeat import change_heartbeat, lock_heartbeat
from control_domain.monitors.operations import get_settings
from control_domain.monitors.params import read_heartbeat_changes
from control_domain.monitors.remove_monitors import remove_heartbeat, remove_queue
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, Project
from operator_actions.actions.choose_monitor import choose_heartbeat, choose_queue
from operator_actions.actions.describe_monitors import describe_heartbeat
from operator_actions.actions.engines import Action, Engines, Params, read_id


async def _set_heartbeat(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """`params`: id, and what is to be another: see `read_heartbeat_changes`."""
    async with engines.sessions() as session, session.begin():
        seen = await choose_heartbeat(session, read_id(params, "id"))
        await lock_heartbeat(session, seen.heartbeat)
        before = get_settings(seen.heartbeat)
        settings = read_heartbeat_changes(params, before)
        await change_heartbeat(session, seen.heartbeat, settings, now)
        after = settings.columns()
        details = {
            name: {"from": was, "to": after[name]}
            for name, was in before.columns().items()
            if was != after[name]
        }
        if details:
            await _record(session, params, "heartbeat.set", seen.heartbeat, now, details)
        return describe_heartbeat(seen)


async def _remove_heartbeat(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Remove a heartbeat with its keys, its state and its runs. `params`: id. Its keys work nowhere within 5 s."""
    async with engines.sessions() as session, session.begin():
        heartbeat = (await choose_heartbeat(session, read_id(params, "id"))).heartbeat
        digests = await remove_heartbeat(session, heartbeat)
        details = {"name": heartbeat.name, "keys": len(digests)}
        await _record(session, params, "heartbeat.remove", heartbeat, now, details)
    return await _tell_removed(engines, heartbeat, digests)


async def _remove_queue(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Remove a queue with its keys, its counts and its workers. `params`: id. Its keys work nowhere within 5 s."""
    async with engines.sessions() as session, session.begin():
        queue = (await choose_queue(session, read_id(params, "id"))).queue
        digests = await remove_queue(session, queue)
        details = {"name": queue.name, "keys": len(digests)}
        await _record(session, params, "queue.remove", queue, now, details)
    return await _tell_removed(engines, queue, digests)


async def _record(
    session: AsyncSession,
    params: Params,
    action: str,
    monitor: Heartbeat | Queue,
    now: datetime,
    details: Mapping[str, Any],
) -> None:
    environment = await session.get_one(Environment, monitor.environment_id)
    project = await session.get_one(Project, environment.project_id)
    subject = f"{action.partition('.')[0]} {monitor.id}"
    where = {"environment": environment.public_id}
    record_audit_entry(
        session, make_operator(params), project.account_id, action, subject, now, {**where, **details}
    )


async def _tell_removed(
    engines: Engines, monitor: Heartbeat | Queue, digests: Sequence[bytes]
) -> dict[str, Any]:
    """Tell the edges, after the commit."""
    told = {"id": monitor.id, "name": monitor.name, "removed": True}
    await revoke_published_keys(engines.directory, digests, told)
    return told


ACTIONS: Mapping[str, Action] = {
    "heartbeats/set": _set_heartbeat,
    "heartbeats/remove": _remove_heartbeat,
    "queues/remove": _remove_queue,
}
