"""Pushes that are deployed, wait or are ignored; for all three hosts, on both databases."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.audit import Actor
from control_domain.environments.locks import lock_environment
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.workflows import Workflow
from control_workers.waiting_pushes import WaitingPushWorker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.webhooks import (
    AFTER,
    BEFORE,
    NO_COMMIT,
    SKIP,
    WebhookRepository,
    WebhookRequest,
    bitbucket_change,
    encode_request,
    push,
)

PRODUCTION = "shop/production"


async def _list_pushed(webhook: WebhookRepository) -> list[Deployment]:
    """Return the deployments of pushes, oldest first."""
    async with webhook.platform.sessions() as session:
        query = select(Deployment).where(Deployment.trigger == "push").order_by(Deployment.id)
        return list((await session.execute(query)).scalars())


async def _finish(webhook: WebhookRepository, number: int) -> None:
    """End the deployment successfully, as a deployer does."""
    async with webhook.platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(status="succeeded"))


async def _poll(webhook: WebhookRepository) -> None:
    await WaitingPushWorker(webhook.platform.sessions, InProcessKeyDirectory()).process_waiting()


async def _make_live(webhook: WebhookRepository, *, held: bool) -> None:
    deployment = webhook.platform.acme.deployments["production"]
    async with webhook.platform.sessions() as session, session.begin():
        query = select(Release.id).where(Release.deployment_id == deployment.id)
        release_id = (await session.execute(query)).scalar_one()
        environment_id = webhook.platform.acme.environment(PRODUCTION).id
        now = datetime.now(UTC)
        session.add(LiveRelease(environment_id=environment_id, release_id=release_id, since=now, held=held))


async def test_a_push_of_a_branch_with_a_trigger_queues_a_deployment(webhook: WebhookRepository) -> None:
    answer = await webhook.deliver(push(webhook.kind))
    (deployment,) = await _list_pushed(webhook)
    assert (answer.status, answer.json()) == (202, {"status": "queued", "deployment_id": deployment.id})
    assert deployment.environment_id == webhook.platform.acme.environment(PRODUCTION).id
    # The build uses the head of the branch at that time.
    assert (deployment.status, deployment.ref, deployment.revision) == ("queued", "main", None)
    assert (deployment.pushed_revision, deployment.pushed_from) == (AFTER, BEFORE)
    (kept,) = await webhook.deliveries()
    assert (kept.http_status, kept.answer, kept.deployment_id) == (202, "queued", deployment.id)


async def test_the_trigger_selects_the_environment(webhook: WebhookRepository) -> None:
    assert await webhook.deliver_status(push(webhook.kind, "develop")) == (202, "queued")
    (deployment,) = await _list_pushed(webhook)
    assert deployment.environment_id == webhook.platform.acme.environment("shop/staging").id


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"branch": "feature"}, "ignored"),
        ({"after": NO_COMMIT}, "ignored"),
        ({"message": f"Words alone {SKIP}"}, "skipped"),
    ],
    ids=["another branch", "deleted branch", "skip mark"],
)
async def test_pushes_that_deploy_nothing(
    webhook: WebhookRepository, sent: dict[str, str], status: str
) -> None:
    answer = await webhook.deliver(push(webhook.kind, **sent))
    assert (answer.status, answer.json()) == (200, {"status": status})
    assert await _list_pushed(webhook) == []
    assert (await webhook.deliveries())[0].reason


async def test_a_deleted_branch_is_ignored_in_any_state(webhook: WebhookRepository) -> None:
    """This holds without a usable workflow too, because there is nothing to deploy."""
    gone = push(webhook.kind, after=NO_COMMIT)
    for text in ("version: 1\nprocesses: {web: {command: x}}\ntriggers: {push: {main: nowhere}}\n", "no: 1"):
        await webhook.set_workflow(text)
        assert (await webhook.deliver_status(push(webhook.kind)))[0] == 409
        assert await webhook.deliver_status(gone) == (200, "ignored")


async def test_only_the_newest_push_during_a_deployment_is_deployed(
    webhook: WebhookRepository,
) -> None:
    assert await webhook.deliver_status(push(webhook.kind)) == (202, "queued")
    for commit in ("b" * 40, "c" * 40, "d" * 40):
        answer = await webhook.deliver(push(webhook.kind, after=commit))
        assert (answer.status, answer.json()) == (202, {"status": "waiting"})
    (waiting,) = await webhook.waiting()
    assert waiting.pushed_revision == "d" * 40
    await _poll(webhook)
    assert len(await _list_pushed(webhook)) == 1
    await _finish(webhook, (await _list_pushed(webhook))[0].id)
    await _poll(webhook)
    await _poll(webhook)
    first, second = await _list_pushed(webhook)
    assert (second.status, second.ref, second.pushed_revision) == ("queued", "main", "d" * 40)
    assert await webhook.waiting() == []


@pytest.mark.parametrize(
    ("status", "revision", "told"),
    [
        ("queued", None, "queued"),
        ("deploying", AFTER, "queued"),
        ("running", AFTER, "queued"),
        # The deployer may have resolved the branch before this push.
        ("deploying", None, "waiting"),
        ("deploying", "e" * 40, "waiting"),
    ],
)
async def test_a_push_reported_twice_is_deployed_once(
    github: WebhookRepository, status: str, revision: str | None, told: str
) -> None:
    """This happens if both a repository and the host's application have a webhook."""
    assert await github.deliver_status(push("github")) == (202, "queued")
    (first,) = await _list_pushed(github)
    async with github.platform.sessions() as session, session.begin():
        values = {"status": status, "revision": revision}
        await session.execute(update(Deployment).where(Deployment.id == first.id).values(values))
    answer = await github.deliver(push("github"))
    expected = {"status": told} | ({"deployment_id": first.id} if told == "queued" else {})
    assert (answer.status, answer.json()) == (202, expected)
    assert len(await github.waiting()) == (1 if told == "waiting" else 0)
    assert len(await _list_pushed(github)) == 1


async def test_a_repeated_older_push_does_not_replace_a_waiting_one(
    github: WebhookRepository,
) -> None:
    await github.deliver(push("github"))
    await github.deliver(push("github", before=AFTER, after="b" * 40))
    assert await github.deliver_status(push("github")) == (202, "queued")
    (waiting,) = await github.waiting()
    assert waiting.pushed_revision == "b" * 40


async def test_a_manual_deploy_goes_before_a_waiting_push(github: WebhookRepository) -> None:
    await github.deliver(push("github"))
    await github.deliver(push("github", after="b" * 40))
    (first,) = await _list_pushed(github)
    await _finish(github, first.id)
    environment = github.platform.acme.environment(PRODUCTION).public_id
    assert (await github.platform.call("POST", f"/v1/environments/{environment}/deploy", {})).status == 202
    await _poll(github)
    assert len(await github.waiting()) == 1


@pytest.mark.both_databases
async def test_two_control_planes_queue_a_waiting_push_once(github: WebhookRepository) -> None:
    await github.deliver(push("github"))
    await github.deliver(push("github", after="b" * 40))
    (first,) = await _list_pushed(github)
    await _finish(github, first.id)
    await asyncio.gather(*(_poll(github) for _ in range(5)))
    assert len(await _list_pushed(github)) == 2


async def test_a_push_waits_until_the_environment_is_unlocked(github: WebhookRepository) -> None:
    await github.deliver(push("github"))
    await github.deliver(push("github", after="b" * 40))
    (first,) = await _list_pushed(github)
    place = github.platform.acme.places[PRODUCTION]
    async with github.platform.sessions() as session, session.begin():
        await lock_environment(session, place, "no", Actor("test"), datetime.now(UTC))
    await _finish(github, first.id)
    await _poll(github)
    assert (len(await _list_pushed(github)), len(await github.waiting())) == (1, 1)


async def test_deleting_a_branch_drops_its_waiting_push(webhook: WebhookRepository) -> None:
    await webhook.deliver(push(webhook.kind))
    await webhook.deliver(push(webhook.kind, after="b" * 40))
    assert await webhook.deliver_status(push(webhook.kind, after=NO_COMMIT)) == (200, "ignored")
    assert await webhook.waiting() == []


async def test_pushes_do_not_deploy_over_a_rollback(webhook: WebhookRepository) -> None:
    await _make_live(webhook, held=True)
    assert await webhook.deliver_status(push(webhook.kind)) == (200, "ignored")
    assert await _list_pushed(webhook) == []
    assert "resume" in ((await webhook.deliveries())[0].reason or "")


async def test_a_waiting_push_is_dropped_after_a_rollback(github: WebhookRepository) -> None:
    await github.deliver(push("github"))
    await github.deliver(push("github", after="b" * 40))
    (first,) = await _list_pushed(github)
    await _finish(github, first.id)
    await _make_live(github, held=True)
    await _poll(github)
    assert (len(await _list_pushed(github)), await github.waiting()) == (1, [])


@pytest.mark.parametrize("values", [{"state": "hibernated"}, {"deploy_window": "closed"}, {"slug": "prod"}])
async def test_a_closed_environment_is_409_and_the_delivery_can_be_repeated(
    webhook: WebhookRepository, values: dict[str, str]
) -> None:
    if "deploy_window" in values:
        window = {"days": [_other_day()], "from": "00:00", "to": "00:01", "timezone": "UTC"}
        values = {"deploy_window": str(window).replace("'", '"')}
    was = {name: getattr(webhook.platform.acme.environment(PRODUCTION), name) for name in values}
    await webhook.platform.change(PRODUCTION, **values)
    sent = push(webhook.kind)
    answer = await webhook.deliver(sent, "one")
    assert answer.problem == (409, "repository-not-ready")
    assert (await webhook.deliveries())[0].http_status == 409
    await webhook.platform.change(PRODUCTION, **was)
    assert await webhook.deliver_status(sent, "one") == (202, "queued")
    assert await webhook.deliver_status(sent, "one") == (200, "duplicate")


def _other_day() -> str:
    return ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[(datetime.now(UTC).weekday() + 3) % 7]


@pytest.mark.both_databases
async def test_triggers_come_from_the_newest_release_without_a_document(
    github: WebhookRepository,
) -> None:
    project = github.platform.acme.projects["shop"]
    async with github.platform.sessions() as session, session.begin():
        await session.execute(Workflow.__table__.delete().where(Workflow.project_id == project.id))
    answer = await github.deliver(push("github"))
    assert answer.problem == (409, "repository-not-ready")
    assert "deploy once by hand" in answer.json()["detail"]
    document = (
        '{"version":1,"build":{"steps":[],"timeout_seconds":900},"release":{"steps":[],"timeout_seconds":900},'
        '"processes":{"web":{"command":"true"}},"triggers":{"push":{"main":"staging"}},"retain":5}'
    )
    async with github.platform.sessions() as session, session.begin():
        await session.execute(update(Release).values(workflow=document))
    assert await github.deliver_status(push("github")) == (202, "queued")
    (deployment,) = await _list_pushed(github)
    assert deployment.environment_id == github.platform.acme.environment("shop/staging").id


async def test_in_a_gated_environment_only_the_newest_push_waits_for_approval(
    webhook: WebhookRepository,
) -> None:
    await webhook.platform.change(PRODUCTION, deploys_need_approval=True)
    assert await webhook.deliver_status(push(webhook.kind)) == (202, "queued")
    assert await webhook.deliver_status(push(webhook.kind, after="b" * 40)) == (202, "queued")
    first, second = await _list_pushed(webhook)
    assert (first.status, second.status) == ("canceled", "awaiting_approval")
    # It can be approved without naming the commit, which is known.
    assert second.revision == "b" * 40


@pytest.mark.both_databases
async def test_a_hundred_concurrent_duplicates_deploy_once(webhook: WebhookRepository) -> None:
    sent = push(webhook.kind)
    told = await asyncio.gather(*(webhook.deliver_status(sent, "one") for _ in range(100)))
    assert sorted(told) == [(200, "duplicate")] * 99 + [(202, "queued")]
    assert len(await _list_pushed(webhook)) == 1


async def test_all_changes_of_a_bitbucket_push_are_processed(github: WebhookRepository) -> None:
    await github.change_kind("bitbucket")
    changes = [bitbucket_change(branch) for branch in ("feature", "develop", "main")]
    payload = {"repository": {"full_name": "Acme/Shop"}, "push": {"changes": changes}}
    answer = await github.deliver(encode_request("repo:push", payload))
    # Ordered by environment: production, staging.
    made = await _list_pushed(github)
    assert [deployment.ref for deployment in made] == ["main", "develop"]
    assert answer.json() == {"status": "queued", "deployment_id": made[0].id}


async def test_one_refused_change_refuses_the_whole_push(
    github: WebhookRepository,
) -> None:
    await github.change_kind("bitbucket")
    await github.platform.change(PRODUCTION, state="hibernated")
    changes = [bitbucket_change(branch) for branch in ("develop", "main")]
    payload = {"repository": {"full_name": "Acme/Shop"}, "push": {"changes": changes}}
    answer = await github.deliver(encode_request("repo:push", payload))
    assert answer.problem == (409, "repository-not-ready")
    assert await _list_pushed(github) == []


@pytest.mark.parametrize(
    "values", [{"push_deploys": False}, {"disconnected_at": datetime.now(UTC)}, {"kind": "git"}]
)
async def test_a_repository_without_push_deploys_is_404(
    webhook: WebhookRepository, values: dict[str, Any]
) -> None:
    sent = push(webhook.kind)
    if "kind" in values:
        answer = await webhook.deliver(sent, path="/repositories/999999/webhook")
    else:
        await webhook.change(**values)
        answer = await webhook.deliver(sent)
    assert answer.problem == (404, "not-found")
    assert await webhook.deliveries() == []


async def test_a_plain_secret_of_gitlab_is_accepted(github: WebhookRepository) -> None:
    await github.change_kind("gitlab", plain=True)
    sent: WebhookRequest = push("gitlab")
    answer = await github.deliver(sent, headers={"X-Gitlab-Token": "another secret of this length"})
    assert answer.problem == (401, "bad-signature")
    assert await github.deliver_status(sent, "one") == (202, "queued")
    assert await github.deliver_status(sent, "one") == (200, "duplicate")
