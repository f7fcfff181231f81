"""Old sessions, links and limits are deleted, and no others."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select

from control_domain.accounts.operations import create_account, create_person
from control_domain.accounts.second_person import DOUBT
from control_domain.database.engine import Sessions
from control_domain.tables.sign_in import SignInLimit, SignInLink, SignInSession
from control_workers.forget_sessions import RETENTION, forget_old_sessions
from pipeline_contracts.rate_limits import RateLimit

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def test_old_rows_are_deleted(sessions: Sessions) -> None:
    async with sessions() as session, session.begin():
        account = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        person = await create_person(session, account, "Olga", "olga@example.com", "owner", NOW)

        def add_session(number: int, **values: Any) -> None:
            row = {"expires_at": NOW + SECOND, "last_used_at": NOW, "created_at": NOW, "rotated_at": NOW}
            session.add(
                SignInSession(
                    id=number,
                    person_id=person.id,
                    account_id=account.id,
                    digest=bytes([number]) * 32,
                    method="password",
                    address="192.0.2.1",
                    network="192.0.2.1",
                    user_agent="",
                    **(row | values),
                )
            )

        add_session(1)
        add_session(2, expires_at=NOW - RETENTION + SECOND, revoked_at=NOW - RETENTION + SECOND)
        add_session(3, expires_at=NOW - RETENTION - SECOND)
        add_session(4, revoked_at=NOW - RETENTION - SECOND)
        for number, expires_at in ((1, NOW - DOUBT + SECOND), (2, NOW - DOUBT - SECOND)):
            link = {"id": number, "person_id": person.id, "digest": bytes([number]) * 32, "created_at": NOW}
            session.add(SignInLink(**link, expires_at=expires_at))
        session.add_all(
            SignInLimit(key=key, forgotten_at=NOW.timestamp() + late) for key, late in (("a", 1), ("b", -1))
        )
    await forget_old_sessions(sessions, NOW)
    async with sessions() as session:
        assert (await session.scalars(select(SignInSession.id).order_by(SignInSession.id))).all() == [1, 2]
        assert (await session.scalars(select(SignInLink.id))).all() == [1]
        assert (await session.scalars(select(SignInLimit.key))).all() == ["a"]
