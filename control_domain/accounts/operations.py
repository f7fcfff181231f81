"""Operations on accounts, people and API tokens."""

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
"""Rate limit of ingest for a new account, unless another one is set."""
# A write for each request would serialise all readers on SQLite, and people need "last used" to the minute only.
_LAST_USED_STEP = timedelta(minutes=1)


async def create_account(
    session: AsyncSession, name: str, slug: str, limit: RateLimit, now: datetime
) -> Account:
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
    """Create a person who is a member of the account."""
    public_id = make_identifier("usr", to_epoch_ms(now))
    person = Person(public_id=public_id, name=name, email=email, created_at=now)
    session.add(person)
    await session.flush()
    await add_membership(session, account, person, role)
    return person


async def add_membership(session: AsyncSession, account: Account, person: Person, role: str) -> None:
    """Add the person to the account. Raises `IntegrityError` if the person is a member already."""
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
    """Create an API token and return its secret, which is not stored."""
    _, secret = await add_api_token(session, account, person, name, scopes, now, expires_at)
    return secret


async def add_api_token(
    session: AsyncSession,
    account: Account,
    person: Person,
    name: str,
    scopes: Sequence[str],
    now: datetime,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Create an API token and return it with its secret, which is not stored."""
    secret = make_credential(CredentialKind.API_TOKEN)
    token = ApiToken(
        account_id=account.id,
        person_id=person.id,
        name=name,
        digest=digest_credential(secret),
        scopes=" ".join(scopes),
        created_at=now,
        expires_at=expires_at,
    )
    session.add(token)
    await session.flush()
    return token, secret


async def lock_account_row(session: AsyncSession, account: Account) -> None:
    """Lock the account and its memberships until the end of the transaction, and refresh `account`.

    An UPDATE, because SQLite does not lock rows on reads.
    """
    await session.execute(update(Account).where(Account.id == account.id).values(plan=Account.plan))
    await session.refresh(account)


async def set_ingest_limit(session: AsyncSession, account_public_id: str, limit: RateLimit) -> None:
    """Change the ingest rate limit of an account."""
    # Account scope: the operator's command names the account.
    await session.execute(
        update(Account)
        .where(Account.public_id == account_public_id)
        .values(ingest_rate=limit.rate, ingest_burst=limit.burst)
    )


async def find_account(session: AsyncSession, public_id: str) -> Account | None:
    # Account scope: this finds the account itself.
    return (await session.execute(select(Account).where(Account.public_id == public_id))).scalar_one_or_none()


@dataclass(frozen=True, slots=True)
class Caller:
    """The account, person and scopes behind a request. Every query is bound to this account."""

    account: Account
    person: Person
    role: str
    """The person's role in the account."""
    scopes: frozenset[str]
    token_id: int | None
    """The API token of the request; None for a session."""
    last_used_at: datetime | None
    """The last recorded use of the token or session."""
    expires_at: datetime | None
    """When the token expires; None if it never does. Also None for a session, whose end does not limit new tokens."""
    session_id: int | None = None
    """The session of a person who is signed in; None for an API token."""

    @property
    def key(self) -> str:
        """The key of stored responses: all tokens of a person share it, so any of them can retry a request."""
        return f"{self.account.public_id} {self.person.public_id}"

    @property
    def credential(self) -> str:
        """The name of the token or session in the keys of stored responses that contain secrets."""
        return f"token {self.token_id}" if self.token_id is not None else f"session {self.session_id}"


# Built once: every request runs this query, and building it takes as long as running it.
_CALLER = (
    select(ApiToken, Account, Person, Membership.role)
    .join(Account, Account.id == ApiToken.account_id)
    .join(Person, Person.id == ApiToken.person_id)
    .join(
        Membership,
        (Membership.account_id == ApiToken.account_id) & (Membership.person_id == ApiToken.person_id),
    )
    .where(ApiToken.digest == bindparam("digest"))
    # Refresh the rows: a request that reads its caller a second time has them in its session already.
    .execution_options(populate_existing=True)
)


async def find_caller(session: AsyncSession, digest: bytes, now: datetime) -> Caller | None:
    """Return the caller of an API token, or None if the token is unknown, expired, revoked, or of a former member."""
    # Account scope: the token says which account it is.
    row = (await session.execute(_CALLER, {"digest": digest})).one_or_none()
    if row is None or not is_live(row[0], now):
        return None
    token, account, person, role = row
    scopes = frozenset(token.scopes.split())
    return Caller(account, person, role, scopes, token.id, token.last_used_at, token.expires_at)


async def record_token_use(session: AsyncSession, caller: Caller, now: datetime) -> bool:
    """Record the use of the caller's API token, at most once a minute. Return True if a row was written."""
    if caller.last_used_at is not None and now < caller.last_used_at + _LAST_USED_STEP:
        return False
    await session.execute(update(ApiToken).where(ApiToken.id == caller.token_id).values(last_used_at=now))
    return True
