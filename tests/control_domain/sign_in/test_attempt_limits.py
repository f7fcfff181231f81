"""Limits of failed attempts, on both databases."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.database.engine import Sessions
from control_domain.sign_in import attempt_limits
from control_domain.sign_in.attempt_limits import (
    AttemptLimit,
    count_attempt,
    find_limits,
    forget_attempts,
    limits_of_address,
    take_back_attempt,
)
from control_domain.sign_in.check_credentials import verify_counted
from control_domain.sign_in.password_hashes import PasswordHasher
from pipeline_contracts.errors import TooManyRequests, Unavailable
from tests.support.control_fixtures import sessions

__all__ = ["sessions"]

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
LIMIT = AttemptLimit("network 192.0.2.1", 5, 30.0)


async def count(sessions: Sessions, after: float = 0.0, limits: Sequence[AttemptLimit] = (LIMIT,)) -> int:
    """Count an attempt this many seconds after `NOW`. Return 0, or the seconds to wait."""
    try:
        async with sessions() as session, session.begin():
            await count_attempt(session, limits, NOW + timedelta(seconds=after))
    except TooManyRequests as problem:
        return int(problem.headers["Retry-After"])
    return 0


async def test_a_burst_and_then_one_each_interval(sessions: Sessions) -> None:
    assert [await count(sessions) for _ in range(7)] == [0, 0, 0, 0, 0, 30, 30]
    assert [await count(sessions, at) for at in (29.5, 30, 31, 60, 60)] == [1, 0, 29, 0, 30]
    # Refused attempts are not counted, so a person who waits can sign in, even if others keep trying.
    assert [await count(sessions, 60 + 150) for _ in range(4)] == [0, 0, 0, 0]
    async with sessions() as session, session.begin():
        attempts = await count_attempt(session, [LIMIT], NOW + timedelta(seconds=60 + 150))
    assert await count(sessions, 60 + 150) == 30
    async with sessions() as session, session.begin():
        await take_back_attempt(session, attempts)
    assert [await count(sessions, 60 + 150) for _ in range(2)] == [0, 30]


async def test_withdrawn_attempt_does_not_affect_other_attempts(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right password waited for its hash until its attempt had expired, and another caller guessed meanwhile."""
    elapsed = [0.0]
    monkeypatch.setattr(attempt_limits, "monotonic", lambda: elapsed[0])
    async with sessions() as session, session.begin():
        attempts = await count_attempt(session, [LIMIT], NOW)
    assert [await count(sessions, 31) for _ in range(6)] == [0, 0, 0, 0, 0, 30]
    elapsed[0] = 31.0
    async with sessions() as session, session.begin():
        await take_back_attempt(session, attempts)
    assert await count(sessions, 31) == 30


async def test_clock_that_was_ahead_locks_out_no_person(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    async with sessions() as session, session.begin():
        attempts = await count_attempt(session, [LIMIT], NOW + timedelta(hours=1))
        await take_back_attempt(session, attempts)
    # Guesses are limited nevertheless.
    assert [await count(sessions, at) for at in (0, 0, 30, 30)] == [0, 30, 0, 30]
    assert "clock" in caplog.text
    # A small difference between the clocks of two control planes adds no attempt.
    assert await count(sessions, -20) == 80


async def test_one_used_up_limit_counts_nothing_towards_the_others(sessions: Sessions) -> None:
    other = AttemptLimit("person", 100, 1.0)
    results = [await count(sessions, limits=[other, LIMIT]) for _ in range(200)]
    assert results.count(0) == 5
    assert [await count(sessions, limits=[other]) for _ in range(96)].count(0) == 95


async def test_concurrent_attempts_are_all_counted(sessions: Sessions) -> None:
    results = await asyncio.gather(*(count(sessions) for _ in range(12)))
    assert results.count(0) == 5


async def test_forgotten_attempts_are_deleted(sessions: Sessions) -> None:
    await count(sessions)
    async with sessions() as session, session.begin():
        await forget_attempts(session, NOW + timedelta(seconds=29))
        await forget_attempts(session, NOW + timedelta(seconds=31))
    assert [await count(sessions) for _ in range(6)][-1] == 30


async def test_a_person_is_known_by_a_digest(sessions: Sessions) -> None:
    async with sessions() as session:
        limits = await find_limits(session, "ada@x.example", "2001:db8::/64")
        long = await find_limits(session, "x" * 5000, "a" * 300)
    assert [limit.key.partition(" ")[0] for limit in limits] == ["network", "network", "person", "person"]
    assert not any("ada" in limit.key for limit in limits)
    assert all(len(limit.key) <= 200 for limit in long)


async def test_a_wider_network_has_one_limit(sessions: Sessions) -> None:
    """A customer of a provider may have 65,536 IPv6 networks."""
    networks = [f"2001:db8:1:{number:x}::/64" for number in range(5)]
    results = [
        await count(sessions, limits=limits_of_address(network)) for network in networks for _ in range(30)
    ]
    assert results.count(0) == 120
    assert await count(sessions, limits=limits_of_address("2001:db8:2::/64")) == 0


class FullHasher(PasswordHasher):
    """A hasher that refuses every caller."""

    async def verify(self, password: str, stored: str | None, network: str = "") -> bool:
        raise Unavailable("Too many people are signing in at this moment.")


async def test_unchecked_attempt_is_not_counted(sessions: Sessions) -> None:
    for _ in range(7):
        async with sessions() as session:
            attempts = await count_attempt(session, [LIMIT], NOW)
            await session.commit()
            with pytest.raises(Unavailable):
                await verify_counted(session, FullHasher(), "right", None, "192.0.2.1", attempts)
