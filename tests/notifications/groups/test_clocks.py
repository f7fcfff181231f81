"""A clock that is wrong for a moment."""

from datetime import UTC, datetime, timedelta

import pytest

from control_domain.database.engine import Sessions
from tests.support.notified import make_notified

_NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
_DAY = timedelta(days=1)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_group_that_was_written_by_a_clock_a_day_ahead(sessions: Sessions) -> None:
    notified = await make_notified(sessions, _NOW + _DAY)
    await notified.add_rule("all", [f"channel {await notified.add_channel('hook')}"], kinds=["heartbeat"])
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(30)
    # Sent, and one pending since tomorrow.
    await notified.emit("heartbeat.down", "2", "firing")
    notified.now = _NOW
    await notified.emit("heartbeat.down", "3", "firing")
    await notified.advance(60)
    assert [len(message.incidents) for _, message in await notified.messages()] == [1, 2]
