"""Adds incidents to the groups of their recipients. The incidents are then members of the groups. Also stores in the
groups that members have escalated or were resolved.

Every change of members first locks their groups, in the order of the groups' numbers, as the group worker does. So
nobody changes the members of a group while a message is composed from them.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import dialect_insert, insert_if_absent
from control_domain.tables.notifications import NotificationChannel, NotificationGroup, NotificationMember
from notifications.incidents.apply_events import Incident
from notifications.incidents.routing import Recipient
from pipeline_contracts.alert_kinds import ALERT_KINDS
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import to_epoch_ms

Routed = Sequence[tuple[Incident, Mapping[Recipient, bool]]]
"""Incidents, the recipients of each, and True for each recipient who gets reminders."""


async def change_members(
    session: AsyncSession,
    *,
    resolved: Collection[int],
    escalated: Collection[int],
    routed: Routed,
    now: datetime,
    wait: timedelta,
) -> None:
    """For `resolved` incidents, schedule the resolution for recipients to whom the incident was sent, and remove the
    incident from the groups of all others. Schedule `escalated` incidents again. Add `routed` incidents to the groups
    of their recipients.

    `wait`: the minimum time from a change to its message. No group is checked earlier.
    """
    routed = await _without_missing_channels(session, routed)
    groups = await _ensure_groups(session, routed, now)
    await _lock_groups(
        session, {*groups.values(), *await _find_groups(session, [*resolved, *escalated])}, now, wait
    )
    await _note(session, resolved, now, NotificationMember.sent == "firing", "resolved")
    if resolved:
        await session.execute(
            delete(NotificationMember)
            .where(NotificationMember.incident_id.in_(resolved), NotificationMember.sent.is_(None))
            .execution_options(synchronize_session=False)
        )
    await _note(session, escalated, now, NotificationMember.pending.is_(None), "firing")
    members = [
        {
            "group_id": groups[_group_key(incident, recipient)],
            "incident_id": incident.incident_id,
            "pending": "info" if incident.change == "info" else "firing",
            "pending_since": now,
            "reminders": reminders,
        }
        for incident, recipients in routed
        for recipient, reminders in recipients.items()
    ]
    if members:
        # Execute the statement for each row: compiling one statement with thousands of values takes longer than
        # everything else.
        await session.execute(dialect_insert(session, NotificationMember).on_conflict_do_nothing(), members)


async def _ensure_groups(session: AsyncSession, routed: Routed, now: datetime) -> Mapping[str, int]:
    """Add the groups that are missing. Return the numbers of all groups by key."""
    keys = {
        _group_key(incident, recipient): (incident, recipient)
        for incident, recipients in routed
        for recipient in recipients
    }
    if not keys:
        return {}
    new = [_new_group(key, *keys[key], now) for key in sorted(keys)]
    await session.execute(insert_if_absent(session, NotificationGroup, new))
    rows = await session.execute(
        select(NotificationGroup.key, NotificationGroup.id).where(NotificationGroup.key.in_(keys))
    )
    return {row.key: row.id for row in rows}


async def _find_groups(session: AsyncSession, incidents: Collection[int]) -> Collection[int]:
    if not incidents:
        return []
    query = (
        select(NotificationMember.group_id).where(NotificationMember.incident_id.in_(incidents)).distinct()
    )
    return (await session.scalars(query)).all()


async def _note(
    session: AsyncSession, incidents: Collection[int], now: datetime, which: ColumnElement[bool], pending: str
) -> None:
    if incidents:
        await session.execute(
            update(NotificationMember)
            .where(NotificationMember.incident_id.in_(incidents), which)
            .values(pending=pending, pending_since=now)
            .execution_options(synchronize_session=False)
        )


async def _lock_groups(
    session: AsyncSession, groups: Collection[int], now: datetime, wait: timedelta
) -> None:
    """Lock all groups at once, in the order of their numbers. Let the group worker check them when their changes may be
    sent: the group worker computes the exact time."""
    numbers = sorted(groups)
    if not numbers:
        return
    # SQLite ignores this lock, which it does not need because only one transaction writes at a time.
    await session.execute(
        select(NotificationGroup.id)
        .where(NotificationGroup.id.in_(numbers))
        .order_by(NotificationGroup.id)
        .with_for_update()
    )
    for is_test, due_at in (
        (NotificationGroup.family == "test", now),
        (NotificationGroup.family != "test", now + wait),
    ):
        await session.execute(
            update(NotificationGroup)
            .where(
                NotificationGroup.id.in_(numbers),
                is_test,
                or_(NotificationGroup.due_at.is_(None), NotificationGroup.due_at > due_at),
            )
            .values(due_at=due_at)
            .execution_options(synchronize_session=False)
        )


async def _without_missing_channels(
    session: AsyncSession, routed: Routed
) -> list[tuple[Incident, Mapping[Recipient, bool]]]:
    """Leave out channels that were removed or turned off: a channel that is turned off gets no new incidents."""
    named = {each.number for _, recipients in routed for each in recipients if each.type == "channel"}
    if not named:
        return list(routed)
    present = set(
        await session.scalars(
            select(NotificationChannel.id).where(
                NotificationChannel.id.in_(named), NotificationChannel.enabled.is_(True)
            )
        )
    )
    return [
        (
            incident,
            {
                each: reminders
                for each, reminders in recipients.items()
                if each.type == "person" or each.number in present
            },
        )
        for incident, recipients in routed
    ]


def _group_key(incident: Incident, recipient: Recipient) -> str:
    account, project, environment = incident.last.scope
    family = ALERT_KINDS[incident.last.kind].family
    return f"{account}/{project or 0}/{environment or 0}/{family}/{recipient.type} {recipient.number}"


def _new_group(key: str, incident: Incident, recipient: Recipient, now: datetime) -> dict[str, Any]:
    account, project, environment = incident.last.scope
    return {
        "key": key,
        "public_id": make_identifier("grp", to_epoch_ms(now)),
        "account_id": account,
        "project_id": project,
        "environment_id": environment,
        "family": ALERT_KINDS[incident.last.kind].family,
        "channel_id": recipient.number if recipient.type == "channel" else None,
        "person_id": recipient.number if recipient.type == "person" else None,
        # The due time is set together with the lock, which every changed group gets.
        "due_at": None,
    }
