"""Joins an account by an invitation, and signs the person in."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.invitations.accept import (
    check_name_of_new,
    check_scopes,
    find_usable_invitation,
    join_account,
)
from control_domain.sealing import SealingKeys
from control_domain.sign_in.attempt_limits import count_attempt, limits_of_secret
from control_domain.sign_in.check_credentials import Credentials, check_credentials
from control_domain.sign_in.memberships import list_accounts_of
from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.password_rules import check_password
from control_domain.sign_in.passwords import read_password_hash, replace_password_hash
from control_domain.sign_in.sessions import SignInOrigin
from control_domain.sign_in.sign_in import sign_in
from control_domain.tables.accounts import Person
from pipeline_contracts.errors import Conflict


async def join_with_password(
    session: AsyncSession,
    hasher: PasswordHasher,
    keys: SealingKeys,
    invitation: str,
    name: str | None,
    password: str,
    code: str | None,
    origin: SignInOrigin,
    actor: Actor,
    now: datetime,
) -> str:
    """Add the invited person to the account, and return the secret of a new session.

    A person who has a password already must enter it, and a code of the second factor: the inviter knows the secret of
    the invitation, and must not get access to the person's other accounts. Anybody else sets a first password. Commits
    before the password is hashed, within the limits of attempts. Raises `NotFound` for an invitation that cannot be
    used, `InvalidInput`, `Conflict`, `TooManyRequests`, and what `check_credentials` raises.
    """
    found, _ = await find_usable_invitation(session, invitation, now)
    check_scopes(found)
    known = await _find_person(session, found.email)
    hash = None
    if known is not None and await read_password_hash(session, known.id) is not None:
        entered = Credentials(known.email, password, code, origin.network)
        await check_credentials(session, hasher, keys, entered, now)
    else:
        await _check_first_password(session, known)
        if known is None:
            check_name_of_new(found, name)
        normalized = check_password(password, found.email, name or "")
        await count_attempt(session, limits_of_secret(f"invitation {found.id}"), now)
        await session.commit()
        hash = await hasher.hash(normalized)
    joined = await join_account(session, invitation, name, actor, now)
    if joined.is_new != (known is None):
        raise Conflict(f"{found.email} has just joined another account. Send the same request again.")
    actor = replace(actor, person_id=joined.person.id)
    if hash is not None:
        if not await replace_password_hash(session, joined.person.id, None, hash, now):
            raise Conflict(f"{found.email} has just set a password. Send the same request again.")
        subject, details = f"person {joined.person.public_id}", {"by": "invitation", "ended_sessions": 0}
        record_audit_entry(session, actor, joined.account.id, "password.set", subject, now, details)
    return await sign_in(session, joined.person, joined.account, "invitation", origin, actor, now)


async def _find_person(session: AsyncSession, email: str) -> Person | None:
    return (await session.execute(select(Person).where(Person.email == email))).scalar_one_or_none()


async def _check_first_password(session: AsyncSession, known: Person | None) -> None:
    """Raise `Conflict` if the person has no password yet and is already in another account."""
    if known is not None and await list_accounts_of(session, known.id):
        raise Conflict(
            f"{known.email} is in another account already, and has no password yet. Ask an owner of that account for a "
            "sign-in link, set a password, and open the invitation again."
        )
