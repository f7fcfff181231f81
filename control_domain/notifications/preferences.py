"""The quiet hours of people."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.statements import dialect_insert
from control_domain.notifications.quiet_hours import (
    QuietHours,
    check_quiet_hours,
    describe_quiet_hours,
    write_quiet_hours,
)
from control_domain.notifications.wake_groups import wake_groups
from control_domain.tables.accounts import Person
from control_domain.tables.notifications import NotificationGroup, NotificationPreference


async def read_preference(session: AsyncSession, person: Person) -> str | None:
    """Return the column of the person's quiet hours; None if they have none."""
    found = await session.get(NotificationPreference, person.id, populate_existing=True)
    return None if found is None else found.quiet_hours


async def set_quiet_hours(
    session: AsyncSession, caller: Caller, hours: QuietHours | None, actor: Actor, now: datetime
) -> None:
    """Replace the caller's quiet hours. Raises `InvalidInput`."""
    if hours is not None:
        check_quiet_hours(hours)
    text = write_quiet_hours(hours)
    before = await read_preference(session, caller.person)
    if text == before:
        return
    insert = dialect_insert(session, NotificationPreference).values(
        person_id=caller.person.id, quiet_hours=text
    )
    await session.execute(
        insert.on_conflict_do_update(index_elements=["person_id"], set_={"quiet_hours": text})
    )
    await wake_groups(session, None, now, NotificationGroup.person_id == caller.person.id)
    details = {"quiet_hours": {"from": describe_quiet_hours(before), "to": describe_quiet_hours(text)}}
    subject = f"person {caller.person.public_id}"
    record_audit_entry(session, actor, caller.account.id, "person.quiet-hours", subject, now, details)
