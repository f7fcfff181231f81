"""Rows of notifications for tests of the API: one of each kind in both accounts of a platform."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import (
    AlertIncident,
    AlertThreshold,
    Notification,
    NotificationAttempt,
    NotificationChannel,
    NotificationGroup,
    NotificationRule,
    NotificationSilence,
)
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import format_time, to_epoch_ms
from tests.support.deploy_platform import Platform, Tenant


async def add_notifications(platform: Platform) -> None:
    """Add a channel, a rule, a threshold, a silence, an open incident and a sent notification to both accounts."""
    now = datetime.now(UTC)
    async with platform.sessions() as session, session.begin():
        for tenant in (platform.acme, platform.other):
            channel = await add_channel(session, tenant, "ops", now)
            rule = NotificationRule(
                account_id=tenant.account.id,
                name="production",
                recipients=json.dumps([f"channel {channel.id}"]),
                created_at=now,
                **_project(tenant),
            )
            threshold = AlertThreshold(
                environment_id=tenant.environment("shop/production").id,
                name="mail waits",
                kind="queue.wait",
                target="mail",
                threshold=60,
                recovery=30,
                window_seconds=300,
                pending_seconds=60,
                severity="warning",
                created_at=now,
            )
            silence = NotificationSilence(
                account_id=tenant.account.id,
                starts_at=now,
                ends_at=now + timedelta(hours=1),
                reason="maintenance",
                created_at=now,
                **_place(tenant),
            )
            incident = await add_incident(session, tenant, now)
            session.add_all([rule, threshold, silence])
            notification = await add_notification(session, tenant, incident, channel, now)
            tenant.notified = {
                "channel": channel.id,
                "rule": rule.id,
                "threshold": threshold.id,
                "silence": silence.id,
                "incident": incident.id,
                "notification": notification.id,
            }


async def add_channel(
    session: AsyncSession, tenant: Tenant, name: str, now: datetime, **values: Any
) -> NotificationChannel:
    """Add a channel for e-mail."""
    row = {"type": "email", "settings": json.dumps({"address": f"ops@{tenant.account.slug}.example"})}
    channel = NotificationChannel(
        public_id=make_identifier("chn", to_epoch_ms(now)),
        account_id=tenant.account.id,
        name=name,
        created_at=now,
        **{**row, **values},
    )
    session.add(channel)
    await session.flush()
    return channel


async def add_incident(
    session: AsyncSession, tenant: Tenant, now: datetime, subject: str = "1", **values: Any
) -> AlertIncident:
    """Add an open incident of a heartbeat in `shop/production`; `values` are columns."""
    place = _place(tenant)
    row = {
        "open_key": f"{tenant.account.id}/{place['environment_id']}/heartbeat/{subject}",
        "kind": "heartbeat.down",
        "severity": "critical",
        "state": "firing",
        "started_at": now,
        "changed_at": now,
        "facts": json.dumps({"heartbeat": f"nightly {subject}"}),
        **place,
    }
    incident = AlertIncident(
        public_id=make_identifier("inc", to_epoch_ms(now)),
        account_id=tenant.account.id,
        subject=subject,
        **{**row, **values},
    )
    session.add(incident)
    await session.flush()
    return incident


async def add_notification(
    session: AsyncSession,
    tenant: Tenant,
    incident: AlertIncident,
    channel: NotificationChannel,
    now: datetime,
    **values: Any,
) -> Notification:
    """Add a sent notification that lists the incident, with its attempt; `values` are columns."""
    group = NotificationGroup(
        key=f"{tenant.account.id} {incident.id} {channel.id}",
        public_id=make_identifier("grp", to_epoch_ms(now)),
        account_id=tenant.account.id,
        family="heartbeat",
        channel_id=channel.id,
        **_place(tenant),
    )
    session.add(group)
    await session.flush()
    message = {
        "id": make_identifier("msg", to_epoch_ms(now)),
        "reason": "first",
        "state": "firing",
        "incidents": [
            {
                "id": incident.public_id,
                "title": "Down",
                "url": "https://pharos.example/incidents/i?s=1.secret",
            }
        ],
        "url": "https://pharos.example/incidents/i?s=1.secret",
        "acknowledge_url": "https://pharos.example/incidents/i?s=1.secret",
        "created_at": format_time(now),
    }
    row = {"status": "sent", "sent_at": now, "attempts": 1, **_place(tenant)}
    notification = Notification(
        public_id=message["id"],
        account_id=tenant.account.id,
        group_id=group.id,
        channel_id=channel.id,
        recipient=channel.name,
        created_at=now,
        content=json.dumps(message, separators=(",", ":")),
        title="Heartbeat nightly is down",
        next_attempt_at=now,
        **{**row, **values},
    )
    session.add(notification)
    await session.flush()
    session.add(NotificationAttempt(notification_id=notification.id, at=now, took_ms=12, outcome="sent"))
    return notification


def _project(tenant: Tenant) -> dict[str, int]:
    return {"project_id": tenant.projects["shop"].id}


def _place(tenant: Tenant) -> dict[str, int]:
    return {**_project(tenant), "environment_id": tenant.environment("shop/production").id}
