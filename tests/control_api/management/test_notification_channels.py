"""Notification channels: secrets are never returned, and removal of a channel is complete."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.audit import Actor, record_audit_entry
from control_domain.notifications.channel_destination import change_destination
from control_domain.notifications.channel_secrets import open_secrets
from control_domain.notifications.channel_tests import MAX_TESTS_A_DAY
from control_domain.notifications.channel_types import CHANNEL_TYPES
from control_domain.notifications.limits import MAX_CHANNELS
from control_domain.sealing import CannotOpen
from control_domain.tables.audit import AuditEntry
from control_domain.tables.notifications import (
    AlertEvent,
    Notification,
    NotificationAttempt,
    NotificationChannel,
    NotificationGroup,
    NotificationRule,
)
from pipeline_contracts.alert_kinds import ALERT_KINDS
from tests.control_api.management.conftest import Api
from tests.support.notification_rows import add_channel
from tests.support.serve_control import VARIABLE_KEYS

_PATH = "/v1/notification-channels"
_WEBHOOK = {"name": "hooks", "type": "webhook", "settings": {"url": "https://hooks.example/in"}}
_TOPIC = {"name": "phones", "type": "ntfy", "secrets": {"topic": "a-secret-topic", "token": "tk_secret"}}


async def _secrets(api: Api, number: int) -> dict[str, str]:
    async with api.platform.sessions() as session:
        return open_secrets(await session.get_one(NotificationChannel, number), VARIABLE_KEYS)


async def test_signing_secret_is_shown_once(api: Api) -> None:
    made = (await api.call("POST", _PATH, _WEBHOOK)).data
    secret = made["signing_secret"]
    assert secret.startswith("whsec_") and made["has_secrets"] == ["signing_secret"]
    assert await _secrets(api, made["number"]) == {"signing_secret": secret}
    read = await api.call("GET", f"{_PATH}/{made['id']}")
    assert read.data == {name: value for name, value in made.items() if name != "signing_secret"}
    assert read.data["settings"] == _WEBHOOK["settings"]
    # Changing the URL needs no other field, and keeps the secret, which is never returned.
    moved = await api.call("PATCH", f"{_PATH}/{made['id']}", {"settings": {"url": "https://b.example/in"}})
    assert moved.data["settings"] == {"url": "https://b.example/in"}
    assert await _secrets(api, made["number"]) == {"signing_secret": secret}


async def test_secrets_are_never_returned(api: Api) -> None:
    made = await api.call("POST", _PATH, _TOPIC)
    path = f"{_PATH}/{made.data['number']}"
    patched = await api.call("PATCH", path, {"secrets": {"token": "tk_other"}})
    assert await _secrets(api, made.data["number"]) == {"topic": "a-secret-topic", "token": "tk_other"}
    cleared = await api.call("PATCH", path, {"secrets": {"token": ""}})
    assert cleared.data["has_secrets"] == ["topic"]
    refused = await api.call("PATCH", path, {"secrets": {"topic": ""}})
    assert refused.fields == ["secrets.topic"]
    answers = [made, patched, cleared, refused, await api.call("GET", path), await api.call("GET", _PATH)]
    audit = await api.call("GET", "/v1/audit")
    for answer in (*answers, audit):
        assert b"secret-topic" not in answer.body and b"tk_" not in answer.body
    assert await api.audit(3) == [
        ("notification-channel.set", f"notification-channel {made.data['id']}"),
        ("notification-channel.set", f"notification-channel {made.data['id']}"),
        ("notification-channel.create", f"notification-channel {made.data['id']}"),
    ]


async def test_secrets_are_not_sent_to_another_server(api: Api) -> None:
    """A person who may change a channel must not be able to send its secrets to another server."""
    token = {"bot_token": f"1234:{'a' * 35}"}
    for made, moved, needed in (
        (_TOPIC, {"server": "https://other.example"}, {"topic": "again", "token": ""}),
        (_TOPIC, {"server": "http://ntfy.sh"}, {"topic": "again", "token": "tk_again"}),
        (
            {**_WEBHOOK, "secrets": {"authorization": "Bearer x"}},
            {"url": "https://hooks.example:8443/in"},
            {"authorization": "Bearer x"},
        ),
        (
            {
                "type": "telegram",
                "settings": {"chat_id": "1", "api_url": "https://b.example"},
                "secrets": token,
            },
            {"api_url": ""},
            token,
        ),
        (
            {"type": "pagerduty", "secrets": {"routing_key": "a" * 32}},
            {"url": "https://events.eu.pagerduty.com/v2/enqueue"},
            {"routing_key": "b" * 32},
        ),
    ):
        channel = (await api.call("POST", _PATH, {**made, "name": "moved"})).data
        path = f"{_PATH}/{channel['id']}"
        before = await _secrets(api, channel["number"])
        refused = await api.expect((422, "validation-failed"), "PATCH", path, {"settings": moved})
        assert refused.fields == [f"secrets.{name}" for name in sorted(needed)]
        assert (await api.read(path))["settings"] == channel["settings"]
        accepted = await api.call("PATCH", path, {"settings": moved, "secrets": needed})
        assert accepted.status == 200
        expected = {name: value for name, value in {**before, **needed}.items() if value}
        assert await _secrets(api, channel["number"]) == expected
        await api.call("DELETE", path)
    # Another path on the same server needs no new secrets.
    channel = (await api.call("POST", _PATH, {**_TOPIC, "settings": {"server": "https://a.example"}})).data
    same = {"settings": {"server": "https://A.example:443/ntfy"}}
    assert (await api.call("PATCH", f"{_PATH}/{channel['id']}", same)).status == 200


async def test_channel_with_a_lost_key_is_repaired(api: Api) -> None:
    channel = (await api.call("POST", _PATH, _TOPIC)).data
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(NotificationChannel).values(sealing_key_id="lost"))
        row = await session.get_one(NotificationChannel, channel["number"])
        # One secret is not enough: the others may be needed later.
        for settings, secrets in (({"server": "https://b.example"}, {}), ({}, {"token": "tk_new"})):
            with pytest.raises(CannotOpen):
                change_destination(row, settings, secrets, VARIABLE_KEYS)
    repaired = await api.call("PATCH", f"{_PATH}/{channel['id']}", {"secrets": {"topic": "again"}})
    assert repaired.data["has_secrets"] == ["topic"]
    assert await _secrets(api, channel["number"]) == {"topic": "again"}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": "  "}, ["name"]),
        ({"type": "fax"}, ["type"]),
        ({"settings": {"address": "nobody"}}, ["settings.address"]),
        ({"settings": {}}, ["settings.address"]),
        ({"settings": {"address": "a@x.example", "port": "1"}}, ["settings.port"]),
        ({"secrets": {"url": "https://x.example"}}, ["secrets.url"]),
        ({"quiet_hours": {"from": "25:00", "to": "07:00"}}, ["quiet_hours.from"]),
        ({"quiet_hours": {"from": "22:00", "to": "07:00", "timezone": "Mars"}}, ["quiet_hours.timezone"]),
        ({"type": "apprise", "settings": {}, "secrets": {"url": "matrix://x"}}, ["type"]),
    ],
)
async def test_refused_channels(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    shared_api.platform.app.state.unavailable_channels = {"apprise": "Set PHAROS_APPRISE=1."}
    whole = {"name": "mail", "type": "email", "settings": {"address": "a@x.example"}, **body}
    refused = await shared_api.expect((422, "validation-failed"), "POST", _PATH, whole)
    assert refused.fields == fields


async def test_names_and_numbers_are_limited(api: Api) -> None:
    async with api.platform.sessions() as session, session.begin():
        for number in range(MAX_CHANNELS - 1):
            await add_channel(session, api.platform.acme, f"c{number}", datetime.now(UTC))
    assert (await api.call("POST", _PATH, _WEBHOOK)).status == 201
    await api.expect((409, "conflict"), "POST", _PATH, {**_WEBHOOK, "name": "one more"})
    await api.expect((409, "name-taken"), "PATCH", f"{_PATH}/1", {"name": "hooks"})


async def test_members_see_names_only(monitored: Api) -> None:
    number = monitored.platform.acme.notified["channel"]
    for document in (
        await monitored.read(f"{_PATH}/{number}", by="stranger"),
        (await monitored.read(_PATH, by="stranger"))[0],
    ):
        assert document["name"] == "ops"
        assert document["settings"] is document["has_secrets"] is document["last_error"] is None


async def test_errors_of_deliveries_are_for_managers(monitored: Api) -> None:
    """Errors name the server of a channel, and quote its response."""
    notified = monitored.platform.acme.notified
    async with monitored.platform.sessions() as session, session.begin():
        await session.execute(update(Notification).values(last_error="hooks.internal: secret"))
        await session.execute(update(NotificationAttempt).values(error="hooks.internal: secret"))
    paths = (
        "/v1/notifications",
        f"/v1/notifications/{notified['notification']}",
        f"/v1/incidents/{notified['incident']}",
    )
    for person, is_shown in (("admin", True), ("maintainer", False), ("viewer", False)):
        for path in paths:
            answer = await monitored.call("GET", path, by=person)
            assert answer.status == 200
            assert (b"hooks.internal" in answer.body) is is_shown, (person, path)


async def test_test_notification_uses_the_normal_path(monitored: Api) -> None:
    number = monitored.platform.acme.notified["channel"]
    started = await monitored.call("POST", f"{_PATH}/{number}/test")
    assert started.status == 202
    assert started.data["notifications"].startswith(
        f"/api/v1/notifications?channel={started.data['channel']}"
    )
    async with monitored.platform.sessions() as session:
        event = (await session.scalars(select(AlertEvent))).one()
    assert (ALERT_KINDS[event.kind].family, event.state) == ("test", "info")
    assert json.loads(event.facts)["channel_id"] == number
    assert (await monitored.read(started.data["notifications"].removeprefix("/api"))) == []
    refused = await monitored.expect((409, "conflict"), "POST", f"{_PATH}/{number}/test")
    assert "less than 30 s ago" in refused.json()["detail"]
    await monitored.call("PATCH", f"{_PATH}/{number}", {"enabled": False})
    refused = await monitored.expect((409, "conflict"), "POST", f"{_PATH}/{number}/test")
    assert "turned off" in refused.json()["detail"]


async def test_tests_of_a_day_are_limited(monitored: Api) -> None:
    """Creating a channel for each test must not flood an address either."""
    acme, now = monitored.platform.acme, datetime.now(UTC)
    path = f"{_PATH}/{acme.notified['channel']}/test"
    async with monitored.platform.sessions() as session, session.begin():
        for number in range(MAX_TESTS_A_DAY):
            at = now - timedelta(hours=23)
            record_audit_entry(
                session, Actor("1.2.3.4"), acme.account.id, "notification-channel.test", f"c {number}", at
            )
    refused = await monitored.expect((409, "conflict"), "POST", path)
    assert "within a day" in refused.json()["detail"]
    async with monitored.platform.sessions() as session, session.begin():
        await session.execute(update(AuditEntry).values(at=now - timedelta(days=1)))
    assert (await monitored.call("POST", path)).status == 202


async def test_another_test_replaces_one_that_waits_for_a_retry(monitored: Api) -> None:
    """People test again after they have corrected the channel."""
    notified, now = monitored.platform.acme.notified, datetime.now(UTC)
    path = f"{_PATH}/{notified['channel']}/test"
    async with monitored.platform.sessions() as session, session.begin():
        await session.execute(update(NotificationGroup).values(family="test"))
        await session.execute(update(Notification).values(status="pending", last_error="Connection refused."))
    # Tests long enough ago, and of a clock that was ahead, do not count.
    for tested_at in (now - timedelta(seconds=31), now + timedelta(hours=1)):
        async with monitored.platform.sessions() as session, session.begin():
            await session.execute(update(NotificationChannel).values(tested_at=tested_at))
        assert (await monitored.call("POST", path)).status == 202
    sent = await monitored.read(f"/v1/notifications/{notified['notification']}")
    assert (sent["status"], sent["last_error"]) == ("canceled", "Another test follows.")


@pytest.mark.both_databases
async def test_a_removed_channel_leaves_rules_and_history(monitored: Api) -> None:
    platform = monitored.platform
    notified = platform.acme.notified
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Notification).values(status="pending"))
    removed = await monitored.call("DELETE", f"{_PATH}/{notified['channel']}")
    assert removed.data["rules"] == 1
    assert (await monitored.read(f"/v1/notification-rules/{notified['rule']}"))["recipients"] == []
    sent = await monitored.read(f"/v1/notifications/{notified['notification']}")
    assert (sent["status"], sent["last_error"], sent["channel"]) == (
        "canceled",
        "The channel was removed.",
        None,
    )
    assert sent["recipient"] == "ops"
    resend = f"/v1/notifications/{notified['notification']}/resend"
    await monitored.expect((409, "conflict"), "POST", resend)
    async with platform.sessions() as session:
        groups = (await session.scalars(select(NotificationGroup.account_id))).all()
        assert groups == [platform.other.account.id]
        rules = (
            await session.execute(select(NotificationRule.account_id, NotificationRule.recipients))
        ).all()
        others = platform.other.notified["channel"]
        assert (platform.other.account.id, json.dumps([f"channel {others}"])) in [tuple(row) for row in rules]


async def test_quiet_hours_are_changed_and_cleared(monitored: Api) -> None:
    path = f"{_PATH}/{monitored.platform.acme.notified['channel']}"
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with monitored.platform.sessions() as session, session.begin():
        await session.execute(update(NotificationGroup).values(due_at=later))
    hours = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "days": None}
    assert (await monitored.call("PATCH", path, {"quiet_hours": hours})).data["quiet_hours"] == hours
    assert (await monitored.call("PATCH", path, {"name": "other"})).data["quiet_hours"] == hours
    assert (await monitored.call("PATCH", path, {"quiet_hours": None})).data["quiet_hours"] is None
    async with monitored.platform.sessions() as session:
        # The group worker checks the groups of this channel immediately, and those of no other channel.
        rows = await session.execute(select(NotificationGroup.account_id, NotificationGroup.due_at))
        due = {row.account_id: row.due_at for row in rows}
    assert due[monitored.platform.acme.account.id] != later
    assert due[monitored.platform.other.account.id] == later


async def test_types_of_channels(shared_api: Api) -> None:
    types = {
        each["name"]: each for each in await shared_api.read("/v1/notification-channel-types", by="stranger")
    }
    assert types.keys() == CHANNEL_TYPES.keys()
    fields = {each["name"]: each for each in types["ntfy"]["fields"]}
    assert (fields["server"]["secret"], fields["server"]["default"]) == (False, "https://ntfy.sh")
    assert (fields["topic"]["secret"], fields["topic"]["required"]) == (True, True)
    assert types["ntfy"]["unavailable"] is None


async def test_types_that_the_installation_cannot_send(
    shared_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {"email": "Set PHAROS_SMTP_URL."}
    monkeypatch.setattr(shared_api.platform.app.state, "unavailable_channels", reasons)
    types = await shared_api.read("/v1/notification-channel-types")
    assert [each["unavailable"] for each in types if each["name"] in ("email", "slack")] == [
        *reasons.values(),
        None,
    ]
