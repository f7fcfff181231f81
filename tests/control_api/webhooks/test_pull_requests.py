"""Pull requests create, update and remove previews; for all three hosts, on both databases."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.webhooks import ClosingPreview
from control_workers import waiting_pushes as worker
from control_workers.waiting_pushes import WaitingPushWorker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.webhooks import SKIP, WORKFLOW, WebhookRepository, encode_request, pull

_KEPT = WORKFLOW.replace("close: destroy", "close: keep")
_NONE = WORKFLOW.replace("  pull_requests: {from: staging, close: destroy}\n", "")


async def _preview(webhook: WebhookRepository, number: int = 7) -> Environment | None:
    async with webhook.platform.sessions() as session:
        project = webhook.platform.acme.projects["shop"]
        query = select(Environment).where(
            Environment.project_id == project.id, Environment.slug == f"pr-{number}"
        )
        return (await session.execute(query)).scalar_one_or_none()


async def _deployments(webhook: WebhookRepository) -> list[Deployment]:
    async with webhook.platform.sessions() as session:
        query = select(Deployment).where(Deployment.trigger == "pull_request").order_by(Deployment.id)
        return list((await session.execute(query)).scalars())


async def _set(webhook: WebhookRepository, number: int, **values: str) -> None:
    async with webhook.platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(**values))


async def _poll(webhook: WebhookRepository) -> None:
    await WaitingPushWorker(webhook.platform.sessions, InProcessKeyDirectory()).process_waiting()


async def test_a_pull_request_gets_a_preview(webhook: WebhookRepository) -> None:
    answer = await webhook.deliver(pull(webhook.kind))
    (deployment,) = await _deployments(webhook)
    told = {"status": "preview_queued", "deployment_id": deployment.id}
    assert (answer.status, answer.json()) == (202, told)
    preview = await _preview(webhook)
    assert preview is not None
    assert (preview.type, preview.branch, preview.state) == ("preview", "feature", "running")
    assert (deployment.environment_id, deployment.ref) == (preview.id, "feature")


async def test_a_queued_preview_also_deploys_a_later_change(webhook: WebhookRepository) -> None:
    await webhook.deliver(pull(webhook.kind))
    answer = await webhook.deliver(pull(webhook.kind, "updated", revision="b" * 40))
    (deployment,) = await _deployments(webhook)
    assert answer.json() == {"status": "preview_updated", "deployment_id": deployment.id}
    assert answer.status == 202
    # Bitbucket sends abbreviated commits only.
    told = None if webhook.kind == "bitbucket" else "b" * 40
    assert deployment.pushed_revision == told


async def test_a_change_during_a_deployment_waits(webhook: WebhookRepository) -> None:
    await webhook.deliver(pull(webhook.kind))
    (first,) = await _deployments(webhook)
    await _set(webhook, first.id, status="deploying", revision="a" * 40)
    answer = await webhook.deliver(pull(webhook.kind, "updated", revision="b" * 40))
    assert (answer.status, answer.json()) == (202, {"status": "preview_updated"})
    await _set(webhook, first.id, status="succeeded")
    await _poll(webhook)
    _, second = await _deployments(webhook)
    assert (second.status, second.ref) == ("queued", "feature")


async def test_a_change_without_new_code_deploys_nothing(webhook: WebhookRepository) -> None:
    await webhook.deliver(pull(webhook.kind))
    (first,) = await _deployments(webhook)
    await _set(webhook, first.id, status="succeeded", revision="a" * 40)
    answer = await webhook.deliver(pull(webhook.kind, "updated"))
    assert (answer.status, answer.json()) == (200, {"status": "preview_updated", "deployment_id": first.id})
    assert len(await _deployments(webhook)) == 1


async def test_a_merge_request_update_without_oldrev_deploys_nothing(github: WebhookRepository) -> None:
    await github.change_kind("gitlab")
    sent = pull("gitlab", "updated")
    without = sent.body.replace(b'"oldrev"', b'"older"')
    assert await github.deliver_status(encode_request("Merge Request Hook", None)) == (
        422,
        "payload-not-usable",
    )
    sent = type(sent)(sent.event, without)
    assert await github.deliver_status(sent) == (200, "ignored")


async def test_an_update_without_a_preview_creates_one(webhook: WebhookRepository) -> None:
    assert await webhook.deliver_status(pull(webhook.kind, "updated")) == (202, "preview_queued")


async def test_closing_a_pull_request_removes_its_preview(webhook: WebhookRepository) -> None:
    await webhook.deliver(pull(webhook.kind))
    answer = await webhook.deliver(pull(webhook.kind, "closed"))
    assert (answer.status, answer.json()) == (200, {"status": "preview_closed"})
    assert await _preview(webhook) is None
    (deployment,) = await _deployments(webhook)
    assert (deployment.status, deployment.environment_id) == ("canceled", None)
    # A second event changes nothing.
    assert await webhook.deliver_status(pull(webhook.kind, "closed")) == (200, "ignored")


@pytest.mark.both_databases
async def test_a_starting_preview_is_removed_afterwards(webhook: WebhookRepository) -> None:
    await webhook.deliver(pull(webhook.kind))
    (first,) = await _deployments(webhook)
    await _set(webhook, first.id, status="running")
    await webhook.deliver(pull(webhook.kind, "updated", revision="b" * 40))
    answer = await webhook.deliver(pull(webhook.kind, "closed"))
    assert (answer.status, answer.json()) == (202, {"status": "preview_closed"})
    await _poll(webhook)
    assert await _preview(webhook) is not None
    await _set(webhook, first.id, status="succeeded")
    await _poll(webhook)
    assert await _preview(webhook) is None
    # Its waiting push is removed with it.
    assert (len(await _deployments(webhook)), await webhook.waiting()) == (1, [])


async def test_a_reopened_pull_request_keeps_its_preview(github: WebhookRepository) -> None:
    await github.deliver(pull("github"))
    (first,) = await _deployments(github)
    await _set(github, first.id, status="running")
    await github.deliver(pull("github", "closed"))
    answer = await github.deliver(pull("github", "opened", revision="b" * 40))
    assert answer.json()["status"] == "preview_queued"
    async with github.platform.sessions() as session:
        assert (await session.execute(select(ClosingPreview.environment_id))).all() == []
    await _set(github, first.id, status="succeeded")
    await _poll(github)
    assert await _preview(github) is not None


@pytest.mark.both_databases
async def test_a_preview_reopened_during_its_closing_stays(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    await github.deliver(pull("github"))
    (first,) = await _deployments(github)
    await _set(github, first.id, status="running")
    await github.deliver(pull("github", "closed"))
    await _set(github, first.id, status="succeeded")
    find_preview = worker._find_preview

    async def reopened_behind_it(session: AsyncSession, environment_id: int) -> Any:
        found = await find_preview(session, environment_id)
        await github.deliver(pull("github", "opened", revision="b" * 40))
        return found

    monkeypatch.setattr(worker, "_find_preview", reopened_behind_it)
    await _poll(github)
    assert await _preview(github) is not None


async def test_the_workflow_may_keep_closed_previews(webhook: WebhookRepository) -> None:
    await webhook.set_workflow(_KEPT)
    await webhook.deliver(pull(webhook.kind))
    assert await webhook.deliver_status(pull(webhook.kind, "closed")) == (200, "ignored")
    assert await _preview(webhook) is not None


async def test_a_workflow_without_previews_creates_none(webhook: WebhookRepository) -> None:
    await webhook.set_workflow(_NONE)
    assert await webhook.deliver_status(pull(webhook.kind)) == (200, "ignored")


async def test_a_preview_is_closed_after_the_workflow_dropped_previews(github: WebhookRepository) -> None:
    await github.deliver(pull("github"))
    await github.set_workflow(_NONE)
    assert await github.deliver_status(pull("github", "closed")) == (200, "preview_closed")


async def test_forks_get_previews_if_the_repository_allows_them(webhook: WebhookRepository) -> None:
    assert await webhook.deliver_status(pull(webhook.kind, is_fork=True)) == (200, "ignored")
    assert await _preview(webhook) is None
    await webhook.change(allows_forks=True)
    status, told = await webhook.deliver_status(pull(webhook.kind, is_fork=True))
    if webhook.kind == "bitbucket":
        # Bitbucket keeps no ref for a pull request of a fork.
        assert (status, told) == (200, "ignored")
        return
    assert (status, told) == (202, "preview_queued")
    (deployment,) = await _deployments(webhook)
    refs = {"github": "refs/pull/7/head", "gitlab": "refs/merge-requests/7/head"}
    assert deployment.ref == refs[webhook.kind]


async def test_a_pull_request_from_a_fork_can_always_be_closed(github: WebhookRepository) -> None:
    await github.change(allows_forks=True)
    await github.deliver(pull("github", is_fork=True))
    await github.change(allows_forks=False)
    assert await github.deliver_status(pull("github", "closed", is_fork=True)) == (200, "preview_closed")


async def test_an_environment_of_the_same_name_is_not_touched(webhook: WebhookRepository) -> None:
    await webhook.platform.change("shop/development", slug="pr-7")
    assert (await webhook.deliver(pull(webhook.kind))).problem == (409, "repository-not-ready")
    assert await webhook.deliver_status(pull(webhook.kind, "closed")) == (200, "ignored")
    kept = await _preview(webhook)
    assert kept is not None and kept.type == "development"


async def test_a_missing_source_environment_is_409(webhook: WebhookRepository) -> None:
    await webhook.platform.change("shop/staging", slug="stage")
    assert (await webhook.deliver(pull(webhook.kind))).problem == (409, "repository-not-ready")
    assert await _preview(webhook) is None


async def test_the_skip_mark_counts_if_the_payload_has_the_message(github: WebhookRepository) -> None:
    await github.change_kind("gitlab")
    sent = pull("gitlab")
    body = sent.body.replace(b"Sell more", f"Words {SKIP}".encode())
    assert await github.deliver_status(type(sent)(sent.event, body)) == (200, "skipped")
    assert await _preview(github) is None


async def test_pull_requests_have_separate_previews(github: WebhookRepository) -> None:
    await github.deliver(pull("github", number=7))
    await github.deliver(pull("github", number=8, branch="other"))
    await github.deliver(pull("github", "closed", number=8, branch="other"))
    assert await _preview(github, 7) is not None
    assert await _preview(github, 8) is None


async def test_closing_is_audited_with_the_webhook_as_actor(github: WebhookRepository) -> None:
    await github.deliver(pull("github"))
    await github.deliver(pull("github", "closed"))
    answer = await github.deliveries()
    assert [delivery.answer for delivery in answer] == ["preview_queued", "preview_closed"]
    assert all(delivery.received_at <= datetime.now(UTC) for delivery in answer)
