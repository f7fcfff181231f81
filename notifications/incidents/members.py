"""Adds incidents to the groups of their recipients, and notes in the groups that they escalated or were resolved.

Every change of members locks their groups first, in the order of their numbers, as the group worker does: a message is
written from members that nobody changes meanwhile.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
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


async def add_members(
    session: AsyncSession, routed: Sequence[tuple[Incident, Mapping[Recipient, bool]]], now: datetime
) -> None:
    """Add each incident to the group of each recipient, to be sent; one that is in a group already stays as it is."""
    routed = await _without_missing_channels(session, routed)
    keys = {
        _group_key(incident, recipient): (incident, recipient)
        for incident, recipients in routed
        for recipient in recipients
    }
    if not keys:
        return
    new = [_new_group(key, *keys[key], now) for key in sorted(keys)]
    await session.execute(insert_if_absent(session, NotificationGroup, new))
    groups = {
        key: number
        for number, key in await session.execute(
            select(NotificationGroup.id, NotificationGroup.key).where(NotificationGroup.key.in_(keys))
        )
    }
    await _lock_and_look_at(session, groups.values(), now)
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
    # Run for each row: to compile one statement with thousands of values takes longer than everything else.
    await session.execute(dialect_insert(session, NotificationMember).on_conflict_do_nothing(), members)


async def escalate_members(session: AsyncSession, incidents: Collection[int], now: datetime) -> None:
    """Send these incidents again to those who have heard of them: their kind has changed."""
    await _note(session, incidents, now, NotificationMember.pending.is_(None), "firing")


async def resolve_members(session: AsyncSession, incidents: Collection[int], now: datetime) -> None:
    """Send the end of these incidents to those who have heard of them, and forget it for all others."""
    if not incidents:
        return
    await _note(session, incidents, now, NotificationMember.sent == "firing", "resolved")
    await session.execute(
        delete(NotificationMember)
        .where(NotificationMember.incident_id.in_(incidents), NotificationMember.sent.is_(None))
        .execution_options(synchronize_session=False)
    )


async def _note(
    session: AsyncSession, incidents: Collection[int], now: datetime, which: ColumnElement[bool], pending: str
) -> None:
    if not incidents:
        return
    of_incidents = NotificationMember.incident_id.in_(incidents)
    groups = await session.scalars(select(NotificationMember.group_id).where(of_incidents).distinct())
    await _lock_and_look_at(session, groups.all(), now)
    await session.execute(
        update(NotificationMember)
        .where(of_incidents, which)
        .values(pending=pending, pending_since=now)
        .execution_options(synchronize_session=False)
    )


async def _lock_and_look_at(session: AsyncSession, groups: Iterable[int], now: datetime) -> None:
    """Lock the groups, and let the group worker look at them at once: it computes when a message is due."""
    numbers = sorted(groups)
    if not numbers:
        return
    # SQLite ignores the lock; there, one transaction writes at a time.
    await session.execute(
        select(NotificationGroup.id)
        .where(NotificationGroup.id.in_(numbers))
        .order_by(NotificationGroup.id)
        .with_for_update()
    )
    await session.execute(
        update(NotificationGroup)
        .where(
            NotificationGroup.id.in_(numbers),
            or_(NotificationGroup.due_at.is_(None), NotificationGroup.due_at > now),
        )
        .values(due_at=now)
        .execution_options(synchronize_session=False)
    )


async def _without_missing_channels(
    session: AsyncSession, routed: Sequence[tuple[Incident, Mapping[Recipient, bool]]]
) -> list[tuple[Incident, Mapping[Recipient, bool]]]:
    """Leave out channels that were removed, or that were turned off: these hear of nothing that begins meanwhile."""
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
        "due_at": now,
    }
