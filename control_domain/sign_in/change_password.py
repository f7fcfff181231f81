"""Changes the password of a person who is signed in, and confirms the person's identity before sensitive changes."""

from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.tokens import revoke_tokens_of
from control_domain.audit import Actor
from control_domain.sealing import SealingKeys
from control_domain.sign_in.attempt_limits import count_attempt, find_limits, take_back_attempt
from control_domain.sign_in.check_credentials import check_code, verify_counted
from control_domain.sign_in.links import revoke_links
from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.password_rules import check_password
from control_domain.sign_in.passwords import read_password_hash, replace_password_hash
from control_domain.sign_in.record import record_of_person
from control_domain.sign_in.sessions import renew_secret, revoke_sessions
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import Conflict, SecondFactorRequired, SignInRefused, invalid_field

_RECENTLY = timedelta(minutes=10)


async def confirm_password(
    session: AsyncSession,
    hasher: PasswordHasher,
    caller: Caller,
    password: str | None,
    network: str,
    now: datetime,
    field: str = "password",
) -> str | None:
    """Check that the caller knows the password, and return its hash, or None for a person without a password.

    A person without a password signs in with a provider, and must have done so within the last 10 minutes. Commits.
    Raises `InvalidInput` for a wrong password, `Conflict` for a sign-in that is too old, and `TooManyRequests`.
    """
    person = caller.person
    stored = await read_password_hash(session, person.id)
    if stored is None:
        await _check_recent_sign_in(session, caller, now)
        return None
    limits = await find_limits(session, person.email, network)
    attempts = await count_attempt(session, limits, now)
    await session.commit()
    if not await verify_counted(session, hasher, password or "", stored, network, attempts):
        raise invalid_field(field, "must be your present password")
    await take_back_attempt(session, attempts)
    await session.commit()
    return stored


async def confirm_identity(
    session: AsyncSession,
    hasher: PasswordHasher,
    keys: SealingKeys,
    caller: Caller,
    password: str | None,
    code: str | None,
    network: str,
    now: datetime,
    field: str = "password",
) -> str | None:
    """Do what `confirm_password` does; a person without a password who has a second factor also enters a code.

    Required before changes of how the person signs in: an attacker who temporarily controls the person's account at a
    provider does not have the second factor. Raises what `confirm_password` raises, and `InvalidInput` for a wrong
    code.
    """
    stored = await confirm_password(session, hasher, caller, password, network, now, field)
    if stored is None:
        try:
            await check_code(session, keys, caller.person, code, network, now)
        except (SecondFactorRequired, SignInRefused) as error:
            # Not 401: the session stays valid.
            raise invalid_field(
                "code", "must be the present code of your authenticator, or a recovery code"
            ) from error
        await session.commit()
    return stored


async def _check_recent_sign_in(session: AsyncSession, caller: Caller, now: datetime) -> None:
    found = await session.get(SignInSession, caller.session_id)
    if found is None or found.created_at + _RECENTLY < now:
        raise Conflict(
            "You have no password, and have signed in more than 10 minutes ago: sign in again first."
        )


async def change_password(
    session: AsyncSession,
    hasher: PasswordHasher,
    keys: SealingKeys,
    caller: Caller,
    present: str | None,
    code: str | None,
    password: str,
    network: str,
    actor: Actor,
    now: datetime,
    *,
    revokes_tokens: bool = False,
) -> str:
    """Change the caller's password and end the person's other sessions. Return the new secret of this session.

    With `revokes_tokens`, the person's API tokens end too, in all accounts.

    Commits before passwords are hashed. Raises what `confirm_identity` raises, `InvalidInput` for the new password, and
    `Conflict` if the password was changed meanwhile.
    """
    assert caller.session_id is not None
    person = caller.person
    normalized = check_password(password, person.email, person.name)
    stored = await confirm_identity(
        session, hasher, keys, caller, present, code, network, now, "current_password"
    )
    hash = await hasher.hash(normalized)
    if not await replace_password_hash(session, person.id, stored, hash, now):
        raise Conflict("The password was changed by another request meanwhile.")
    await revoke_links(session, person.id)
    ended = await revoke_sessions(session, person.id, now, but=caller.session_id)
    revoked = await revoke_tokens_of(session, person, actor, now) if revokes_tokens else 0
    details = {
        "by": "password" if stored is not None else "recent sign-in",
        "ended_sessions": ended,
        "revoked_tokens": revoked,
    }
    await record_of_person(session, actor, person, "password.set", now, details)
    return await renew_secret(session, caller.session_id, now)
