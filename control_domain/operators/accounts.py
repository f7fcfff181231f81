"""Lists, creates and rate-limits accounts for the operator of the machine."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy import func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import (
    AccountSummary,
    PersonSummary,
    summarize_account,
    summarize_person,
)
from control_domain.accounts.email_addresses import check_email
from control_domain.accounts.operations import (
    DEFAULT_LIMIT,
    add_membership,
    create_account,
    create_person,
    lock_account_row,
    set_ingest_limit,
)
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import matches_id
from control_domain.slugs import check_name, choose_slug
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.projects import Project
from pipeline_contracts.errors import Conflict, FieldError, InvalidInput, NameTaken, NotFound
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import format_time

_MIN_RATE = 0.001
_MAX_RATE = 1e9
# The largest integer of the column in Postgres.
_MAX_BURST = 2**31 - 1


class LimitsDocument(TypedDict):
    """How fast an account may send events."""

    ingest_events_per_second: float
    ingest_burst: int
    """Events at once."""


class AccountDocument(AccountSummary):
    """An account; `number` is its numeric ID."""

    number: int
    limits: LimitsDocument
    created_at: str


class ListedAccount(AccountDocument):
    """An account in the list of all accounts."""

    people_count: int
    project_count: int


class CreatedAccount(AccountDocument):
    """A new account with its owner."""

    owner: PersonSummary
    is_owner_renamed: bool
    """True if the owner is in another account, and keeps the name from there."""


async def list_accounts(session: AsyncSession) -> Sequence[ListedAccount]:
    """Return every account with the number of its people and projects."""
    # Account scope: the operator sees all accounts.
    accounts = (await session.execute(select(Account).order_by(Account.id))).scalars().all()
    people = await _count(session, Membership)
    projects = await _count(session, Project)
    return [
        {
            **describe_account(account),
            "people_count": people.get(account.id, 0),
            "project_count": projects.get(account.id, 0),
        }
        for account in accounts
    ]


def describe_account(account: Account) -> AccountDocument:
    return {
        **summarize_account(account),
        "number": account.id,
        "limits": {
            "ingest_events_per_second": account.ingest_rate,
            "ingest_burst": account.ingest_burst,
        },
        "created_at": format_time(account.created_at),
    }


async def _count(session: AsyncSession, table: type[Membership] | type[Project]) -> Mapping[int, int]:
    """Return the number of rows of each account."""
    counted = select(table.account_id, func.count()).group_by(table.account_id)
    return dict((await session.execute(counted)).all())


async def create_account_with_owner(
    session: AsyncSession,
    *,
    name: str,
    slug: str | None,
    owner_name: str,
    owner_email: str,
    actor: Actor,
    now: datetime,
) -> CreatedAccount:
    """Create an account and its owner, who may be in other accounts. `slug` None makes one from the name.

    Raises `InvalidInput`, and `NameTaken` if another account has the slug.
    """
    name, slug = check_name(name), choose_slug(slug, name)
    owner_name, email = check_name(owner_name, "owner_name"), check_email(owner_email, "owner_email")
    try:
        async with session.begin_nested():
            account = await create_account(session, name, slug, DEFAULT_LIMIT, now)
    except IntegrityError:
        raise NameTaken(f"There is an account with the slug {slug} already.") from None
    owner = await _add_owner(session, account, owner_name, email, now)
    details = {"slug": slug, "owner": owner.public_id}
    subject = f"account {account.public_id}"
    record_audit_entry(session, actor, account.id, "account.create", subject, now, details)
    return {
        **describe_account(account),
        "owner": summarize_person(owner),
        "is_owner_renamed": owner.name != owner_name,
    }


async def _add_owner(session: AsyncSession, account: Account, name: str, email: str, now: datetime) -> Person:
    person = (await session.execute(select(Person).where(Person.email == email))).scalar_one_or_none()
    if person is not None:
        await add_membership(session, account, person, "owner")
        return person
    try:
        async with session.begin_nested():
            return await create_person(session, account, name, email, "owner", now)
    except IntegrityError:
        raise Conflict(f"Another request has just added {email} to another account. Try again.") from None


async def limit_account(
    session: AsyncSession, name_or_id: str | None, limit: RateLimit, actor: Actor, now: datetime
) -> Account:
    """Change how fast an account may send, and return it. Raises `InvalidInput`, `NotFound` and `Conflict`."""
    _check_limit(limit)
    account = await resolve_account(session, name_or_id)
    await lock_account_row(session, account)
    details: dict[str, Any] = {
        "from": {"rate": account.ingest_rate, "burst": account.ingest_burst},
        "to": {"rate": limit.rate, "burst": limit.burst},
    }
    await set_ingest_limit(session, account.public_id, limit)
    await session.refresh(account)
    subject = f"account {account.public_id}"
    record_audit_entry(session, actor, account.id, "account.limit", subject, now, details)
    return account


def _check_limit(limit: RateLimit) -> None:
    errors = []
    if not math.isfinite(limit.rate) or not _MIN_RATE <= limit.rate <= _MAX_RATE:
        errors.append(FieldError("rate", f"must be {_MIN_RATE} to {_MAX_RATE:,.0f} events a second"))
    if not 1 <= limit.burst <= _MAX_BURST:
        errors.append(FieldError("burst", f"must be 1 to {_MAX_BURST:,} events"))
    if errors:
        raise InvalidInput("Nothing was changed. Fix the values listed below.", errors=errors)


async def resolve_account(session: AsyncSession, name_or_id: str | None) -> Account:
    """Return the account with this number, ID or slug; for None, the only account.

    Raises `NotFound` if none matches, `Conflict` if there are several.
    """
    # Account scope: the operator may name any account.
    query = select(Account).order_by(Account.id).limit(20)
    if name_or_id is not None:
        query = query.where(
            or_(matches_id(Account.id, Account.public_id, name_or_id), Account.slug == name_or_id)
        )
    found = (await session.execute(query)).scalars().all()
    if not found:
        raise NotFound(f"There is no account {name_or_id}." if name_or_id else "There is no account yet.")
    if len(found) > 1:
        slugs = ", ".join(account.slug for account in found)
        raise Conflict(f"There are several accounts. Name one of them: {slugs}.")
    return found[0]
