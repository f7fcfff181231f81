"""Audit entries about sign-in. A change that concerns the whole person is recorded in each of the person's
accounts."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.sign_in.memberships import list_accounts_of
from control_domain.sign_in.sessions import EndedSession
from control_domain.tables.accounts import Person


async def record_of_person(
    session: AsyncSession,
    actor: Actor,
    person: Person,
    action: str,
    now: datetime,
    details: Mapping[str, object] | None = None,
) -> None:
    """Record a change of a person's sign-in, in all accounts of the person."""
    subject = f"person {person.public_id}"
    for account, _ in await list_accounts_of(session, person.id):
        record_audit_entry(session, actor, account.id, action, subject, now, details)


def record_ended(
    session: AsyncSession, actor: Actor, person: Person, ended: Sequence[EndedSession], now: datetime, by: str
) -> None:
    """Record the end of a person's sessions, each in the account that it used."""
    for each in ended:
        details = {"person": person.public_id, "by": by}
        record_audit_entry(
            session, actor, each.account_id, "session.revoke", f"session {each.id}", now, details
        )
