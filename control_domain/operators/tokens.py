"""Creates the first API token of a person. Later tokens are created through the API, which itself requires a token."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TypedDict

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import (
    AccountSummary,
    PersonSummary,
    summarize_account,
    summarize_person,
)
from control_domain.accounts.operations import add_api_token, lock_account_row
from control_domain.accounts.roles import SCOPES
from control_domain.accounts.tokens import record_token_creation
from control_domain.audit import Actor
from control_domain.database.public_ids import matches_id
from control_domain.keys import check_expiry
from control_domain.operators.accounts import resolve_account
from control_domain.slugs import check_name
from control_domain.tables.accounts import Account, Membership, Person
from pipeline_contracts.errors import Conflict, NotFound, invalid_field
from pipeline_contracts.times import format_optional_time


class CreatedToken(TypedDict):
    """A new token; the secret `api_token` is shown here only."""

    id: int
    account: AccountSummary
    person: PersonSummary
    scopes: list[str]
    expires_at: str | None
    api_token: str


async def create_first_token(
    session: AsyncSession,
    *,
    account: str | None,
    person: str | None,
    scopes: Collection[str] | None,
    name: str | None,
    lifetime: timedelta | None,
    actor: Actor,
    now: datetime,
) -> CreatedToken:
    """Create a token of a member of an account.

    `account`: number, ID or slug, None for the only one. `person`: e-mail address, number or ID, None for the only
    owner. `scopes` None means all scopes, `lifetime` None no expiry. Raises `InvalidInput`, `NotFound` and `Conflict`.
    """
    found = await resolve_account(session, account)
    await lock_account_row(session, found)
    member = await _find_member(session, found, person)
    chosen = _check_scopes(scopes)
    expires_at = None if lifetime is None else now + lifetime
    check_expiry(expires_at, now)
    called = check_name(name) if name is not None else f"made {now:%Y-%m-%d} by the operator"
    token, secret = await add_api_token(session, found, member, called, chosen, now, expires_at)
    record_token_creation(session, token, member, actor, now)
    return {
        "id": token.id,
        "account": summarize_account(found),
        "person": summarize_person(member),
        "scopes": chosen,
        "expires_at": format_optional_time(expires_at),
        "api_token": secret,
    }


async def _find_member(session: AsyncSession, account: Account, name_or_id: str | None) -> Person:
    query = (
        select(Person)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id)
        .order_by(Person.id)
    )
    if name_or_id is None:
        query = query.where(Membership.role == "owner")
    else:
        # Addresses are stored in lower case.
        of_id = matches_id(Person.id, Person.public_id, name_or_id)
        query = query.where(or_(of_id, Person.email == name_or_id.lower()))
    people = (await session.execute(query)).scalars().all()
    if not people:
        who = "owner" if name_or_id is None else f"member {name_or_id}"
        raise NotFound(f"The account {account.slug} has no {who}.")
    if len(people) > 1:
        emails = ", ".join(person.email for person in people)
        raise Conflict(f"The account {account.slug} has several owners. Name one of them: {emails}.")
    return people[0]


def _check_scopes(scopes: Collection[str] | None) -> list[str]:
    """Return the scopes, each once and in the order of `SCOPES`. Raises `InvalidInput`."""
    chosen: list[str] = [scope for scope in SCOPES if scopes is None or scope in scopes]
    if not chosen or (scopes is not None and set(scopes).difference(SCOPES)):
        raise invalid_field("scopes", f"must be one or more of {', '.join(SCOPES)}")
    return chosen
