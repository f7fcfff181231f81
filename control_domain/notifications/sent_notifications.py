"""Finds and lists notifications with their attempts, and sends them again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import matches_id
from control_domain.notifications.visibility import in_projects_of, require_right_at
from control_domain.paging import Page
from control_domain.tables.accounts import Person
from control_domain.tables.notifications import (
    AlertIncident,
    Notification,
    NotificationAttempt,
    NotificationChannel,
    NotificationGroup,
)
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.errors import Conflict, NotFound

MAX_ATTEMPTS = 100
"""The number of attempts, the newest ones, that are shown of a notification."""


class FoundNotification(NamedTuple):
    """A notification with its project, environment and recipient; None if there is none or it was removed."""

    notification: Notification
    project: Project | None
    environment: Environment | None
    channel: NotificationChannel | None
    person: Person | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationFilters:
    """Conditions on the listed notifications; None matches every notification."""

    status: str | None = None
    channel: NotificationChannel | None = None
    incident: AlertIncident | None = None
    project: Project | None = None
    since: datetime | None = None


def _select_notifications(account_id: int) -> Any:
    return (
        select(Notification, Project, Environment, NotificationChannel, Person)
        .outerjoin(Project, Project.id == Notification.project_id)
        .outerjoin(Environment, Environment.id == Notification.environment_id)
        .outerjoin(NotificationChannel, NotificationChannel.id == Notification.channel_id)
        .outerjoin(Person, Person.id == Notification.person_id)
        .where(Notification.account_id == account_id)
    )


async def find_notification(
    session: AsyncSession, caller: Caller, number_or_id: str, right: Right
) -> FoundNotification:
    """Return the notification with this number or public ID.

    Raises `NotFound`, also for a notification of another account, `DeployNotAllowed`, and `NotAllowed` for a
    notification about the platform unless the caller manages the account.
    """
    is_wanted = matches_id(Notification.id, Notification.public_id, number_or_id)
    row = (await session.execute(_select_notifications(caller.account.id).where(is_wanted))).one_or_none()
    if row is None:
        raise NotFound("The account has no such notification. Notifications are removed after 90 days.")
    found = FoundNotification(*row)
    await require_right_at(session, caller, found.notification.project_id, right)
    return found


async def list_notifications(
    session: AsyncSession, caller: Caller, filters: NotificationFilters, page: Page
) -> tuple[Sequence[FoundNotification], bool]:
    """Return a page of the notifications that the caller may see, the newest first, and whether more follow."""
    query = _select_notifications(caller.account.id).where(
        *in_projects_of(caller, Notification.project_id), *_matches(filters)
    )
    if page.before is not None:
        query = query.where(Notification.id < page.before)
    rows = (await session.execute(query.order_by(Notification.id.desc()).limit(page.limit + 1))).all()
    return [FoundNotification(*row) for row in rows[: page.limit]], len(rows) > page.limit


def _matches(filters: NotificationFilters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.status is not None:
        conditions.append(Notification.status == filters.status)
    if filters.channel is not None:
        conditions.append(Notification.channel_id == filters.channel.id)
    if filters.project is not None:
        conditions.append(Notification.project_id == filters.project.id)
    if filters.since is not None:
        conditions.append(Notification.created_at >= filters.since)
    if filters.incident is not None:
        conditions += _lists(filters.incident)
    return conditions


def _lists(incident: AlertIncident) -> list[ColumnElement[bool]]:
    """Return the conditions that a message lists the incident. Messages that only count the incident are not found,
    nor messages to a removed channel: the query uses the index of groups, because messages have no index by
    incident."""
    family = incident.kind.partition(".")[0]
    groups = select(NotificationGroup.id).where(
        NotificationGroup.account_id == incident.account_id,
        NotificationGroup.project_id.is_not_distinct_from(incident.project_id),
        NotificationGroup.environment_id.is_not_distinct_from(incident.environment_id),
        NotificationGroup.family == family,
    )
    return [
        Notification.group_id.in_(groups),
        Notification.created_at >= incident.started_at,
        Notification.content.contains(f'"id":"{incident.public_id}"', autoescape=True),
    ]


async def list_attempts(session: AsyncSession, notification: Notification) -> Sequence[NotificationAttempt]:
    """Return the newest attempts to deliver the notification, the newest first."""
    query = (
        select(NotificationAttempt)
        .where(NotificationAttempt.notification_id == notification.id)
        .order_by(NotificationAttempt.id.desc())
        .limit(MAX_ATTEMPTS)
    )
    return (await session.scalars(query)).all()


async def resend_notification(
    session: AsyncSession, found: FoundNotification, actor: Actor, now: datetime
) -> None:
    """Send the notification once more at once, with the same message ID.

    Raises `Conflict` while it waits to be sent, if its channel was removed or is turned off, and if its incidents have
    ended.
    """
    notification = found.notification
    if notification.channel_id is not None and (found.channel is None or not found.channel.enabled):
        what = "was removed" if found.channel is None else "is turned off: turn it on first"
        raise Conflict(f"The channel {notification.recipient} {what}.")
    if await _has_ended(session, notification):
        raise Conflict(
            "All its incidents have ended: sending it again would open an alert at the receiver that never ends."
        )
    resent = await session.execute(
        update(Notification)
        .where(
            Notification.id == notification.id,
            Notification.account_id == notification.account_id,
            Notification.status.in_(("sent", "failed", "canceled")),
        )
        .values(
            status="pending",
            attempts=0,
            requested_at=now,
            next_attempt_at=now,
            leased_until=None,
            last_error=None,
        )
        .returning(Notification.id)
        .execution_options(synchronize_session=False)
    )
    if resent.first() is None:
        raise Conflict("The notification is about to be sent.")
    await session.refresh(notification)
    subject, details = f"notification {notification.public_id}", {"recipient": notification.recipient}
    record_audit_entry(session, actor, notification.account_id, "notification.resend", subject, now, details)


async def _has_ended(session: AsyncSession, notification: Notification) -> bool:
    """True if the message reports open incidents, and all of them have ended."""
    content = json.loads(notification.content)
    # The message also reports incidents that it does not list.
    if content.get("state") != "firing" or content.get("more"):
        return False
    listed = [incident["id"] for incident in content["incidents"]]
    are_open = select(AlertIncident.id).where(
        AlertIncident.account_id == notification.account_id,
        AlertIncident.public_id.in_(listed),
        AlertIncident.open_key.is_not(None),
    )
    return await session.scalar(are_open.limit(1)) is None
