"""The people in an account: lists them, changes their roles and removes them, with audit entries.

Owners and admins manage people. Only an owner makes, changes or removes an owner, and everybody may remove themselves.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, cast

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.members import Member, change_role, find_member, remove_member
from control_domain.accounts.operations import Caller
from control_domain.accounts.removed_recipients import cancel_messages, remove_from_rules
from control_domain.accounts.rights import require_account_right
from control_domain.accounts.roles import AccountRight, AccountRole
from control_domain.audit import Actor, record_audit_entry
from control_domain.paging import Page
from control_domain.tables.accounts import Account, Membership, Person


class PersonDocument(PersonSummary):
    """A person in the account."""

    role: Annotated[AccountRole, Meta(description="The role in the account.")]


class RemovedPerson(PersonDocument):
    """A person who was removed from the account, and the access that ended with it."""

    project_roles: Annotated[int, Meta(description="The number of roles in projects.")]
    tokens: Annotated[int, Meta(description="The number of API tokens that were valid until then.")]
    report_links: Annotated[
        int,
        Meta(
            description="The number of live links to reports of sites that the person has made. With "
            "`revoke_report_links` they are revoked; otherwise they keep working."
        ),
    ]


def describe_person(member: Member) -> PersonDocument:
    return {**summarize_person(member.person), "role": cast(Any, member.role)}


async def find_person(session: AsyncSession, caller: Caller, number_or_id: str) -> Member:
    """Return the person of the caller's account with this number or public ID. Raises `NotFound`."""
    return await find_member(session, caller.account, number_or_id)


async def list_people(
    session: AsyncSession, account: Account, email: str | None, page: Page
) -> tuple[Sequence[Member], bool]:
    """Return a page of the people in the account, the newest first, and whether more follow.

    With `email`, only the person with this address, in any case.
    """
    query = (
        select(Person, Membership.role)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id)
        .order_by(Person.id.desc())
        .limit(page.limit + 1)
    )
    if email is not None:
        # Addresses are stored in lower case.
        query = query.where(Person.email == email.strip().lower())
    if page.before is not None:
        query = query.where(Person.id < page.before)
    rows = [Member(person, account, role) for person, role in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit


async def change_person_role(
    session: AsyncSession, caller: Caller, member: Member, role: AccountRole, actor: Actor, now: datetime
) -> Member:
    """Change the role of a member of the locked account. Return the member with the new role.

    Raises `NotAllowed` and `LastOwner`.
    """
    require_account_right(caller, AccountRight.OWN if "owner" in (member.role, role) else AccountRight.MANAGE)
    if member.role == role:
        return member
    await change_role(session, member, role, now)
    subject, details = f"person {member.person.public_id}", {"from": member.role, "to": role}
    record_audit_entry(session, actor, member.account.id, "person.role", subject, now, details)
    return member._replace(role=role)


async def remove_person(
    session: AsyncSession,
    caller: Caller,
    member: Member,
    actor: Actor,
    now: datetime,
    *,
    report_links: int,
    revoked_report_links: bool,
) -> RemovedPerson:
    """Remove a member of the locked account, with the member's roles in projects, API tokens and places in
    notification rules, and cancel the member's unsent notifications. `report_links` of the result is the number of
    live report links that the member has made, whether they were revoked or not.

    Raises `NotAllowed` and `LastOwner`.
    """
    if member.person.id != caller.person.id:
        require_account_right(caller, AccountRight.OWN if member.role == "owner" else AccountRight.MANAGE)
    account, number = member.account.id, member.person.id
    await remove_from_rules(session, account, "person", number)
    await cancel_messages(session, account, "person", number, "The person was removed from the account.")
    removed = await remove_member(session, member, now)
    subject = f"person {member.person.public_id}"
    details = {
        "role": member.role,
        "project_roles": removed.project_roles,
        "tokens": removed.tokens,
        "report_links": report_links,
        "revoked_report_links": revoked_report_links,
    }
    record_audit_entry(session, actor, member.account.id, "person.remove", subject, now, details)
    return {
        **describe_person(member),
        "project_roles": removed.project_roles,
        "tokens": removed.tokens,
        "report_links": report_links,
    }
