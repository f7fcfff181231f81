"""The sealed secret of a second factor, when the key that seals it is replaced."""

from datetime import UTC, datetime

from control_domain.accounts.operations import create_account, create_person
from control_domain.database.engine import Sessions
from control_domain.key_rotation import Resealed, reseal
from control_domain.sealing import SealingKeys
from control_domain.sign_in.second_factor import begin_second_factor, confirm_second_factor, use_code
from control_domain.sign_in.totp import make_totp_code
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
