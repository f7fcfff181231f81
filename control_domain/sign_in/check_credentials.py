"""Checks the password of a person, and the code of the second factor, within the limits of attempts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.email_addresses import MAX_LENGTH
from control_domain.sealing import SealingKeys
from control_domain.sign_in.attempt_limits import (
    CountedAttempt,
    count_attempt,
    find_code_limits,
    find_limits,
    take_back_attempt,
)
from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.passwords import lock_password, read_password_hash
from control_domain.sign_in.second_factor import has_second_factor, use_code
from control_domain.tables.accounts import Person
from pipeline_contracts.errors import SecondFactorRequired, SignInRefused, Unavailable

WRONG_PASSWORD = "The e-mail address or the password is wrong."


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a person enters to sign in."""

    email: str
    password: str
    code: str | None
    network: str
    """The network that the attempt comes from."""


async def check_credentials(
    session: AsyncSession, hasher: PasswordHasher, keys: SealingKeys, entered: Credentials, now: datetime
) -> Person:
    """Return the person of these credentials. The password stays locked until the end of the transaction.

    Commits the counted attempts before the password is hashed, and also before an attempt is refused. Raises
    `SignInRefused`, `SecondFactorRequired` and `TooManyRequests`.
    """
    email = _read_email(entered.email)
    limits = await find_limits(session, email, entered.network)
    attempts = await count_attempt(session, limits, now)
    query = select(Person).where(Person.email == email)
    person = (await session.execute(query)).scalar_one_or_none()
    stored = None if person is None else await read_password_hash(session, person.id)
    await session.commit()
    matches = await verify_counted(session, hasher, entered.password, stored, entered.network, attempts)
    if not matches or person is None or stored is None:
        raise SignInRefused(WRONG_PASSWORD)
    await take_back_attempt(session, attempts)
    await check_code(session, keys, person, entered.code, entered.network, now)
    if not await lock_password(session, person.id, stored):
        raise SignInRefused(WRONG_PASSWORD)
    return person


async def verify_counted(
    session: AsyncSession,
    hasher: PasswordHasher,
    password: str,
    stored: str | None,
    network: str,
    attempts: Sequence[CountedAttempt],
) -> bool:
    """Check a password whose attempt is counted and committed. Commits if the attempt is uncounted.

    After `Unavailable`, the attempt does not count, because the caller has not learned whether the password is right.
    If the caller disconnects, the attempt counts, because hashing may have begun.
    """
    try:
        return await hasher.verify(password, stored, network)
    except Unavailable:
        await take_back_attempt(session, attempts)
        await session.commit()
        raise


def _read_email(text: str) -> str:
    """Return the address in its stored form; empty for a text that is not an address."""
    email = text.strip().lower()
    return email if email.isprintable() and len(email) <= MAX_LENGTH else ""


async def check_code(
    session: AsyncSession, keys: SealingKeys, person: Person, code: str | None, network: str, now: datetime
) -> None:
    """Check the code of the second factor within its limits. Does nothing for a person without a second factor.

    Commits the counted attempts. Raises `SignInRefused`, `SecondFactorRequired` and `TooManyRequests`.
    """
    if not await has_second_factor(session, person.id):
        return
    limits = await find_code_limits(session, person.email, network)
    attempts = await count_attempt(session, limits, now)
    await session.commit()
    try:
        await use_code(session, keys, person, code, now)
    except SecondFactorRequired:
        await take_back_attempt(session, attempts)
        await session.commit()
        raise
    await take_back_attempt(session, attempts)
