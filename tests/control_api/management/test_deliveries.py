"""Webhook deliveries, their replays, and waiting pushes."""

import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, IngestKey
from control_domain.tables.webhooks import WebhookDelivery
from control_workers.waiting_pushes import WaitingPushWorker
from pipeline_contracts.errors import StorageUnavailable
from tests.control_api.management.conftest import Api
from tests.support.webhooks import WebhookRepository, connect_webhook, pull, push


@pytest.fixture
async def webhook(api: Api) -> AsyncIterator[WebhookRepository]:
    yield await connect_webhook(api.platform, "github")


def _path(webhook: WebhookRepository, rest: str = "") -> str:
    return f"/v1/repositories/{webhook.repository_id}/deliveries{rest}"


async def test_list_and_read(api: Api, webhook: WebhookRepository) -> None:
    sent = push("github", message="blå øy")
    await webhook.deliver(sent, "one")
    await webhook.deliver(push("github", branch="unknown"), "two")
    await webhook.deliver(push("github", full_name="Acme/Other", host_id=9), "three")
    listed = await api.read_all(_path(webhook))
    assert [each["delivery"] for each in listed] == ["three", "two", "one"]
    newest = (await api.call("GET", f"{_path(webhook)}?limit=2")).json()
    await webhook.deliver(push("github", branch="unknown"), "four")
    rest = (await api.call("GET", f"{_path(webhook)}?limit=2&cursor={newest['next_cursor']}")).json()
    assert [*newest["data"], *rest["data"]] == listed
    first = listed[-1]
    assert (first["event"], first["http_status"], first["status"]) == ("push", 202, "queued")
    assert first["deployment_id"] is not None
    assert "Acme/Other" in listed[0]["reason"]

    shown = await api.read(_path(webhook, f"/{first['id']}"))
    assert {name: shown[name] for name in first} == first
    assert shown["body"] == sent.body.decode()
    assert shown["headers"]["x-github-event"] == ["push"]
    assert shown["headers"]["x-hub-signature-256"] == ["[redacted]"]


async def test_deliveries_of_others(api: Api, webhook: WebhookRepository) -> None:
    await webhook.deliver(push("github"))
    [row] = await webhook.deliveries()
    made = await api.call(
        "POST",
        f"/v1/projects/{api.platform.acme.projects['blog'].public_id}/repository",
        {"url": "git@github.com:acme/blog.git"},
    )
    for number in (row.id, 99, "0", "x", 2**31):
        other = f"/v1/repositories/{made.data['id']}/deliveries/{number}"
        assert (await api.call("GET", other)).problem == (404, "not-found")
        await api.expect((404, "not-found"), "POST", f"{other}/replay")


async def test_bodies_that_are_no_text(api: Api, webhook: WebhookRepository) -> None:
    await webhook.deliver(push("github"))
    [row] = await webhook.deliveries()
    async with api.platform.sessions() as session, session.begin():
        body = zlib.compress(b"\xff\x00{")
        await session.execute(update(WebhookDelivery).values(body=body))
    assert (await api.read(_path(webhook, f"/{row.id}")))["body"] == "\ufffd\x00{"


async def test_deliveries_of_a_disconnected_repository(api: Api, webhook: WebhookRepository) -> None:
    """These deliveries can be read, but not replayed."""
    await webhook.deliver(push("github"))
    [row] = await webhook.deliveries()
    await api.platform.settle()
    assert (await api.call("DELETE", f"/v1/repositories/{webhook.repository_id}")).status == 200
    assert [each["id"] for each in await api.read(_path(webhook))] == [row.id]
    assert (await api.read(_path(webhook, f"/{row.id}")))["body"]
    await api.expect((409, "conflict"), "POST", _path(webhook, f"/{row.id}/replay"))


async def test_body_that_was_removed(api: Api, webhook: WebhookRepository) -> None:
    await webhook.deliver(push("github"))
    [row] = await webhook.deliveries()
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(WebhookDelivery).values(body=b"", headers="{}"))
    shown = await api.read(_path(webhook, f"/{row.id}"))
    assert (shown["headers"], shown["body"]) == ({}, None)
    refused = await api.expect((409, "conflict"), "POST", _path(webhook, f"/{row.id}/replay"))
    assert "was removed to make room" in refused.json()["detail"]


async def test_replay(api: Api, webhook: WebhookRepository) -> None:
    await webhook.deliver(push("github"), "one")
    [row] = await webhook.deliveries()
    await api.platform.settle()
    replayed = await api.call("POST", _path(webhook, f"/{row.id}/replay"), by="deployer")
    assert (replayed.data["status"], replayed.data["replay_of"]) == ("queued", row.id)
    assert replayed.data["deployment_id"] not in (None, row.deployment_id)
    assert [each["id"] for each in await api.read(_path(webhook))] == [replayed.data["id"], row.id]
    subject = f"delivery {replayed.data['id']}"
    assert (await api.audit(1)) == [("webhook.replay", subject)]
    async with api.platform.sessions() as session:
        entry = (await session.scalars(select(AuditEntry).where(AuditEntry.subject == subject))).one()
    assert entry.account_id == api.platform.acme.account.id
    assert entry.person_id == api.platform.acme.people["deployer"].id
    assert json.loads(entry.details) == {"delivery": row.id, "status": "queued"}
    # A later replay finds the deployment that has not begun.
    again = await api.call("POST", _path(webhook, f"/{row.id}/replay"))
    assert (again.data["status"], again.data["deployment_id"]) == ("queued", replayed.data["deployment_id"])
    # A repetition of the request changes nothing, and gets the same response.
    headers = {"Idempotency-Key": "once"}
    path = _path(webhook, f"/{row.id}/replay")
    await api.platform.settle()
    first, again = [await api.call("POST", path, headers=headers) for _ in range(2)]
    assert first.data == again.data and len(await webhook.deliveries()) == 4


async def test_replay_without_effect(api: Api, webhook: WebhookRepository) -> None:
    await webhook.deliver(push("github"))
    [row] = await webhook.deliveries()
    await api.platform.settle()
    await webhook.change(push_deploys=False)
    refused = await api.expect((409, "conflict"), "POST", _path(webhook, f"/{row.id}/replay"))
    assert refused.json()["detail"].startswith("The delivery cannot be processed now: ")


async def test_replay_that_closes_a_preview(
    api: Api, webhook: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of the preview are revoked at the edges after the commit, or when the request is repeated."""
    await webhook.deliver(pull("github", "closed"), "closed")
    [row] = await webhook.deliveries()
    await webhook.deliver(pull("github", "opened"), "opened")
    async with api.platform.sessions() as session, session.begin():
        preview = (await session.scalars(select(Environment).where(Environment.slug == "pr-7"))).one()
        session.add(IngestKey(environment_id=preview.id, digest=b"d" * 32, created_at=preview.created_at))
    revoked: list[bytes] = []
    is_reachable = False

    async def revoke(digest: bytes) -> None:
        if not is_reachable:
            raise StorageUnavailable("Redis does not answer.")
        revoked.append(digest)

    monkeypatch.setattr(api.platform.directory, "revoke", revoke)
    for is_reachable in (False, True):
        headers = {"Idempotency-Key": "one"}
        replayed = await api.call("POST", _path(webhook, f"/{row.id}/replay"), headers=headers)
        assert replayed.data["status"] == "preview_closed"
        assert revoked == ([b"d" * 32] if is_reachable else [])
        assert ("warning" in replayed.json()) is not is_reachable


async def _find_preview(api: Api) -> Environment | None:
    async with api.platform.sessions() as session:
        return (await session.scalars(select(Environment).where(Environment.slug == "pr-7"))).one_or_none()


async def _read_entry(api: Api, action: str) -> tuple[AuditEntry, dict[str, Any]]:
    """Return the newest audit entry of this action, and its details."""
    query = select(AuditEntry).where(AuditEntry.action == action).order_by(AuditEntry.id.desc()).limit(1)
    async with api.platform.sessions() as session:
        entry = (await session.scalars(query)).one()
    return entry, json.loads(entry.details)


async def _process_waiting(api: Api) -> None:
    await WaitingPushWorker(api.platform.sessions, api.platform.directory).process_waiting()


async def test_waiting_replay_has_its_author_as_requester(api: Api, webhook: WebhookRepository) -> None:
    platform = api.platform
    await webhook.deliver(push("github"))
    [row] = await webhook.deliveries()
    await platform.change("shop/production", deploys_need_approval=True)
    async with platform.sessions() as session, session.begin():
        # Another deployment, such as a rollback.
        await session.execute(update(Deployment).values(trigger="rollback"))
    replayed = await api.call("POST", _path(webhook, f"/{row.id}/replay"), by="maintainer")
    assert replayed.data["status"] == "waiting"
    await platform.settle()
    await _process_waiting(api)
    [waiting] = await api.read("/v1/approvals", by="owner")
    deployment = waiting["deployment"]["deployment"]
    assert deployment["asked_by"]["email"] == "maintainer@acme.example"
    entry, _ = await _read_entry(api, "deployment.queue")
    assert entry.person_id == platform.acme.people["maintainer"].id
    assert entry.token_id is not None and entry.request_id is not None
    approval = f"/v1/deployments/{deployment['id']}/approve"
    await api.expect((409, "second-person-required"), "POST", approval, by="maintainer")
    # A redelivery by the host names no person.
    await webhook.deliver(push("github", after="b" * 40))
    await platform.settle()
    await _process_waiting(api)
    entry, _ = await _read_entry(api, "deployment.queue")
    assert entry.person_id is None


async def test_replay_that_closes_a_preview_later(api: Api, webhook: WebhookRepository) -> None:
    await webhook.deliver(pull("github", "closed"), "closed")
    [row] = await webhook.deliveries()
    await webhook.deliver(pull("github", "opened"), "opened")
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).values(status="running"))
    replayed = await api.call("POST", _path(webhook, f"/{row.id}/replay"), by="deployer")
    assert replayed.data["status"] == "preview_closed"
    assert await _find_preview(api) is not None
    await api.platform.settle()
    await _process_waiting(api)
    assert await _find_preview(api) is None
    entry, _ = await _read_entry(api, "environment.remove")
    assert entry.person_id == api.platform.acme.people["deployer"].id


@pytest.mark.parametrize("gate", ["deploys_need_approval", "variables_need_approval"])
@pytest.mark.parametrize("status", ["queued", "running"])
async def test_replay_that_closes_a_preview_with_a_gate(
    api: Api, webhook: WebhookRepository, gate: str, status: str
) -> None:
    """The replay needs the role that removing the preview needs."""
    await webhook.deliver(pull("github", "closed"), "closed")
    [row] = await webhook.deliveries()
    await webhook.deliver(pull("github", "opened"), "opened")
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Environment).where(Environment.slug == "pr-7").values({gate: True}))
        await session.execute(update(Deployment).values(status=status))
    path = _path(webhook, f"/{row.id}/replay")
    await api.expect((403, "deploy-not-allowed"), "POST", path, by="deployer")
    replayed = await api.call("POST", path, by="maintainer")
    assert replayed.data["status"] == "preview_closed"
    if status == "queued":
        _, details = await _read_entry(api, "environment.remove")
        assert details["lowered"] == ["the environment itself"]


async def test_waiting_pushes(api: Api, webhook: WebhookRepository) -> None:
    acme = api.platform.acme
    path = f"/v1/projects/{acme.projects['shop'].public_id}/waiting-pushes"
    assert await api.read(path) == []
    for branch in ("main", "develop"):
        for after in ("a" * 40, "b" * 40):
            await webhook.deliver(push("github", branch, after=after))
    listed = await api.read_all(path, limit=1)
    staging = acme.environment("shop/staging")
    assert listed[0] == {
        "id": listed[0]["id"],
        "environment": {"id": staging.public_id, "name": "Staging", "slug": "staging"},
        "repository_id": webhook.repository_id,
        "branch": "develop",
        "revision": "b" * 40,
        "trigger": "push",
        "since": listed[0]["since"],
    }
    assert [each["branch"] for each in listed] == ["develop", "main"]
    assert await api.read(f"/v1/projects/{acme.projects['blog'].public_id}/waiting-pushes") == []
