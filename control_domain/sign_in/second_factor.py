"""The second factor of a person: an authenticator (TOTP), and recovery codes that replace it."""

import hashlib
import logging
import secrets
from datetime import datetime

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.sign_in.totp import DIGITS, PERIOD_SECONDS, find_totp_step, make_totp_secret
from control_domain.tables.accounts import Person
from control_domain.tables.sign_in import RecoveryCode, SecondFactor
from pipeline_contracts.errors import Conflict, SecondFactorRequired, SignInRefused, invalid_field

logger = logging.getLogger(__name__)

RECOVERY_CODES = 10
# 79 bits each, so that their digests cannot be reversed; without letters that look like digits.
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 16
_GROUP = 4
# A used code's step may be this far ahead: one step, and the difference between the clocks of two control planes.
_STEPS_AHEAD = 5
_WRONG = "The code is wrong, or was used already. Enter the present code of your authenticator, or a recovery code."


def second_factor_owner(person_id: int) -> str:
    """Return the owner for whom the secret of a person's authenticator is sealed."""
    return f"second factor of person {person_id}"


async def has_second_factor(session: AsyncSession, person_id: int) -> bool:
    """Return True if sign-in asks the person for a code."""
    query = select(SecondFactor.person_id).where(
        SecondFactor.person_id == person_id, SecondFactor.confirmed_at.is_not(None)
    )
    return (await session.execute(query)).first() is not None


async def begin_second_factor(session: AsyncSession, keys: SealingKeys, person: Person, now: datetime) -> str:
    """Store and return a new secret for an authenticator. `confirm_second_factor` activates it.

    Raises `Conflict` if the person has a second factor already, or begins with one in another tab at this moment.
    """
    secret = make_totp_secret()
    sealed = keys.seal({"secret": secret}, second_factor_owner(person.id))
    # Keep a second factor that another tab activates at this moment.
    await session.execute(
        delete(SecondFactor).where(SecondFactor.person_id == person.id, SecondFactor.confirmed_at.is_(None))
    )
    values = {"person_id": person.id, "key_id": sealed.key_id, "sealed": sealed.data, "created_at": now}
    begun = insert_if_absent(session, SecondFactor, values).returning(SecondFactor.person_id)
    if (await session.execute(begun)).first() is None:
        if await has_second_factor(session, person.id):
            raise Conflict("You have a second factor already: remove it first.")
        raise Conflict("Another page has just begun with a second factor. Send the same request again.")
    return secret


async def confirm_second_factor(
    session: AsyncSession, keys: SealingKeys, person: Person, code: str, now: datetime
) -> list[str]:
    """Turn the second factor on, after the person has shown a code. Return new recovery codes, which are not stored.

    Raises `Conflict` if none was begun, and `InvalidInput` for a wrong code.
    """
    found = await session.get(SecondFactor, person.id, populate_existing=True)
    if found is None or found.confirmed_at is not None:
        raise Conflict("No second factor waits for a code: begin again with a new second factor.")
    step = find_totp_step(_open(keys, found), _digits_of(code), now.timestamp())
    if step is None:
        raise invalid_field(
            "code", "must be the present code: check the clock of your phone, and enter the next one"
        )
    confirmed = await session.execute(
        update(SecondFactor)
        .where(SecondFactor.person_id == person.id, SecondFactor.confirmed_at.is_(None))
        .values(confirmed_at=now, last_step=step)
        .returning(SecondFactor.person_id)
        .execution_options(synchronize_session=False)
    )
    if confirmed.first() is None:
        raise Conflict("The second factor was turned on already.")
    await session.execute(delete(RecoveryCode).where(RecoveryCode.person_id == person.id))
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH)) for _ in range(RECOVERY_CODES)]
    session.add_all(RecoveryCode(person_id=person.id, digest=_digest(person.id, each)) for each in codes)
    await session.flush()
    return ["-".join(each[at : at + _GROUP] for at in range(0, _LENGTH, _GROUP)) for each in codes]


async def remove_second_factor(session: AsyncSession, person_id: int) -> bool:
    """Remove the second factor and its recovery codes. Return True if it was on."""
    was_on = await has_second_factor(session, person_id)
    await session.execute(delete(RecoveryCode).where(RecoveryCode.person_id == person_id))
    await session.execute(delete(SecondFactor).where(SecondFactor.person_id == person_id))
    return was_on


async def use_code(
    session: AsyncSession, keys: SealingKeys, person: Person, code: str | None, now: datetime
) -> None:
    """Check the code of a person who has a second factor; each code works once. Does nothing for other people.

    Raises `SecondFactorRequired` without a code, and `SignInRefused` for a code that is wrong or was used before.
    """
    found = await session.get(SecondFactor, person.id, populate_existing=True)
    if found is None or found.confirmed_at is None:
        return
    if code is None or not code.strip():
        raise SecondFactorRequired("Enter the code of your authenticator, or a recovery code.")
    digits = _digits_of(code)
    if len(digits) == DIGITS and digits.isdecimal():
        await _use_totp_code(session, keys, found, digits, now)
    else:
        await _use_recovery_code(session, person, code, now)


async def _use_totp_code(
    session: AsyncSession, keys: SealingKeys, found: SecondFactor, code: str, now: datetime
) -> None:
    step = find_totp_step(_open(keys, found), code, now.timestamp())
    if step is None:
        raise SignInRefused(_WRONG)
    latest = int(now.timestamp() // PERIOD_SECONDS) + _STEPS_AHEAD
    if found.last_step is not None and found.last_step > latest:
        logger.warning("a code of a second factor was used at a time in the future: the clock was ahead")
    # Of two concurrent requests with one code, one wins.
    used = await session.execute(
        update(SecondFactor)
        .where(
            SecondFactor.person_id == found.person_id,
            or_(
                SecondFactor.last_step.is_(None),
                SecondFactor.last_step < step,
                # Only a clock that was ahead can have accepted such a code: the codes up to that time are not used up.
                SecondFactor.last_step > latest,
            ),
        )
        .values(last_step=step)
        .returning(SecondFactor.person_id)
        .execution_options(synchronize_session=False)
    )
    if used.first() is None:
        raise SignInRefused(_WRONG)


async def _use_recovery_code(session: AsyncSession, person: Person, code: str, now: datetime) -> None:
    plain = "".join(each for each in code.lower() if each in _ALPHABET)
    used = await session.execute(
        update(RecoveryCode)
        .where(
            RecoveryCode.person_id == person.id,
            RecoveryCode.digest == _digest(person.id, plain),
            RecoveryCode.used_at.is_(None),
        )
        .values(used_at=now)
        .returning(RecoveryCode.id)
        .execution_options(synchronize_session=False)
    )
    if used.first() is None:
        raise SignInRefused(_WRONG)


def _open(keys: SealingKeys, found: SecondFactor) -> str:
    try:
        return keys.open(Sealed(found.key_id, found.sealed), second_factor_owner(found.person_id))["secret"]
    except CannotOpen as error:
        raise Conflict(
            "The secret of your authenticator cannot be opened, because the key that sealed it is missing. Enter a "
            "recovery code, or ask an operator of the installation for a sign-in link, which removes the second factor."
        ) from error


def _digits_of(code: str) -> str:
    """Return the code without the spaces that authenticators show in it."""
    return "".join(code.split()) if code.isascii() else ""


def _digest(person_id: int, code: str) -> bytes:
    return hashlib.sha256(f"recovery code of {person_id}: {code}".encode()).digest()
