"""API tokens of people: lists, creates and revokes them, with audit entries.

People see and create their own tokens. Owners and admins also see and revoke those of all others, but create none for
them: the holder of such a token would act in their name. A token can only create tokens that have no more scopes, and
expire no later, than itself.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple, TypedDict, cast

from msgspec import Meta
from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.operations import Caller, add_api_token
from control_domain.accounts.roles import SCOPES, AccountRight, Scope, has_account_right
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import matches_id, parse_number
from control_domain.keys import KeyState, check_expiry, get_key_state
from control_domain.paging import Page
from control_domain.slugs import check_name
from control_domain.tables.accounts import ApiToken, Person
from pipeline_contracts.errors import (
    Conflict,
    FieldError,
    MissingScope,
    NotFound,
    collect_errors,
    invalid_field,
    invalid_fields,
)
from pipeline_contracts.times import format_optional_time, format_time

MAX_LIVE_TOKENS = 1000
"""Live tokens of one person in one account."""


class TokenDocument(TypedDict):
    """An API token, without its secret."""

    id: int
    name: str
    person: PersonSummary
    scopes: list[Scope]
    state: KeyState
    is_current: Annotated[bool, Meta(description="True for the token of this request.")]
    created_at: str
    expires_at: str | None
    last_used_at: Annotated[str | None, Meta(description="To the minute; null if the token was never used.")]
    revoked_at: str | None


class CreatedApiToken(TokenDocument):
    """A new API token."""

    api_token: Annotated[str, Meta(description="The secret, which is not shown again.")]


class TokenWithPerson(NamedTuple):
    """A token and its owner."""

    token: ApiToken
    person: Person


def describe_api_token(found: TokenWithPerson, caller: Caller, now: datetime) -> TokenDocument:
    token = found.token
    return {
        "id": token.id,
        "name": token.name,
        "person": summarize_person(found.person),
        "scopes": cast(Any, token.scopes.split()),
        "state": get_key_state(token, now),
        "is_current": token.id == caller.token_id,
        "created_at": format_time(token.created_at),
        "expires_at": format_optional_time(token.expires_at),
        "last_used_at": format_optional_time(token.last_used_at),
        "revoked_at": format_optional_time(token.revoked_at),
    }


async def find_token(session: AsyncSession, caller: Caller, token_id: str) -> TokenWithPerson:
    """Return a token that the caller may see. Raises `NotFound`."""
    query = (
        select(ApiToken, Person)
        .join(Person, Person.id == ApiToken.person_id)
        .where(ApiToken.account_id == caller.account.id, ApiToken.id == (parse_number(token_id) or 0))
    )
    if not has_account_right(caller.role, AccountRight.MANAGE):
        query = query.where(ApiToken.person_id == caller.person.id)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("There is no such token, or it belongs to somebody else.")
    return TokenWithPerson(*row)


async def list_tokens(
    session: AsyncSession, caller: Caller, person_id: str | None, page: Page
) -> tuple[Sequence[TokenWithPerson], bool]:
    """Return a page of the tokens that the caller may see, the newest first, and whether more follow.

    With `person_id`, a number or public ID, only the tokens of that person.
    """
    query = (
        select(ApiToken, Person)
        .join(Person, Person.id == ApiToken.person_id)
        .where(ApiToken.account_id == caller.account.id)
        .order_by(ApiToken.id.desc())
        .limit(page.limit + 1)
    )
    if not has_account_right(caller.role, AccountRight.MANAGE):
        query = query.where(ApiToken.person_id == caller.person.id)
    if person_id is not None:
        query = query.where(matches_id(Person.id, Person.public_id, person_id))
    if page.before is not None:
        query = query.where(ApiToken.id < page.before)
    rows = [TokenWithPerson(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit


async def create_token(
    session: AsyncSession,
    caller: Caller,
    name: str,
    scopes: Collection[Scope],
    expires_at: datetime | None,
    lifetime: timedelta | None,
    actor: Actor,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Create a token of the caller, whose account is locked. Return it with its secret, which is not stored.

    Without `expires_at` and `lifetime`, the token expires when the calling one does. Raises `InvalidInput`,
    `MissingScope` for a scope that the calling token lacks, and `Conflict` if the person has too many live tokens.
    """
    chosen = _choose_scopes(caller, scopes)
    errors: list[FieldError] = []
    until = None
    with collect_errors(errors):
        name = check_name(name)
    with collect_errors(errors):
        until = _choose_expiry(caller, expires_at, lifetime, now)
    if errors:
        raise invalid_fields(errors)
    live = select(func.count()).where(
        ApiToken.account_id == caller.account.id,
        ApiToken.person_id == caller.person.id,
        ApiToken.revoked_at.is_(None),
        or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now),
    )
    if (await session.execute(live)).scalar_one() >= MAX_LIVE_TOKENS:
        raise Conflict(f"You have {MAX_LIVE_TOKENS:,} live tokens, which is the limit: revoke one first.")
    token, secret = await add_api_token(session, caller.account, caller.person, name, chosen, now, until)
    record_token_creation(session, token, caller.person, actor, now)
    return token, secret


def record_token_creation(
    session: AsyncSession, token: ApiToken, person: Person, actor: Actor, now: datetime
) -> None:
    """Add the audit entry of a new token of this person."""
    details = {
        "person": person.public_id,
        "name": token.name,
        "scopes": token.scopes.split(),
        "expires_at": format_optional_time(token.expires_at),
    }
    record_audit_entry(session, actor, token.account_id, "token.create", f"token {token.id}", now, details)


async def revoke_token(
    session: AsyncSession, found: TokenWithPerson, actor: Actor, now: datetime
) -> TokenWithPerson:
    """Revoke a token of the locked account. A token that is revoked already stays unchanged."""
    token, person = found
    revoked = await session.execute(
        update(ApiToken)
        .where(ApiToken.id == token.id, ApiToken.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(ApiToken.id)
        .execution_options(synchronize_session=False)
    )
    if revoked.scalar_one_or_none() is not None:
        details = {"person": person.public_id, "name": token.name}
        record_audit_entry(
            session, actor, token.account_id, "token.revoke", f"token {token.id}", now, details
        )
    await session.refresh(token)
    return found


async def revoke_tokens_of(session: AsyncSession, person: Person, actor: Actor, now: datetime) -> int:
    """Revoke all live tokens of a person, in all accounts. Return their number."""
    # Account scope: the person revokes their own tokens in every account.
    revoked = await session.execute(
        update(ApiToken)
        .where(
            ApiToken.person_id == person.id,
            ApiToken.revoked_at.is_(None),
            or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now),
        )
        .values(revoked_at=now)
        .returning(ApiToken.id, ApiToken.account_id, ApiToken.name)
        .execution_options(synchronize_session=False)
    )
    rows = revoked.all()
    for number, account_id, name in rows:
        details = {"person": person.public_id, "name": name}
        record_audit_entry(session, actor, account_id, "token.revoke", f"token {number}", now, details)
    return len(rows)


def _choose_scopes(caller: Caller, scopes: Collection[Scope]) -> list[Scope]:
    """Return the scopes, each once and in the order of `SCOPES`. Raises `MissingScope`."""
    chosen = [scope for scope in SCOPES if scope in scopes]
    if lacking := [scope for scope in chosen if scope not in caller.scopes]:
        raise MissingScope(
            f"The token lacks the scope {lacking[0]}, so it can create no token that has it."
            if len(lacking) == 1
            else f"The token lacks the scopes {', '.join(lacking)}, so it can create no token that has them."
        )
    return chosen


def _choose_expiry(
    caller: Caller, expires_at: datetime | None, lifetime: timedelta | None, now: datetime
) -> datetime | None:
    """Return when the new token expires; None if it never does. Raises `InvalidInput`."""
    if lifetime is not None:
        if expires_at is not None:
            raise invalid_field("expires_in", "must be left out if expires_at is given")
        expires_at = now + lifetime
    if expires_at is None:
        return caller.expires_at
    check_expiry(expires_at, now)
    if caller.expires_at is not None and expires_at > caller.expires_at:
        raise invalid_field(
            "expires_at" if lifetime is None else "expires_in",
            f"must end by {format_time(caller.expires_at)}, when the calling token expires",
        )
    return expires_at
