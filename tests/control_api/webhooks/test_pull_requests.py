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
from tests.support.webhooks import SKIP, WORKFLOW, Hooked, as_sent, pull

_KEPT = WORKFLOW.replace("close: destroy", "close: keep")
_NONE = WORKFLOW.replace("  pull_requests: {from: staging, close: destroy}\n", "")


async def _preview(hooked: Hooked, number: int = 7) -> Environment | None:
    async with hooked.platform.sessions() as session:
        project = hooked.platform.acme.projects["shop"]
        query = select(Environment).where(
            Environment.project_id == project.id, Environment.slug == f"pr-{number}"
        )
        return (await session.execute(query)).scalar_one_or_none()


async def _deployments(hooked: Hooked) -> list[Deployment]:
    async with hooked.platform.sessions() as session:
        query = select(Deployment).where(Deployment.trigger == "pull_request").order_by(Deployment.id)
        return list((await session.execute(query)).scalars())


async def _set(hooked: Hooked, number: int, **values: str) -> None:
    async with hooked.platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(**values))


async def _poll(hooked: Hooked) -> None:
    await WaitingPushWorker(hooked.platform.sessions, InProcessKeyDirectory()).process_waiting()


async def test_a_pull_request_gets_a_preview(hooked: Hooked) -> None:
    answer = await hooked.deliver(pull(hooked.kind))
    (deployment,) = await _deployments(hooked)
    told = {"status": "preview_queued", "deployment_id": deployment.id}
    assert (answer.status, answer.json()) == (202, told)
    preview = await _preview(hooked)
    assert preview is not None
    assert (preview.type, preview.branch, preview.state) == ("preview", "feature", "running")
    assert (deployment.environment_id, deployment.ref) == (preview.id, "feature")


async def test_a_queued_preview_also_deploys_a_later_change(hooked: Hooked) -> None:
    await hooked.deliver(pull(hooked.kind))
    answer = await hooked.deliver(pull(hooked.kind, "updated", revision="b" * 40))
    (deployment,) = await _deployments(hooked)
    assert answer.json() == {"status": "preview_updated", "deployment_id": deployment.id}
    assert answer.status == 202
    # Bitbucket sends abbreviated commits only.
    told = None if hooked.kind == "bitbucket" else "b" * 40
    assert deployment.pushed_revision == told


async def test_a_change_during_a_deployment_waits(hooked: Hooked) -> None:
    await hooked.deliver(pull(hooked.kind))
    (first,) = await _deployments(hooked)
    await _set(hooked, first.id, status="deploying", revision="a" * 40)
    answer = await hooked.deliver(pull(hooked.kind, "updated", revision="b" * 40))
    assert (answer.status, answer.json()) == (202, {"status": "preview_updated"})
    await _set(hooked, first.id, status="succeeded")
    await _poll(hooked)
    _, second = await _deployments(hooked)
    assert (second.status, second.ref) == ("queued", "feature")


async def test_a_change_without_new_code_deploys_nothing(hooked: Hooked) -> None:
    await hooked.deliver(pull(hooked.kind))
    (first,) = await _deployments(hooked)
    await _set(hooked, first.id, status="succeeded", revision="a" * 40)
    answer = await hooked.deliver(pull(hooked.kind, "updated"))
    assert (answer.status, answer.json()) == (200, {"status": "preview_updated", "deployment_id": first.id})
    assert len(await _deployments(hooked)) == 1


async def test_a_merge_request_update_without_oldrev_deploys_nothing(github: Hooked) -> None:
    await github.become("gitlab")
    sent = pull("gitlab", "updated")
    without = sent.body.replace(b'"oldrev"', b'"older"')
    assert await github.told(as_sent("Merge Request Hook", None)) == (422, "payload-not-usable")
    sent = type(sent)(sent.event, without)
    assert await github.told(sent) == (200, "ignored")


async def test_an_update_without_a_preview_creates_one(hooked: Hooked) -> None:
    assert await hooked.told(pull(hooked.kind, "updated")) == (202, "preview_queued")


async def test_closing_a_pull_request_removes_its_preview(hooked: Hooked) -> None:
    await hooked.deliver(pull(hooked.kind))
    answer = await hooked.deliver(pull(hooked.kind, "closed"))
    assert (answer.status, answer.json()) == (200, {"status": "preview_closed"})
    assert await _preview(hooked) is None
    (deployment,) = await _deployments(hooked)
    assert (deployment.status, deployment.environment_id) == ("canceled", None)
    # A second event finds nothing to do.
    assert await hooked.told(pull(hooked.kind, "closed")) == (200, "ignored")


@pytest.mark.both_databases
async def test_a_starting_preview_is_removed_afterwards(hooked: Hooked) -> None:
    await hooked.deliver(pull(hooked.kind))
    (first,) = await _deployments(hooked)
    await _set(hooked, first.id, status="running")
    await hooked.deliver(pull(hooked.kind, "updated", revision="b" * 40))
    answer = await hooked.deliver(pull(hooked.kind, "closed"))
    assert (answer.status, answer.json()) == (202, {"status": "preview_closed"})
    await _poll(hooked)
    assert await _preview(hooked) is not None
    await _set(hooked, first.id, status="succeeded")
    await _poll(hooked)
    assert await _preview(hooked) is None
    # Its waiting push is removed with it.
    assert (len(await _deployments(hooked)), await hooked.waiting()) == (1, [])


async def test_a_reopened_pull_request_keeps_its_preview(github: Hooked) -> None:
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
    github: Hooked, monkeypatch: pytest.MonkeyPatch
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


async def test_the_workflow_may_keep_closed_previews(hooked: Hooked) -> None:
    await hooked.set_workflow(_KEPT)
    await hooked.deliver(pull(hooked.kind))
    assert await hooked.told(pull(hooked.kind, "closed")) == (200, "ignored")
    assert await _preview(hooked) is not None


async def test_a_workflow_without_previews_creates_none(hooked: Hooked) -> None:
    await hooked.set_workflow(_NONE)
    assert await hooked.told(pull(hooked.kind)) == (200, "ignored")


async def test_a_preview_is_closed_after_the_workflow_dropped_previews(github: Hooked) -> None:
    await github.deliver(pull("github"))
    await github.set_workflow(_NONE)
    assert await github.told(pull("github", "closed")) == (200, "preview_closed")


async def test_forks_get_previews_if_the_repository_allows_them(hooked: Hooked) -> None:
    assert await hooked.told(pull(hooked.kind, is_fork=True)) == (200, "ignored")
    assert await _preview(hooked) is None
    await hooked.change(allows_forks=True)
    status, told = await hooked.told(pull(hooked.kind, is_fork=True))
    if hooked.kind == "bitbucket":
        # Bitbucket keeps no ref for a pull request of a fork.
        assert (status, told) == (200, "ignored")
        return
    assert (status, told) == (202, "preview_queued")
    (deployment,) = await _deployments(hooked)
    refs = {"github": "refs/pull/7/head", "gitlab": "refs/merge-requests/7/head"}
    assert deployment.ref == refs[hooked.kind]


async def test_a_pull_request_from_a_fork_can_always_be_closed(github: Hooked) -> None:
    await github.change(allows_forks=True)
    await github.deliver(pull("github", is_fork=True))
    await github.change(allows_forks=False)
    assert await github.told(pull("github", "closed", is_fork=True)) == (200, "preview_closed")


async def test_an_environment_of_the_same_name_is_not_touched(hooked: Hooked) -> None:
    await hooked.platform.change("shop/development", slug="pr-7")
    assert (await hooked.deliver(pull(hooked.kind))).problem == (409, "repository-not-ready")
    assert await hooked.told(pull(hooked.kind, "closed")) == (200, "ignored")
    kept = await _preview(hooked)
    assert kept is not None and kept.type == "development"


async def test_a_missing_source_environment_is_409(hooked: Hooked) -> None:
    await hooked.platform.change("shop/staging", slug="stage")
    assert (await hooked.deliver(pull(hooked.kind))).problem == (409, "repository-not-ready")
    assert await _preview(hooked) is None


async def test_the_skip_mark_counts_if_the_payload_has_the_message(github: Hooked) -> None:
    await github.become("gitlab")
    sent = pull("gitlab")
    body = sent.body.replace(b"Sell more", f"Words {SKIP}".encode())
    assert await github.told(type(sent)(sent.event, body)) == (200, "skipped")
    assert await _preview(github) is None


async def test_pull_requests_have_separate_previews(github: Hooked) -> None:
    await github.deliver(pull("github", number=7))
    await github.deliver(pull("github", number=8, branch="other"))
    await github.deliver(pull("github", "closed", number=8, branch="other"))
    assert await _preview(github, 7) is not None
    assert await _preview(github, 8) is None


async def test_closing_is_audited_with_the_webhook_as_actor(github: Hooked) -> None:
    await github.deliver(pull("github"))
    await github.deliver(pull("github", "closed"))
    answer = await github.deliveries()
    assert [delivery.answer for delivery in answer] == ["preview_queued", "preview_closed"]
    assert all(delivery.received_at <= datetime.now(UTC) for delivery in answer)
