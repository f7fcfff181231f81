"""What is done with accounts, people and API tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.accounts.tables import Account, ApiToken, Membership, Person
from control_api.live_keys import is_live
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms

SCOPES = ("account:read", "analytics:read", "deploy:read", "deploy:write")
# "Last used" is shown to people; a write a request would serialise all readers on SQLite.
_LAST_USED_STEP = timedelta(minutes=1)


async def create_account(
    session: AsyncSession, name: str, slug: str, limit: RateLimit, now: datetime
) -> Account:
    """A new account."""
    account = Account(
        public_id=make_identifier("acc", to_epoch_ms(now)),
        name=name,
        slug=slug,
        plan="self-hosted",
        ingest_rate=limit.rate,
        ingest_burst=limit.burst,
        created_at=now,
    )
    session.add(account)
    await session.flush()
    return account


async def create_person(
    session: AsyncSession, account: Account, name: str, email: str, role: str, now: datetime
) -> Person:
    """A new person with a place in the account."""
    public_id = make_identifier("usr", to_epoch_ms(now))
    person = Person(public_id=public_id, name=name, email=email, created_at=now)
    session.add(person)
    await session.flush()
    session.add(Membership(account_id=account.id, person_id=person.id, role=role))
    await session.flush()
    return person


async def create_api_token(
    session: AsyncSession, account: Account, person: Person, name: str, scopes: Sequence[str], now: datetime
) -> str:
    """A new API token; its secret is given here and never again."""
    secret = make_credential(CredentialKind.API_TOKEN)
    session.add(
        ApiToken(
            account_id=account.id,
            person_id=person.id,
            name=name,
            digest=digest_credential(secret),
            scopes=" ".join(scopes),
            created_at=now,
        )
    )
    await session.flush()
    return secret


async def set_ingest_limit(session: AsyncSession, account_public_id: str, limit: RateLimit) -> None:
    """Change how fast an account may send."""
    await session.execute(
        update(Account)
        .where(Account.public_id == account_public_id)
        .values(ingest_rate=limit.rate, ingest_burst=limit.burst)
    )


async def find_account(session: AsyncSession, public_id: str) -> Account | None:
    """The account with this public ID."""
    return (await session.execute(select(Account).where(Account.public_id == public_id))).scalar_one_or_none()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the account that everything is bound to, the person, and what the token may do."""

    account: Account
    person: Person
    scopes: frozenset[str]


async def find_caller(session: AsyncSession, digest: bytes, now: datetime) -> Caller | None:
    """Who an API token stands for; None for one unknown, expired or revoked."""
    row = (
        await session.execute(
            select(ApiToken, Account, Person)
            .join(Account, Account.id == ApiToken.account_id)
            .join(Person, Person.id == ApiToken.person_id)
            .where(ApiToken.digest == digest)
        )
    ).one_or_none()
    if row is None or not is_live(row[0], now):
        return None
    token, account, person = row
    last_used = token.last_used_at
    if last_used is None or last_used + _LAST_USED_STEP < now:
        token.last_used_at = now
    return Caller(account, person, frozenset(token.scopes.split()))
