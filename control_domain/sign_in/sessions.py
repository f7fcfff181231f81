"""Sessions of browsers: started at sign-in, found by the secret in the cookie, rotated each day, revoked.

The database keeps digests of secrets only. After a rotation the previous secret works until the browser has used the
new one and a minute has passed: other tabs have requests in flight, and a response with a new cookie may get lost. A
browser that still uses the previous secret gets a second new one only after ten minutes: until then, the response with
the first new secret may still arrive, and would replace the second one by a secret that is no longer valid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, bindparam, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import SCOPES
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential

SignInMethod = Literal["password", "link", "invitation", "oidc"]

LIFETIME = timedelta(days=30)
"""The longest duration of a session."""
IDLE_LIFETIME = timedelta(days=7)
"""How long a session lasts without a request."""
_ROTATION = timedelta(hours=24)
_GRACE = timedelta(minutes=1)
_LOST = timedelta(minutes=10)
_LAST_USED_STEP = timedelta(minutes=1)
_MAX_LIVE = 50
_ALL_SCOPES = frozenset(SCOPES)


@dataclass(frozen=True, slots=True)
class SignInOrigin:
    """The address and browser from which a person signs in."""

    address: str
    network: str
    user_agent: str


class EndedSession(NamedTuple):
    """A session that was revoked: its number, its person, and the account that it used."""

    id: int
    person_id: int
    account_id: int


class SessionCaller(NamedTuple):
    """The caller of a request with a session's secret, and the session."""

    caller: Caller
    session: SignInSession


async def start_session(
    session: AsyncSession,
    person: Person,
    account_id: int,
    method: SignInMethod,
    origin: SignInOrigin,
    now: datetime,
) -> tuple[SignInSession, str, Sequence[EndedSession]]:
    """Start a session and return it with its secret, which is not stored. If the person has too many sessions, the
    oldest ones are revoked, and returned."""
    secret = make_credential(CredentialKind.SESSION)
    started = SignInSession(
        person_id=person.id,
        account_id=account_id,
        digest=digest_credential(secret),
        rotated_at=now,
        method=method,
        created_at=now,
        last_used_at=now,
        expires_at=now + LIFETIME,
        address=origin.address[:100],
        network=origin.network[:100],
        user_agent="".join(each for each in origin.user_agent if each.isprintable())[:300],
    )
    session.add(started)
    await session.flush()
    live = await list_sessions(session, person.id, now)
    too_many = [old.id for old in live[_MAX_LIVE:]]
    ended = await _revoke(session, now, SignInSession.id.in_(too_many)) if too_many else []
    return started, secret, ended


# Built once: every request of a browser runs this query.
_CALLER = (
    select(SignInSession, Account, Person, Membership.role)
    .join(Account, Account.id == SignInSession.account_id)
    .join(Person, Person.id == SignInSession.person_id)
    .join(
        Membership,
        (Membership.account_id == SignInSession.account_id)
        & (Membership.person_id == SignInSession.person_id),
    )
    .where(
        or_(
            SignInSession.digest == bindparam("digest"), SignInSession.previous_digest == bindparam("digest")
        ),
        SignInSession.revoked_at.is_(None),
    )
    # Refresh the rows: a request that reads its caller a second time has them in its database session already.
    .execution_options(populate_existing=True)
)


async def find_session_caller(session: AsyncSession, digest: bytes, now: datetime) -> SessionCaller | None:
    """Return the caller of a session, or None if it is unknown, expired, revoked, or of a former member."""
    # Account scope: the session names the account.
    row = (await session.execute(_CALLER, {"digest": digest})).one_or_none()
    if row is None or not is_live(row[0], now):
        return None
    found, account, person, role = row
    caller = Caller(account, person, role, _ALL_SCOPES, None, found.last_used_at, None, found.id)
    return SessionCaller(caller, found)


def is_live(found: SignInSession, now: datetime) -> bool:
    """Return True unless the session was revoked, has expired, or was not used for too long."""
    return found.revoked_at is None and found.expires_at > now and found.last_used_at + IDLE_LIFETIME > now


def has_use_to_record(found: SignInSession, digest: bytes, now: datetime) -> bool:
    """Return True if `record_use` would change the session."""
    if found.last_used_at + _LAST_USED_STEP <= now or _is_rotation_due(found, digest, now):
        return True
    return found.previous_digest is not None and found.digest == digest and found.rotated_at + _GRACE <= now


def _is_rotation_due(found: SignInSession, digest: bytes, now: datetime) -> bool:
    if found.digest == digest:
        return found.rotated_at + _ROTATION <= now
    # The browser still has the previous secret, because the response with the new one was lost.
    return found.rotated_at + _LOST <= now


async def record_use(session: AsyncSession, found: SignInSession, digest: bytes, now: datetime) -> str | None:
    """Record the use of a session, at most once a minute. Return the new secret if it was rotated.

    Of concurrent requests with one secret, one rotates it.
    """
    is_this = SignInSession.id == found.id
    if _is_rotation_due(found, digest, now):
        secret = make_credential(CredentialKind.SESSION)
        values = {
            "digest": digest_credential(secret),
            "previous_digest": digest,
            "rotated_at": now,
            "last_used_at": now,
        }
        rotated = await _update(
            session, values, is_this, SignInSession.digest == found.digest, SignInSession.revoked_at.is_(None)
        )
        return secret if rotated else None
    await _update(session, {"last_used_at": now}, is_this)
    if found.digest == digest and found.rotated_at + _GRACE <= now:
        await _update(session, {"previous_digest": None}, is_this, SignInSession.digest == digest)
    return None


async def renew_secret(session: AsyncSession, session_id: int, now: datetime) -> str:
    """Give a session a new secret at once, after a change of how the person signs in. Return it."""
    secret = make_credential(CredentialKind.SESSION)
    values = {"digest": digest_credential(secret), "previous_digest": None, "rotated_at": now}
    await _update(session, values, SignInSession.id == session_id)
    return secret


async def list_sessions(session: AsyncSession, person_id: int, now: datetime) -> Sequence[SignInSession]:
    """Return the live sessions of a person in all accounts, the newest first."""
    # Account scope: a session belongs to a person, who may switch its account.
    query = (
        select(SignInSession)
        .where(
            SignInSession.person_id == person_id,
            SignInSession.revoked_at.is_(None),
            SignInSession.expires_at > now,
            SignInSession.last_used_at > now - IDLE_LIFETIME,
        )
        .order_by(SignInSession.id.desc())
    )
    return (await session.execute(query)).scalars().all()


async def revoke_sessions(
    session: AsyncSession, person_id: int, now: datetime, *, but: int | None = None
) -> int:
    """Revoke all sessions of a person, or all but one. Return their number."""
    conditions = [SignInSession.person_id == person_id]
    if but is not None:
        conditions.append(SignInSession.id != but)
    return len(await _revoke(session, now, *conditions))


async def revoke_session(
    session: AsyncSession, person_id: int, session_id: int, now: datetime
) -> Sequence[EndedSession]:
    """Revoke a session of a person. Return it unless it was revoked before."""
    return await _revoke(session, now, SignInSession.person_id == person_id, SignInSession.id == session_id)


async def revoke_session_of_secret(
    session: AsyncSession, digest: bytes, now: datetime
) -> Sequence[EndedSession]:
    """Revoke the session with this secret, if there is one, because the browser gets another session. Return the
    revoked sessions."""
    is_this = or_(SignInSession.digest == digest, SignInSession.previous_digest == digest)
    return await _revoke(session, now, is_this)


async def _revoke(
    session: AsyncSession, now: datetime, *conditions: ColumnElement[bool]
) -> Sequence[EndedSession]:
    return await _update(session, {"revoked_at": now}, SignInSession.revoked_at.is_(None), *conditions)


async def _update(
    session: AsyncSession, values: Mapping[str, object], *conditions: ColumnElement[bool]
) -> Sequence[EndedSession]:
    """Update the sessions that meet the conditions, and return them."""
    # Account scope: a session belongs to a person, who may switch its account.
    changed = await session.execute(
        update(SignInSession)
        .where(*conditions)
        .values(values)
        .returning(SignInSession.id, SignInSession.person_id, SignInSession.account_id)
        .execution_options(synchronize_session=False)
    )
    return [EndedSession(*row) for row in changed]
