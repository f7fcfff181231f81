"""Incidents of exceptions end after 30 days if no person resolves them."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from control_domain.database.engine import Sessions
from control_domain.tables.notifications import AlertIncident
from notifications.incidents import end_forgotten
from tests.support.notified import make_notified

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.both_databases
async def test_incidents_that_no_person_can_end_end_by_themselves(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_forgotten, "_BATCH", 2)
    notified = await make_notified(sessions, NOW)
    channel = await notified.add_channel("hook")
    await notified.add_rule("all", [f"channel {channel}"])
    for number in range(5):
        await notified.emit("exception.new", f"g{number}", "firing", {"exception": "ValueError"})
    await notified.emit("exception.regressed", "back", "firing", {"exception": "ValueError"})
    # Other incidents end by their own condition.
    await notified.emit("exception.spike", "spike g0", "firing")
    await notified.advance(60)

    month = end_forgotten.FORGOTTEN_AFTER
    assert await end_forgotten.end_forgotten(sessions, NOW + month) == 0
    async with sessions() as session, session.begin():
        is_recent = AlertIncident.subject == "g4"
        await session.execute(update(AlertIncident).where(is_recent).values(changed_at=NOW + month))
    notified.now = NOW + month + timedelta(minutes=1)
    assert await end_forgotten.end_forgotten(sessions, notified.now) == 5
    await notified.work()
    async with sessions() as session:
        still_open = select(AlertIncident.subject).where(AlertIncident.open_key.is_not(None))
        assert set(await session.scalars(still_open)) == {"g4", "spike g0"}
    # Ended incidents are not changed again.
    assert await end_forgotten.end_forgotten(sessions, notified.now) == 0
    await notified.advance(600)
    (row, message) = (await notified.messages())[-1]
    assert "ValueError was not resolved for 30 days" in str(message)
    assert row.channel_id == channel
