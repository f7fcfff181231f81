"""Creates, changes, pauses and removes heartbeats for people, with audit entries."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.database.errors import BrokenReference
from control_domain.monitors.change_heartbeat import change_heartbeat, lock_heartbeat, set_paused
from control_domain.monitors.find import FoundHeartbeat
from control_domain.monitors.operations import HeartbeatSettings, create_heartbeat, get_settings
from control_domain.monitors.record import record_monitor_entry
from control_domain.monitors.remove_monitors import remove_heartbeat
from control_domain.monitors.settings import HeartbeatChanges, change_settings, check_heartbeat_settings
from control_domain.projects.find import DeployTarget
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from pipeline_contracts.errors import NameTaken


async def add_heartbeat(
    session: AsyncSession, target: DeployTarget, settings: HeartbeatSettings, actor: Actor, now: datetime
) -> FoundHeartbeat:
    """Create a heartbeat that waits for its first signal.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the account has too many heartbeats.
    """
    settings = check_heartbeat_settings(settings)
    try:
        async with session.begin_nested():
            heartbeat = await create_heartbeat(session, target.environment, settings, now)
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(settings.name) from None
    state = await session.get_one(HeartbeatState, heartbeat.id)
    found = FoundHeartbeat(heartbeat, state, target.environment, target.project)
    given = {name: value for name, value in settings.columns().items() if value is not None}
    record_monitor_entry(session, found, "create", {"name": settings.name, **given}, actor, now)
    return found


async def update_heartbeat(
    session: AsyncSession, found: FoundHeartbeat, changes: HeartbeatChanges, actor: Actor, now: datetime
) -> None:
    """Change settings of the heartbeat, which the caller has locked, and recompute its state at once.

    Raises `InvalidInput` and `NameTaken`.
    """
    heartbeat = found.monitor
    before = get_settings(heartbeat)
    after = change_settings(before, changes)
    if after == before:
        return
    if after.name != before.name:
        await _rename(session, heartbeat, after.name)
    await change_heartbeat(session, heartbeat, after, now)
    values = {"name": after.name, **after.columns()}
    details = {
        name: {"from": was, "to": values[name]}
        for name, was in {"name": before.name, **before.columns()}.items()
        if was != values[name]
    }
    record_monitor_entry(session, found, "set", details, actor, now)


async def _rename(session: AsyncSession, heartbeat: Heartbeat, name: str) -> None:
    try:
        async with session.begin_nested():
            await session.execute(update(Heartbeat).where(Heartbeat.id == heartbeat.id).values(name=name))
    except IntegrityError:
        raise _name_taken(name) from None


async def pause_heartbeat(
    session: AsyncSession, found: FoundHeartbeat, paused: bool, actor: Actor, now: datetime
) -> None:
    """Pause or resume the heartbeat. A resumed heartbeat waits for its next signal. Idempotent.

    Raises `NotFound` if it was removed meanwhile.
    """
    await lock_heartbeat(session, found.monitor)
    if found.monitor.paused == paused:
        return
    await set_paused(session, found.monitor, paused, now)
    details = {"name": found.monitor.name}
    record_monitor_entry(session, found, "pause" if paused else "resume", details, actor, now)


async def delete_heartbeat(
    session: AsyncSession, found: FoundHeartbeat, actor: Actor, now: datetime
) -> Sequence[bytes]:
    """Remove the heartbeat with its keys, its state and its runs.

    Returns the digests of its keys, which the edges must drop after the commit. Raises `NotFound` if it was removed
    meanwhile.
    """
    digests = await remove_heartbeat(session, found.monitor, now)
    details = {"name": found.monitor.name, "keys": len(digests)}
    record_monitor_entry(session, found, "remove", details, actor, now)
    return digests


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The environment has a heartbeat with the name {name!r} already.")
