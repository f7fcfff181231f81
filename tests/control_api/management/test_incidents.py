"""Incidents, silences and sent notifications: who sees them, and the operations on them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from control_api.management.incident_targets import find_target
from control_domain.tables.notifications import AlertIncident, Notification, NotificationGroup
from pipeline_contracts.times import format_time
from tests.control_api.management.conftest import Api
from tests.support.notification_rows import add_channel, add_incident, add_notification

_LISTS = ("/v1/incidents", "/v1/notifications", "/v1/silences")


async def _add(api: Api, **values: Any) -> AlertIncident:
    async with api.platform.sessions() as session, session.begin():
        return await add_incident(session, api.platform.acme, datetime.now(UTC), **values)


async def _add_of_platform(api: Api) -> AlertIncident:
    async with api.platform.sessions() as session, session.begin():
        now, acme = datetime.now(UTC), api.platform.acme
        of_platform = {"project_id": None, "environment_id": None}
        incident = await add_incident(
            session, acme, now, "disk", open_key="disk", kind="platform.disk", **of_platform
        )
        channel = await add_channel(session, acme, "platform", now)
        await add_notification(session, acme, incident, channel, now, **of_platform)
        return incident


async def test_only_people_with_a_role_learn_of_incidents(monitored: Api) -> None:
    platform_incident = await _add_of_platform(monitored)
    number = monitored.platform.acme.notified["incident"]
    for path in _LISTS:
        counts = {by: len(await monitored.read(path, by=by)) for by in ("owner", "viewer", "stranger")}
        of_owner = 1 if path == "/v1/silences" else 2
        assert counts == {"owner": of_owner, "viewer": 1, "stranger": 0}, path
    path = f"/v1/incidents/{platform_incident.public_id}"
    await monitored.expect((403, "not-allowed"), "GET", path, by="viewer")
    await monitored.expect((403, "not-allowed"), "POST", f"{path}/acknowledge", by="maintainer")
    filters = f"/v1/notifications?incident={number}"
    assert len(await monitored.read(filters, by="viewer")) == 1
    await monitored.expect((403, "deploy-not-allowed"), "GET", filters, by="stranger")


async def test_filters(monitored: Api) -> None:
    blog = monitored.platform.acme.environment("blog/production")
    late = await _add(monitored, subject="2", kind="heartbeat.late", acknowledged_at=datetime.now(UTC))
    ended = await _add(
        monitored, subject="3", kind="queue.size", open_key=None, state="resolved", environment_id=blog.id
    )
    await _add(monitored, subject="4", kind="test.message", open_key=None, state="info")
    first = monitored.platform.acme.notified["incident"]

    async def numbers(query: str) -> list[int]:
        return [each["number"] for each in await monitored.read(f"/v1/incidents?{query}")]

    assert await numbers("limit=10") == [ended.id, late.id, first]
    assert await numbers("state=firing") == [late.id, first]
    assert await numbers("state=acknowledged") == [late.id]
    assert await numbers("state=resolved") == [ended.id]
    assert await numbers("kind=heartbeat") == [late.id, first]
    assert await numbers("kind=heartbeat.late") == [late.id]
    assert await numbers(f"environment={blog.public_id}") == [ended.id]
    assert len(await numbers("kind=test")) == 1
    assert await numbers("kind=heartbeat&subject=2") == [late.id]


def test_subjects_of_incidents() -> None:
    for kind, subject, facts, target in (
        ("heartbeat.down", "12", {}, ("heartbeat", "12")),
        ("queue.worker_lost", "4 w", {"queue_id": 4}, ("queue", "4")),
        ("queue.size", "threshold 3", {"target": "mail"}, None),
        ("deployment.failed", "environment", {"number": 7}, ("deployment", "7")),
        ("exception.new", "x", {"group": "00ff"}, ("exception", "00ff")),
        ("service.latency", "threshold 1", {"target": "web"}, ("service", "web")),
        ("site.silence", "silence 2", {"site_id": 2}, ("site", "2")),
        ("platform.disk", "disk", {"number": 1}, None),
        # Facts of an unknown version.
        ("deployment.failed", "environment", {"number": None}, None),
        ("deployment.failed", "environment", {"number": True}, None),
    ):
        found = find_target(AlertIncident(kind=kind, subject=subject, facts=json.dumps(facts)))
        assert (found and (found["type"], found["id"])) == target, kind


async def test_an_incident_in_words(monitored: Api) -> None:
    number = monitored.platform.acme.notified["incident"]
    read = await monitored.read(f"/v1/incidents/{number}", by="viewer")
    assert "nightly 1" in read["title"]
    assert [each["number"] for each in read["notifications"]] == [
        monitored.platform.acme.notified["notification"]
    ]
    assert read["project"]["slug"] == "shop"
    # The silence of the fixture.
    listed = {each["number"]: each for each in await monitored.read("/v1/incidents")}
    assert read["silenced_until"] == listed[number]["silenced_until"] is not None
    facts = {"heartbeat": "nightly 2", "failures_in_row": 0, "before_end": {"failures_in_row": 3}}
    ended = await _add(monitored, subject="h2", open_key=None, state="resolved", facts=json.dumps(facts))
    read = await monitored.read(f"/v1/incidents/{ended.id}")
    # The description of the fault stays readable after the end.
    assert (read["title"], read["silenced_until"]) == ("Heartbeat nightly 2 is down", None)
    assert [(each["name"], each["value"]) for each in read["figures"]] == [("failures in a row", 3.0)]


@pytest.mark.both_databases
async def test_acknowledging_a_group(monitored: Api) -> None:
    """One click acknowledges all open incidents of the same project, environment and family, and no others."""
    first = monitored.platform.acme.notified["incident"]
    same = [(await _add(monitored, subject=f"h{n}", kind="heartbeat.late")).id for n in range(3)]
    elsewhere = monitored.platform.acme.environment("shop/staging").id
    others = [
        (await _add(monitored, subject="q", open_key="q", kind="queue.size")).id,
        (await _add(monitored, subject="s", open_key="s", environment_id=elsewhere)).id,
        (await _add(monitored, subject="e", open_key=None, state="resolved")).id,
        monitored.platform.other.notified["incident"],
    ]
    one = await monitored.call("POST", f"/v1/incidents/{first}/acknowledge", by="deployer")
    assert one.data["incidents"] == 1
    assert one.data["acknowledged_by"]["email"] == "deployer@acme.example"
    again = await monitored.call("POST", f"/v1/incidents/{first}/acknowledge")
    assert (again.data["incidents"], again.data["acknowledged_by"]["email"]) == (0, "deployer@acme.example")
    group = await monitored.call("POST", f"/v1/incidents/{first}/acknowledge", {"group": True})
    assert group.data["incidents"] == 3
    async with monitored.platform.sessions() as session:
        rows = (await session.execute(select(AlertIncident.id, AlertIncident.acknowledged_at))).all()
    acknowledged = {number for number, at in rows if at is not None}
    assert acknowledged == {first, *same} and not acknowledged & {*others}
    assert (await monitored.audit(1))[0][0] == "incident.acknowledge"


async def test_silencing_an_incident(monitored: Api) -> None:
    acme = monitored.platform.acme
    incident = await _add(
        monitored, subject="9", environment_id=acme.environment("shop/staging").id, open_key="9"
    )
    path = f"/v1/incidents/{incident.id}"
    one = await monitored.call("POST", f"{path}/silence", {"seconds": 3600, "reason": "known"}, by="deployer")
    assert one.status == 201
    assert (one.data["incident"], one.data["kinds"], one.data["state"]) == (
        incident.public_id,
        None,
        "active",
    )
    until = format_time(datetime.now(UTC) + timedelta(days=2))
    group = await monitored.call("POST", f"{path}/silence", {"until": until, "group": True})
    assert (group.data["incident"], group.data["kinds"]) == (None, ["heartbeat"])
    assert group.data["environment"]["slug"] == "staging"
    assert (await monitored.read(path))["silenced_until"] == until
    for body, fields in (
        ({}, ["seconds"]),
        ({"seconds": 60, "until": until}, ["seconds"]),
        ({"seconds": 1}, ["seconds"]),
        ({"until": format_time(datetime.now(UTC) + timedelta(days=91))}, ["ends_at"]),
    ):
        refused = await monitored.expect((422, "validation-failed"), "POST", f"{path}/silence", body)
        assert refused.fields == fields
    ended = await _add(monitored, subject="e", open_key=None, state="resolved")
    body = {"seconds": 3600}
    await monitored.expect((409, "conflict"), "POST", f"/v1/incidents/{ended.id}/silence", body)
    await monitored.expect((403, "deploy-not-allowed"), "POST", f"{path}/silence", body, by="viewer")


async def test_silences_always_have_an_end(monitored: Api) -> None:
    acme, now = monitored.platform.acme, datetime.now(UTC)
    shop, staging = acme.projects["shop"].public_id, acme.environment("shop/staging").public_id
    hour, far = format_time(now + timedelta(hours=1)), format_time(now + timedelta(days=91))
    blog = acme.projects["blog"].public_id
    for body, fields in (
        ({}, ["ends_at"]),
        ({"ends_at": far}, ["ends_at"]),
        ({"ends_at": format_time(now - timedelta(hours=1))}, ["ends_at"]),
        ({"ends_at": hour, "starts_at": far}, ["starts_at"]),
        ({"ends_at": hour, "kinds": ["nothing"]}, ["kinds[0]"]),
        ({"ends_at": hour, "reason": "a\nb"}, ["reason"]),
        ({"ends_at": hour, "project": blog, "environment": staging}, ["environment"]),
    ):
        refused = await monitored.expect((422, "validation-failed"), "POST", "/v1/silences", body)
        assert refused.fields == fields, body
    await monitored.expect((403, "not-allowed"), "POST", "/v1/silences", {"ends_at": hour}, by="maintainer")
    body = {"ends_at": hour, "project": shop}
    await monitored.expect((403, "deploy-not-allowed"), "POST", "/v1/silences", body, by="viewer")
    made = await monitored.call(
        "POST", "/v1/silences", {"ends_at": hour, "environment": staging}, by="deployer"
    )
    assert (made.data["project"]["slug"], made.data["environment"]["slug"]) == ("shop", "staging")
    later = {"ends_at": hour, "starts_at": format_time(now + timedelta(minutes=30)), "project": shop}
    waiting = await monitored.call("POST", "/v1/silences", later)
    assert waiting.data["state"] == "waiting"
    for number in (made.data["id"], waiting.data["id"]):
        assert (await monitored.call("DELETE", f"/v1/silences/{number}")).status == 200
    await monitored.expect((409, "conflict"), "DELETE", f"/v1/silences/{made.data['id']}")
    await monitored.expect((404, "not-found"), "DELETE", f"/v1/silences/{waiting.data['id']}")


async def test_the_end_of_a_silence_wakes_its_groups(monitored: Api) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with monitored.platform.sessions() as session, session.begin():
        await session.execute(update(NotificationGroup).values(due_at=later))
    number = monitored.platform.acme.notified["silence"]
    ended = await monitored.call("DELETE", f"/v1/silences/{number}", by="deployer")
    assert ended.data["state"] == "ended"
    async with monitored.platform.sessions() as session:
        rows = await session.execute(select(NotificationGroup.account_id, NotificationGroup.due_at))
        due = {row.account_id: row.due_at for row in rows}
    assert due[monitored.platform.acme.account.id] < later
    assert due[monitored.platform.other.account.id] == later


async def test_content_has_no_links_that_work_without_a_token(monitored: Api) -> None:
    number = monitored.platform.acme.notified["notification"]
    read = await monitored.call("GET", f"/v1/notifications/{number}", by="viewer")
    assert b"secret" not in read.body
    assert read.data["content"]["incidents"][0]["title"] == "Down"
    assert [each["outcome"] for each in read.data["deliveries"]] == ["sent"]


async def test_sending_again(monitored: Api) -> None:
    path = f"/v1/notifications/{monitored.platform.acme.notified['notification']}"
    before = await monitored.read(path)
    await monitored.expect((403, "deploy-not-allowed"), "POST", f"{path}/resend", by="viewer")
    again = await monitored.call("POST", f"{path}/resend", by="deployer")
    assert (again.data["status"], again.data["id"], again.data["attempts"]) == ("pending", before["id"], 0)
    await monitored.expect((409, "conflict"), "POST", f"{path}/resend")
    async with monitored.platform.sessions() as session:
        row = await session.get_one(Notification, before["number"])
    assert row.requested_at is not None and row.leased_until is None
    assert (await monitored.audit(1))[0] == ("notification.resend", f"notification {before['id']}")


async def test_ended_incident_is_not_sent_again(monitored: Api) -> None:
    """Otherwise the receiver would open an alert that never ends."""
    number = monitored.platform.acme.notified["notification"]
    path = f"/v1/notifications/{number}/resend"
    async with monitored.platform.sessions() as session, session.begin():
        await session.execute(update(AlertIncident).values(state="resolved", open_key=None))
    refused = await monitored.expect((409, "conflict"), "POST", path, by="deployer")
    assert "have ended" in refused.json()["detail"]
    # The message of the end may be sent again.
    async with monitored.platform.sessions() as session, session.begin():
        row = await session.get_one(Notification, number)
        row.content = row.content.replace('"state":"firing"', '"state":"resolved"')
    await monitored.call("POST", path, by="deployer")


async def test_quiet_hours_of_a_person(monitored: Api) -> None:
    path = "/v1/me/notification-preferences"
    hours = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "days": ["monday", "friday"]}
    assert await monitored.read(path, by="stranger") == {"quiet_hours": None}
    for value in (hours, hours, None):
        answer = await monitored.call("PUT", path, {"quiet_hours": value}, by="stranger")
        assert answer.data == await monitored.read(path, by="stranger") == {"quiet_hours": value}
    assert await monitored.read(path) == {"quiet_hours": None}
    assert [action for action, _ in await monitored.audit(2)] == ["person.quiet-hours"] * 2
    for value, field in (
        ({**hours, "from": "7:00"}, "quiet_hours.from"),
        ({**hours, "timezone": "Nowhere"}, "quiet_hours.timezone"),
        ({**hours, "days": ["mon"]}, "quiet_hours.days[0]"),
    ):
        refused = await monitored.expect((422, "validation-failed"), "PUT", path, {"quiet_hours": value})
        assert refused.fields == [field]


async def test_kinds_are_listed_without_that_of_tests(shared_api: Api) -> None:
    kinds = await shared_api.read("/v1/alert-kinds", by="stranger")
    assert {"heartbeat.down", "platform.disk"} <= {kind["name"] for kind in kinds}
    assert "test.message" not in {kind["name"] for kind in kinds}
