"""Stored deliveries: their content, their retention and replays."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from control_domain.accounts.operations import Caller
from control_domain.audit import Actor
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from control_domain.tables.webhooks import WaitingPush, WebhookDelivery
from control_domain.webhooks import deliveries
from control_domain.webhooks.deliveries import RETENTION, Delivery, delete_old_deliveries, read_body
from control_domain.webhooks.replay_delivery import replay
from pipeline_contracts.errors import Conflict
from tests.support.serve_control import VARIABLE_KEYS
from tests.support.webhooks import WebhookRepository, WebhookRequest, pull, push

OPERATOR = Actor("operator kim")


async def _replay(webhook: WebhookRepository, number: int) -> WebhookDelivery:
    async with webhook.platform.sessions() as session, session.begin():
        original = await session.get_one(WebhookDelivery, number)
        acme = webhook.platform.acme
        caller = Caller(acme.account, acme.people["owner"], "owner", frozenset(), 1, None, None)
        replayed = await replay(session, VARIABLE_KEYS, original, caller, OPERATOR, datetime.now(UTC))
    return replayed.delivery


async def _age(webhook: WebhookRepository, age: timedelta) -> None:
    async with webhook.platform.sessions() as session, session.begin():
        await session.execute(update(WebhookDelivery).values(received_at=datetime.now(UTC) - age))


async def _reset(webhook: WebhookRepository) -> None:
    await webhook.platform.settle()
    async with webhook.platform.sessions() as session, session.begin():
        await session.execute(delete(WaitingPush))


async def _list_pushed(webhook: WebhookRepository) -> int:
    async with webhook.platform.sessions() as session:
        return len((await session.execute(select(Deployment.id).where(Deployment.trigger == "push"))).all())


async def test_a_delivery_is_stored_without_its_secrets(webhook: WebhookRepository) -> None:
    sent = push(webhook.kind)
    other = {"Authorization": "Basic c2VjcmV0", "Cookie": "a=secret", "X-Forwarded-For": "192.0.2.1"}
    await webhook.deliver(sent, "one", headers=other)
    (kept,) = await webhook.deliveries()
    assert (read_body(kept), kept.event, kept.delivery) == (sent.body, sent.event, "one")
    headers = json.loads(kept.headers)
    assert headers["x-forwarded-for"] == ["192.0.2.1"]
    assert headers["authorization"] == headers["cookie"] == ["[redacted]"]
    signatures = {name for name in headers if "signature" in name}
    assert signatures and all(headers[name] == ["[redacted]"] for name in signatures)
    assert "c2VjcmV0" not in kept.headers


def test_a_long_event_name_is_truncated() -> None:
    row = Delivery(1, "github", "e" * 300, {}, b"{}").to_row(datetime.now(UTC))
    assert WebhookDelivery(**row).event == "e" * WebhookDelivery.__table__.c.event.type.length


@pytest.mark.both_databases
async def test_a_delivery_is_accepted_again_after_seven_days(webhook: WebhookRepository) -> None:
    sent = push(webhook.kind)
    await webhook.deliver(sent, "one")
    await _reset(webhook)
    await _age(webhook, RETENTION - timedelta(minutes=1))
    assert await webhook.deliver_status(sent, "one") == (200, "duplicate")
    await _age(webhook, RETENTION + timedelta(minutes=1))
    assert await webhook.deliver_status(sent, "one") == (202, "queued")
    assert len(await webhook.deliveries()) == 1


@pytest.mark.both_databases
async def test_deliveries_are_deleted_after_seven_days(webhook: WebhookRepository) -> None:
    await webhook.deliver(push(webhook.kind))
    await _age(webhook, RETENTION + timedelta(minutes=1))
    await webhook.deliver(push(webhook.kind, "feature"))
    async with webhook.platform.sessions() as session, session.begin():
        await delete_old_deliveries(session, datetime.now(UTC))
    (kept,) = await webhook.deliveries()
    assert kept.answer == "ignored"


@pytest.mark.both_databases
async def test_only_the_newest_unrelated_deliveries_are_kept(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MAX_UNRELATED_DELIVERIES", 3)
    await github.deliver(push("github", "feature"), "own")
    for number in range(5):
        sent = push("github", full_name="Acme/Till", host_id=2)
        assert await github.deliver_status(sent, f"other {number}") == (200, "ignored")
    async with github.platform.sessions() as session, session.begin():
        await delete_old_deliveries(session, datetime.now(UTC))
    kept = [row.delivery for row in await github.deliveries()]
    assert kept == ["own", "other 2", "other 3", "other 4"]


async def test_without_an_id_equal_bodies_are_duplicates(github: WebhookRepository) -> None:
    without: dict[str, str | None] = {"X-GitHub-Delivery": None}
    answers = [await github.deliver(push("github"), headers=without) for _ in range(2)]
    assert [answer.json()["status"] for answer in answers] == ["queued", "duplicate"]
    other = await github.deliver(push("github", after="b" * 40), headers=without)
    assert other.json()["status"] == "waiting"


async def test_delivery_ids_are_separate_per_repository(github: WebhookRepository) -> None:
    await github.deliver(push("github", "feature"), "one")
    async with github.platform.sessions() as session, session.begin():
        await session.execute(update(WebhookDelivery).values(scope="another"))
    assert await github.deliver_status(push("github", "feature"), "one") == (200, "ignored")


async def test_refused_deliveries_are_stored_with_the_reason(webhook: WebhookRepository) -> None:
    sent = WebhookRequest(push(webhook.kind).event, b"no JSON")
    assert (await webhook.deliver_status(sent, "one"))[0] == 422
    assert (await webhook.deliver_status(sent, "one"))[0] == 422
    first, second = await webhook.deliveries()
    assert (first.http_status, first.answer, first.is_first) == (422, "payload-not-usable", False)
    assert first.reason and second.reason
    assert read_body(second) == b"no JSON"


@pytest.mark.both_databases
async def test_a_delivery_is_replayed(webhook: WebhookRepository) -> None:
    await webhook.deliver(push(webhook.kind), "one")
    (kept,) = await webhook.deliveries()
    await _reset(webhook)
    again = await _replay(webhook, kept.id)
    assert (again.answer, again.http_status, again.replay_of) == ("queued", 202, kept.id)
    assert await _list_pushed(webhook) == 2
    # A replay does not count: a redelivery by the host is still a duplicate of the original.
    assert await webhook.deliver_status(push(webhook.kind), "one") == (200, "duplicate")
    # The deployment of this push has not begun.
    third = await _replay(webhook, again.id)
    assert (third.answer, third.deployment_id, third.replay_of) == ("queued", again.deployment_id, again.id)
    assert await _list_pushed(webhook) == 2
    async with webhook.platform.sessions() as session:
        query = select(AuditEntry).where(AuditEntry.action == "webhook.replay").order_by(AuditEntry.id)
        entry = (await session.execute(query)).scalars().first()
    assert entry is not None
    assert (entry.source, entry.account_id) == ("operator kim", webhook.platform.acme.account.id)


async def test_a_refused_delivery_is_replayed_once_possible(webhook: WebhookRepository) -> None:
    await webhook.platform.change("shop/production", state="hibernated")
    await webhook.deliver(push(webhook.kind))
    (kept,) = await webhook.deliveries()
    with pytest.raises(Conflict, match="hibernated"):
        await _replay(webhook, kept.id)
    assert len(await webhook.deliveries()) == 1
    await webhook.platform.change("shop/production", state="running")
    assert (await _replay(webhook, kept.id)).answer == "queued"


async def test_a_closed_pull_request_is_replayed(webhook: WebhookRepository) -> None:
    for action in ("opened", "closed"):
        await webhook.deliver(pull(webhook.kind, action))
    opened, closed = await webhook.deliveries()
    assert (await _replay(webhook, opened.id)).answer == "preview_queued"
    assert (await _replay(webhook, closed.id)).answer == "preview_closed"


@pytest.mark.parametrize("values", [{"push_deploys": False}, {"disconnected_at": datetime.now(UTC)}])
async def test_no_replay_for_a_disconnected_repository(
    github: WebhookRepository, values: dict[str, Any]
) -> None:
    await github.deliver(push("github"))
    (kept,) = await github.deliveries()
    await github.change(**values)
    with pytest.raises(Conflict, match="turned off"):
        await _replay(github, kept.id)
