"""Signs people in with a password, signs them out, and switches the account of a session."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import parse_id
from control_domain.sealing import SealingKeys
from control_domain.sign_in.check_credentials import Credentials, check_credentials
from control_domain.sign_in.memberships import choose_account, list_accounts_of
from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.record import record_ended
from control_domain.sign_in.sessions import (
    SignInMethod,
    SignInOrigin,
    renew_secret,
    revoke_session,
    revoke_session_of_secret,
    start_session,
)
from control_domain.tables.accounts import Account, Person
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import invalid_field


async def sign_in_with_password(
    session: AsyncSession,
    hasher: PasswordHasher,
    keys: SealingKeys,
    entered: Credentials,
    origin: SignInOrigin,
    actor: Actor,
    now: datetime,
) -> str:
    """Start a session of the person with these credentials, and return its secret.

    Raises what `check_credentials` raises, and `NotAllowed` for a person without an account.
    """
    person = await check_credentials(session, hasher, keys, entered, now)
    account = await choose_account(session, person)
    return await sign_in(session, person, account, "password", origin, actor, now)


async def sign_in(
    session: AsyncSession,
    person: Person,
    account: Account,
    method: SignInMethod,
    origin: SignInOrigin,
    actor: Actor,
    now: datetime,
) -> str:
    """Start a session of a person whose identity was verified, with the audit entry. Return its secret."""
    started, secret, too_many = await start_session(session, person, account.id, method, origin, now)
    details = {"person": person.public_id, "method": method, "user_agent": started.user_agent}
    actor = replace(actor, person_id=person.id)
    record_audit_entry(session, actor, account.id, "session.create", f"session {started.id}", now, details)
    record_ended(session, actor, person, too_many, now, "too many sessions")
    return secret


async def end_session(
    session: AsyncSession, caller: Caller, session_id: int, actor: Actor, now: datetime
) -> bool:
    """Revoke a session of the caller. Return True if it was not revoked before."""
    ended = await revoke_session(session, caller.person.id, session_id, now)
    record_ended(session, actor, caller.person, ended, now, "the person")
    return bool(ended)


async def end_former_session(session: AsyncSession, digest: bytes, actor: Actor, now: datetime) -> None:
    """Revoke the browser's session from before a new sign-in, if there is one."""
    for each in await revoke_session_of_secret(session, digest, now):
        person = await session.get_one(Person, each.person_id)
        record_ended(session, actor, person, [each], now, "another sign-in in the browser")


async def switch_account(
    session: AsyncSession, caller: Caller, account: str, actor: Actor, now: datetime
) -> str:
    """Switch the caller's session to another account of the person, by number, ID or slug.

    Both accounts get an audit entry. Returns the new secret of the session. Raises `InvalidInput` unless the person is
    a member of the account.
    """
    assert caller.session_id is not None
    wanted = parse_id(account)
    for found, _ in await list_accounts_of(session, caller.person.id):
        if wanted in (found.id, found.public_id) or account == found.slug:
            await session.execute(
                update(SignInSession)
                .where(SignInSession.id == caller.session_id)
                .values(account_id=found.id)
                .execution_options(synchronize_session=False)
            )
            subject, details = f"session {caller.session_id}", {"person": caller.person.public_id}
            for each in {caller.account.id, found.id}:
                record_audit_entry(session, actor, each, "session.switch", subject, now, details)
            return await renew_secret(session, caller.session_id, now)
    raise invalid_field("account", "must be an account in which you are a member")
