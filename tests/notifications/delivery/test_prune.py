"""History ends after 90 days."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.database.engine import Sessions
from control_domain.tables.notifications import (
    AlertIncident,
    Notification,
    NotificationAttempt,
    NotificationGroup,
    NotificationMember,
    NotificationSilence,
)
from notifications.delivery import prune
from notifications.delivery.prune import RETENTION, prune_history
from tests.support.deliveries import Deliveries
from tests.support.managed_project import NOW

_OLD = NOW - RETENTION - timedelta(seconds=1)
_RECENT = NOW - RETENTION


async def _names(sessions: Sessions, column: Any) -> list[Any]:
    async with sessions() as session:
        return sorted(await session.scalars(select(column)))


@pytest.mark.both_databases
async def test_rows_older_than_90_days_are_deleted(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "_BATCH", 2)
    sessions, account_id = deliveries.sessions, deliveries.acme.account.id
    channel = await deliveries.add_channel("hook")
    old = [await deliveries.write(channel, created_at=_OLD) for _ in range(5)]
    recent = [await deliveries.write(channel, created_at=_RECENT) for _ in range(2)]
    await deliveries.deliver()
    # A person has requested it again.
    await deliveries.change(old[0], status="pending")

    def incident(
        name: str, *, started: Any = _OLD, changed: Any = _OLD, is_open: bool = False
    ) -> AlertIncident:
        return AlertIncident(
            public_id=name,
            open_key=name if is_open else None,
            account_id=account_id,
            kind="heartbeat.down",
            subject=name,
            severity="critical",
            state="firing" if is_open else "resolved",
            started_at=started,
            changed_at=changed,
            facts="{}",
        )

    async with sessions() as session, session.begin():
        session.add_all([incident(f"old{number}") for number in range(3)])
        await session.flush()
        open_one = incident("open", is_open=True)
        ended = incident("ended")
        session.add_all([open_one, ended, incident("lately", changed=_RECENT)])
        session.add_all([incident("recent", started=_RECENT, changed=_RECENT)])
        groups = [
            NotificationGroup(
                key=key,
                public_id=f"grp_{key}",
                account_id=account_id,
                family="heartbeat",
                channel_id=channel.id,
                sent_at=sent_at,
                due_at=due_at,
            )
            for key, sent_at, due_at in (
                ("idle", _OLD, None),
                ("ended", _OLD, None),
                ("firing", _OLD, None),
                ("due", _OLD, NOW),
                ("recent", _RECENT, None),
                ("new", None, NOW),
                ("waits", None, None),
                # All its incidents ended before their first message.
                ("quiet", None, None),
            )
        ]
        session.add_all(groups)
        await session.flush()
        # The end of one incident was never sent, because its recipient was turned off.
        session.add_all(
            NotificationMember(group_id=group.id, incident_id=member.id)
            for group, member in ((groups[1], ended), (groups[2], open_one), (groups[6], open_one))
        )
        session.add_all(
            NotificationSilence(
                account_id=account_id, starts_at=_OLD, ends_at=ends_at, reason=reason, created_at=_OLD
            )
            for ends_at, reason in ((_OLD, "old"), (_RECENT, "recent"), (NOW, "now"))
        )
    # Four notifications, four incidents, three groups and a silence.
    assert await prune_history(sessions, NOW) == 12
    assert await _names(sessions, Notification.public_id) == sorted([old[0], *recent])
    assert len(await _names(sessions, NotificationAttempt.id)) == 3
    assert await _names(sessions, AlertIncident.public_id) == ["lately", "open", "recent"]
    assert await _names(sessions, NotificationMember.incident_id) == [open_one.id] * 2
    assert await _names(sessions, NotificationGroup.key) == ["due", "firing", "new", "recent", "waits"]
    assert await _names(sessions, NotificationSilence.reason) == ["now", "recent"]
    assert await prune_history(sessions, NOW) == 0
