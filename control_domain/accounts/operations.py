"""What is done with accounts, people and API tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.keys import is_live
from control_domain.tables.accounts import Account, ApiToken, Membership, Person
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms

DEFAULT_LIMIT = RateLimit(5000.0, 50_000)
"""How fast an account may send where nothing else was said."""
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
    await add_membership(session, account, person, role)
    return person


async def add_membership(session: AsyncSession, account: Account, person: Person, role: str) -> None:
    """Give the person a place in the account. Raises `IntegrityError` where there is one already."""
    session.add(Membership(account_id=account.id, person_id=person.id, role=role))
    await session.flush()


async def create_api_token(
    session: AsyncSession,
    account: Account,
    person: Person,
    name: str,
    scopes: Sequence[str],
    now: datetime,
    expires_at: datetime | None = None,
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
            expires_at=expires_at,
        )
    )
    await session.flush()
    return secret


async def revoke_api_token(session: AsyncSession, token_id: int, now: datetime) -> bool:
    """Let the token work no more; False where it does not exist, or was revoked before."""
    # Account scope: the operator's command names the token of any account.
    revoked = (
        update(ApiToken)
        .where(ApiToken.id == token_id, ApiToken.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(ApiToken.id)
    )
    return (await session.execute(revoked)).scalar_one_or_none() is not None


async def lock_account_row(session: AsyncSession, account: Account) -> None:
    """Let nobody else change the account and who is in it until the end of the transaction.

    An update, because SQLite locks nothing when it reads. It gives `account` the present settings.
    """
    await session.execute(update(Account).where(Account.id == account.id).values(plan=Account.plan))
    await session.refresh(account)


async def set_ingest_limit(session: AsyncSession, account_public_id: str, limit: RateLimit) -> None:
    """Change how fast an account may send."""
    # Account scope: the operator's command names the account.
    await session.execute(
        update(Account)
        .where(Account.public_id == account_public_id)
        .values(ingest_rate=limit.rate, ingest_burst=limit.burst)
    )


async def find_account(session: AsyncSession, public_id: str) -> Account | None:
    """The account with this public ID."""
    # Account scope: this finds the account itself.
    return (await session.execute(select(Account).where(Account.public_id == public_id))).scalar_one_or_none()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the account that everything is bound to, the person, and what the token may do."""

    account: Account
    person: Person
    role: str
    """The person's in the account."""
    scopes: frozenset[str]
    token_id: int
    last_used_at: datetime | None
    """The token's last use that was noted."""

    @property
    def key(self) -> str:
        """Who it is in one word: what a person has begun with one token may go on with another."""
        return f"{self.account.public_id} {self.person.public_id}"


# Built once: every request asks this, and to build it takes as long as to run it.
_CALLER = (
    select(ApiToken, Account, Person, Membership.role)
    .join(Account, Account.id == ApiToken.account_id)
    .join(Person, Person.id == ApiToken.person_id)
    .join(
        Membership,
        (Membership.account_id == ApiToken.account_id) & (Membership.person_id == ApiToken.person_id),
    )
    .where(ApiToken.digest == bindparam("digest"))
)


async def find_caller(session: AsyncSession, digest: bytes, now: datetime) -> Caller | None:
    """Who an API token stands for; None for one that is unknown, expired or revoked, or whose person has left the
    account."""
    row = (await session.execute(_CALLER, {"digest": digest})).one_or_none()
    if row is None or not is_live(row[0], now):
        return None
    token, account, person, role = row
    return Caller(account, person, role, frozenset(token.scopes.split()), token.id, token.last_used_at)


async def record_token_use(session: AsyncSession, caller: Caller, now: datetime) -> bool:
    """Write down that the caller's token is used now, once a minute; whether anything was written."""
    if caller.last_used_at is not None and now < caller.last_used_at + _LAST_USED_STEP:
        return False
    await session.execute(update(ApiToken).where(ApiToken.id == caller.token_id).values(last_used_at=now))
    return True
