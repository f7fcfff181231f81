"""The sealed secret of a second factor during a rotation of the sealing key, and two tabs that enable a second
factor."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Delete

from control_domain.accounts.operations import create_account, create_person
from control_domain.database.engine import Sessions
from control_domain.key_rotation import Resealed, reseal
from control_domain.sealing import SealingKeys
from control_domain.sign_in.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    has_second_factor,
    use_code,
)
from control_domain.sign_in.totp import make_totp_code
from pipeline_contracts.errors import Conflict, SignInRefused
from pipeline_contracts.rate_limits import RateLimit
from tests.support.control_fixtures import sessions

__all__ = ["sessions"]

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
OLD, NEW = "a former key of the test suite with 32 letters", "a present key of the test suite with 32 letters"


async def test_a_rotated_key_opens_the_secret(sessions: Sessions) -> None:
    step = int(NOW.timestamp()) // 30
    async with sessions() as session, session.begin():
        account = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        person = await create_person(session, account, "Olga", "olga@example.com", "owner", NOW)
        secret = await begin_second_factor(session, SealingKeys.read(OLD), person, NOW)
        code = make_totp_code(secret, step - 1)
        await confirm_second_factor(session, SealingKeys.read(OLD), person, code, NOW)
    async with sessions() as session, session.begin():
        assert await reseal(session, SealingKeys.read(f"{NEW},{OLD}"), 10) == Resealed(done=1, left=0)
    async with sessions() as session, session.begin():
        await use_code(session, SealingKeys.read(NEW), person, make_totp_code(secret, step), NOW)


async def test_codes_of_a_clock_that_was_ahead_do_not_use_up_those_until_then(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    keys, step = SealingKeys.read(NEW), int(NOW.timestamp()) // 30
    async with sessions() as session, session.begin():
        account = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        person = await create_person(session, account, "Olga", "olga@example.com", "owner", NOW)
        secret = await begin_second_factor(session, keys, person, NOW)
        await confirm_second_factor(session, keys, person, make_totp_code(secret, step), NOW)

    async def use(code_step: int, at: datetime) -> None:
        async with sessions() as session, session.begin():
            await use_code(session, keys, person, make_totp_code(secret, code_step), at)

    await use(step + 120, NOW + timedelta(hours=1))
    await use(step + 1, NOW)
    assert "clock" in caplog.text
    for used in (step + 1, step):
        with pytest.raises(SignInRefused):
            await use(used, NOW)
    # With small differences between the clocks of two control planes, a code that one has accepted is used up at the
    # other.
    await use(step + 5, NOW + timedelta(seconds=120))
    with pytest.raises(SignInRefused):
        await use(step + 2, NOW + timedelta(seconds=30))


async def test_tab_that_begins_keeps_the_factor_that_another_has_enabled(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, step = SealingKeys.read(NEW), int(NOW.timestamp()) // 30
    async with sessions() as session, session.begin():
        account = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        person = await create_person(session, account, "Olga", "olga@example.com", "owner", NOW)
        secret = await begin_second_factor(session, keys, person, NOW)
    async with sessions() as session:
        execute = session.execute

        async def confirm_before(statement: Any, *args: Any, **options: Any) -> Any:
            if isinstance(statement, Delete):
                async with sessions() as other, other.begin():
                    await confirm_second_factor(other, keys, person, make_totp_code(secret, step), NOW)
            return await execute(statement, *args, **options)

        monkeypatch.setattr(session, "execute", confirm_before)
        with pytest.raises(Conflict, match="already"):
            await begin_second_factor(session, keys, person, NOW)
            await session.commit()
    async with sessions() as session:
        assert await has_second_factor(session, person.id)
