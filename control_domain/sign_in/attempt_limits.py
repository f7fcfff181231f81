"""Limits of failed attempts to sign in, which slow down guessing.

Each limit is a bucket of attempts that fills again with time (GCRA). All control planes share the buckets, because
they are rows of the database. An attempt is counted before the password is checked, and uncounted if it succeeds.
"""

import hashlib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from sqlalchemy import case, delete, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import dialect_insert
from control_domain.tables.accounts import Person
from control_domain.tables.sign_in import SignInLimit, SignInSession
from pipeline_contracts.client_address import wider_network_of
from pipeline_contracts.errors import TooManyRequests

logger = logging.getLogger(__name__)

# Seconds by which the clocks of several control planes may differ.
_CLOCK_DIFFERENCE = 60.0


@dataclass(frozen=True, slots=True)
class AttemptLimit:
    """`burst` attempts at once, and one more each `seconds`."""

    key: str
    burst: int
    seconds: float


def limits_of_address(network: str) -> list[AttemptLimit]:
    """Return the limits of all attempts from a network, which may be a whole office."""
    limits = [AttemptLimit(f"network {network}"[:200], 30, 10.0)]
    wider = wider_network_of(network)
    if wider != network:
        # One customer of a provider may have 65,536 networks of IPv6.
        limits.append(AttemptLimit(f"network {wider}"[:200], 120, 2.5))
    return limits


def limits_of_secret(name: str) -> list[AttemptLimit]:
    """Return the limits of requests with one link or invitation, each of which hashes a password."""
    return [AttemptLimit(f"secret of {name}"[:200], 10, 10.0)]


async def find_limits(session: AsyncSession, email: str, network: str) -> list[AttemptLimit]:
    """Return the limits of an attempt with a person's address from a network.

    Networks in which the person was signed in before have their own limits, which strangers in other networks cannot
    use up. In a new network, ongoing guessing by strangers can keep the person out: docs/operations/sign-in.md explains
    what to do.
    """
    person = _name_of(email)
    limits = limits_of_address(network)
    limits.append(AttemptLimit(f"{person} from {network}"[:200], 5, 30.0))
    if not await _is_known_network(session, email, network):
        limits.append(AttemptLimit(person, 30, 10.0))
    return limits


async def find_code_limits(session: AsyncSession, email: str, network: str) -> list[AttemptLimit]:
    """Return the limits of an attempt with a code of the second factor, after the right password."""
    person = f"code of {_name_of(email)}"
    if await _is_known_network(session, email, network):
        return [AttemptLimit(f"{person} from {network}"[:200], 10, 60.0)]
    return [AttemptLimit(person, 10, 120.0)]


def _name_of(email: str) -> str:
    """Return the name of a person in keys. It has the same length for every address, also for addresses without a
    person."""
    return f"person {hashlib.sha256(email.encode()).hexdigest()[:32]}"


async def _is_known_network(session: AsyncSession, email: str, network: str) -> bool:
    # Account scope: this is about a person, whatever the account.
    query = (
        select(SignInSession.id)
        .join(Person, Person.id == SignInSession.person_id)
        .where(Person.email == email, SignInSession.network == network)
        .limit(1)
    )
    return (await session.execute(query)).first() is not None


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    """An attempt that was counted towards a limit."""

    limit: AttemptLimit
    forgotten_at: float
    """When the attempt stops counting, in the time of `monotonic`."""


async def count_attempt(
    session: AsyncSession, limits: Sequence[AttemptLimit], now: datetime
) -> Sequence[CountedAttempt]:
    """Count an attempt towards each of the limits, and return it for `take_back_attempt`. Commit before the password is
    checked.

    Raises `TooManyRequests` if a limit is used up; the caller must then not commit.
    """
    seconds, counted_at = now.timestamp(), monotonic()
    attempts = []
    # Always lock in the same order, so that concurrent attempts do not deadlock.
    for limit in sorted(limits, key=lambda each: each.key):
        statement = dialect_insert(session, SignInLimit).values(
            key=limit.key, forgotten_at=seconds + limit.seconds
        )
        row = SignInLimit.forgotten_at
        counted = case((row > seconds, row), else_=literal(seconds)) + limit.seconds
        statement = statement.on_conflict_do_update(
            index_elements=[SignInLimit.key],
            set_={"forgotten_at": counted},
            where=counted <= seconds + limit.burst * limit.seconds,
        ).returning(SignInLimit.forgotten_at)
        forgotten_at = (await session.execute(statement)).scalar_one_or_none()
        if forgotten_at is None:
            if not await _correct_time(session, limit, seconds):
                raise await _describe_wait(session, limit, seconds)
            forgotten_at = seconds + limit.burst * limit.seconds
        attempts.append(CountedAttempt(limit, counted_at + forgotten_at - seconds))
    return attempts


async def _correct_time(session: AsyncSession, limit: AttemptLimit, seconds: float) -> bool:
    """Count the attempt as the last one of the burst if the limit's time is so late that only a clock that was ahead
    can have written it: nobody should have to wait until that time. Return False for any other time."""
    latest = seconds + limit.burst * limit.seconds
    statement = (
        update(SignInLimit)
        .where(SignInLimit.key == limit.key, SignInLimit.forgotten_at > latest + _CLOCK_DIFFERENCE)
        .values(forgotten_at=latest)
        .returning(SignInLimit.key)
        .execution_options(synchronize_session=False)
    )
    if (await session.execute(statement)).first() is None:
        return False
    logger.warning("a sign-in limit had a time in the future: the clock of a server was ahead")
    return True


async def _describe_wait(session: AsyncSession, limit: AttemptLimit, seconds: float) -> TooManyRequests:
    query = select(SignInLimit.forgotten_at).where(SignInLimit.key == limit.key)
    forgotten_at = (await session.execute(query)).scalar_one_or_none() or seconds
    wait = max(1, math.ceil(forgotten_at + limit.seconds - limit.burst * limit.seconds - seconds))
    return TooManyRequests(
        f"Too many attempts to sign in have failed. Try again in {wait} s.",
        headers={"Retry-After": str(wait)},
    )


async def take_back_attempt(session: AsyncSession, attempts: Sequence[CountedAttempt]) -> None:
    """Uncount a successful attempt. An attempt that no longer counts is skipped: the limit then only has attempts of
    others."""
    for attempt in attempts:
        if attempt.forgotten_at <= monotonic():
            continue
        await session.execute(
            update(SignInLimit)
            .where(SignInLimit.key == attempt.limit.key)
            .values(forgotten_at=SignInLimit.forgotten_at - attempt.limit.seconds)
            .execution_options(synchronize_session=False)
        )


async def forget_attempts(session: AsyncSession, now: datetime) -> None:
    """Delete the limits whose attempts no longer count."""
    await session.execute(delete(SignInLimit).where(SignInLimit.forgotten_at < now.timestamp()))
