"""Events become incidents with their deployment, and reach the right recipients, on SQLite and on Postgres."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, select

from control_domain.accounts.operations import create_account, create_person
from control_domain.database.engine import Sessions
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import AlertEvent, AlertIncident, NotificationMember
from notifications.incidents import process_events as module
from notifications.incidents.process_events import IncidentWorker
from pipeline_contracts.rate_limits import RateLimit
from tests.support.notified import Notified, make_notified

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
async def notified(sessions: Sessions) -> Notified:
    return await make_notified(sessions, NOW)


async def _incidents(notified: Notified) -> list[AlertIncident]:
    async with notified.sessions() as session:
        return list(await session.scalars(select(AlertIncident).order_by(AlertIncident.id)))


def _event(
    notified: Notified, kind: str, subject: str, state: str, *, facts: str = "{}", number: int | None = None
) -> AlertEvent:
    return AlertEvent(
        id=number,
        account_id=notified.acme.account.id,
        project_id=notified.acme.project.id,
        environment_id=notified.acme.environment.id,
        kind=kind,
        subject=subject,
        state=state,
        at_ms=0,
        facts=facts,
    )


async def _write_events(notified: Notified, events: Sequence[tuple[str, str, str]]) -> None:
    async with notified.sessions() as session, session.begin():
        for each in events:
            session.add(_event(notified, *each))
            await session.flush()


async def test_owners_get_e_mail_until_there_is_a_rule(notified: Notified) -> None:
    async with notified.sessions() as session, session.begin():
        account = await session.get_one(Account, notified.acme.account.id)
        owner = await create_person(session, account, "Ada", "ada@example.com", "owner", NOW)
        # A relay would permanently refuse messages to the owner of a first account.
        await create_person(session, account, "Owner", "owner@localhost", "owner", NOW)
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(60)
    assert await notified.messages() == []

    notified.has_email = True
    await notified.emit("heartbeat.down", "2", "firing")
    await notified.advance(60)
    [(row, message)] = await notified.messages()
    assert (row.recipient, row.person_id, row.channel_id) == ("ada@example.com", owner.id, None)
    assert (message.reason, message.firing, message.environment) == ("first", 1, "production")

    await notified.add_rule("none", [], enabled=False)
    await notified.emit("queue.size", "3", "firing")
    await notified.advance(600)
    assert [row.recipient for row, _ in await notified.messages()] == ["ada@example.com"]


async def test_an_incident_escalates_is_sent_again_and_asks_for_a_new_acknowledgement(
    notified: Notified,
) -> None:
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"], kinds=["heartbeat"])
    await notified.emit("heartbeat.late", "1", "firing")
    await notified.advance(60)
    await notified.acknowledge("heartbeat", "1")
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(600)
    await notified.emit("heartbeat.down", "1", "resolved")
    await notified.advance(600)
    messages = [message for _, message in await notified.messages()]
    assert [(each.reason, each.state, each.incidents[0].kind) for each in messages] == [
        ("first", "firing", "heartbeat.late"),
        ("change", "firing", "heartbeat.down"),
        ("change", "resolved", "heartbeat.down"),
    ]
    assert len({each.incidents[0].id for each in messages}) == 1
    assert len({each.group_id for each in messages}) == 1
    [incident] = await _incidents(notified)
    assert (incident.acknowledged_at, incident.open_key, incident.state) == (None, None, "resolved")
    # A new failure of the subject is another incident, and opens the group again.
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(600)
    again = (await notified.messages())[-1][1]
    assert again.reason == "first"
    assert again.incidents[0].id != messages[0].incidents[0].id
    assert again.group_id != messages[0].group_id


async def test_a_test_reaches_its_channel_at_once_and_no_rule(notified: Notified) -> None:
    tested, other = await notified.add_channel("tested"), await notified.add_channel("other")
    await notified.add_rule("all", [f"channel {other}"], kinds=["test", "heartbeat"])
    await notified.emit("test.message", f"{tested}", "info", {"channel_id": tested})
    [(row, message)] = await notified.messages()
    assert (row.channel_id, message.is_test, message.state) == (tested, True, "info")


async def test_an_event_that_cannot_be_processed_is_dropped_alone(
    notified: Notified, caplog: pytest.LogCaptureFixture
) -> None:
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    async with notified.sessions() as session, session.begin():
        for subject, facts in (("1", "{}"), ("2", "no JSON"), ("3", "{}")):
            session.add(_event(notified, "heartbeat.down", subject, "firing", facts=facts))
    await notified.work()
    assert [incident.subject for incident in await _incidents(notified)] == ["1", "3"]
    assert "alert event 2 is dropped" in caplog.text


async def test_owners_get_e_mail_again_once_the_only_channel_is_turned_off(notified: Notified) -> None:
    async with notified.sessions() as session, session.begin():
        account = await session.get_one(Account, notified.acme.account.id)
        await create_person(session, account, "Ada", "ada@example.com", "owner", NOW)
    notified.has_email = True
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(60)
    await notified.set_enabled(channel, False)
    await notified.emit("queue.size", "2", "firing")
    await notified.advance(60)
    assert [row.recipient for row, _ in await notified.messages()] == ["ops", "ada@example.com"]


async def test_reenabled_channel_gets_the_end_of_incidents_that_it_was_sent(
    notified: Notified,
) -> None:
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(60)
    await notified.set_enabled(channel, False)
    await notified.emit("heartbeat.down", "2", "firing")
    await notified.emit("heartbeat.down", "1", "resolved")
    await notified.advance(600)
    await notified.set_enabled(channel, True)
    await notified.advance(600)
    assert [message.state for _, message in await notified.messages()] == ["firing", "resolved"]


async def test_a_silence_of_everything_does_not_hold_the_test_of_a_channel(notified: Notified) -> None:
    channel = await notified.add_channel("ops")
    await notified.silence(None, 7200)
    await notified.emit("test.message", "1", "info", {"channel_id": channel})
    assert len(await notified.messages()) == 1


async def test_a_control_character_in_a_text_of_an_application_fails_no_message(notified: Notified) -> None:
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"], kinds=["exception"])
    await notified.emit("exception.new", "ab", "firing", {"exception": "Bad\0Error", "message": "\x1b[31mno"})
    await notified.advance(60)
    [(row, _)] = await notified.messages()
    assert "BadError" in row.title


async def test_an_end_and_a_new_failure_of_one_subject_are_one_batch(
    notified: Notified, caplog: pytest.LogCaptureFixture
) -> None:
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    await notified.emit("heartbeat.down", "1", "firing")
    await notified.advance(60)
    await _write_events(notified, [("heartbeat.down", "1", "resolved"), ("heartbeat.down", "1", "firing")])
    await notified.work()
    await notified.advance(600)
    assert caplog.text == ""
    assert [incident.open_key is None for incident in await _incidents(notified)] == [True, False]
    [_, (_, message)] = await notified.messages()
    assert sorted(each.state for each in message.incidents) == ["firing", "resolved"]


async def test_facts_of_a_source_do_not_collide_with_the_deployment_before(notified: Notified) -> None:
    """Sources have a separate deployment in their facts: the one that crashes, or the one whose status was refused."""
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    facts = {"process": "web", "deployment": 7, "restarts": 3}
    await notified.emit("process.crash_loop", "web", "firing", facts)
    await notified.advance(60)
    [(_, message)] = await notified.messages()
    [incident] = message.incidents
    assert (incident.deployment, incident.labels["deployment"]) == (None, "7")


async def test_the_dropped_event_is_the_one_that_failed(
    notified: Notified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another transaction commits an event with a lower number while the bad one fails."""
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    await _write_events(notified, [("heartbeat.down", "1", "firing"), ("test.message", "bad", "info")])
    async with notified.sessions() as session, session.begin():
        await session.execute(delete(AlertEvent).where(AlertEvent.subject == "1"))
    process, calls = IncidentWorker._process, []

    async def commit_meanwhile(*arguments: Any) -> int:
        calls.append(arguments)
        try:
            return await process(*arguments)
        finally:
            if len(calls) == 2:
                async with notified.sessions() as session, session.begin():
                    session.add(_event(notified, "heartbeat.down", "late commit", "firing", number=1))

    monkeypatch.setattr(IncidentWorker, "_process", commit_meanwhile)
    await notified.work()
    assert [incident.subject for incident in await _incidents(notified)] == ["late commit"]


async def test_a_flood_of_one_account_does_not_delay_another(
    notified: Notified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH", 3)
    async with notified.sessions() as session, session.begin():
        other = await create_account(session, "Other", "other", RateLimit(10, 20), NOW)
    await _write_events(notified, [("heartbeat.down", str(number), "firing") for number in range(30)])
    async with notified.sessions() as session, session.begin():
        late = _event(notified, "heartbeat.down", "late", "firing")
        late.account_id = other.id
        session.add(late)
    worker = notified.make_worker()
    assert [await worker.process_some(NOW) for _ in range(2)] == [3, 1]
    assert "late" in {incident.subject for incident in await _incidents(notified)}


async def test_contents_of_facts(notified: Notified) -> None:
    await notified.emit(
        "metric.value", "threshold 1", "firing", {"value": float("inf"), "metric": "m" * 5000}
    )
    [incident] = await _incidents(notified)
    assert json.loads(incident.facts) == {"value": None, "metric": "m" * 1000}


@pytest.mark.both_databases
async def test_two_workers_at_once_make_each_incident_once(
    notified: Notified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH", 7)
    channel = await notified.add_channel("ops")
    await notified.add_rule("all", [f"channel {channel}"])
    async with notified.sessions() as session, session.begin():
        session.add_all(
            AlertEvent(
                account_id=notified.acme.account.id,
                environment_id=notified.acme.environment.id,
                project_id=notified.acme.project.id,
                kind="heartbeat.down",
                # Each subject goes down and up again; the last event of the first five is a failure.
                subject=str(number % 5),
                state="resolved" if number % 10 >= 5 else "firing",
                at_ms=number,
                facts=json.dumps({"number": number}),
            )
            for number in range(35)
        )

    async def work() -> None:
        worker = notified.make_worker()
        while await worker.process_some(NOW + timedelta(minutes=1)):
            pass

    await asyncio.gather(work(), work(), work())
    incidents = await _incidents(notified)
    assert [incident.subject for incident in incidents if incident.open_key] == ["0", "1", "2", "3", "4"]
    assert len(incidents) == 20
    async with notified.sessions() as session:
        members = await session.scalar(select(func.count()).select_from(NotificationMember))
    assert members == 5
