"""Deployments that a webhook has requested: how they are queued, and the content that their approval covers."""

import pytest
from sqlalchemy import select

from control_domain.deployments.queue_deployment import Trigger
from control_domain.tables.deployments import DeploymentLine
from pipeline_contracts.errors import CommitUnknown
from tests.support.managed_project import REVISION, ManagedProject

BEFORE = "f" * 40
BEGINNING = REVISION[:12]


async def _log(managed: ManagedProject, number: int) -> list[str]:
    async with managed.engines.sessions() as session:
        query = select(DeploymentLine.text).where(DeploymentLine.deployment_id == number)
        return list((await session.execute(query.order_by(DeploymentLine.id))).scalars())


@pytest.mark.parametrize("trigger", ["push", "pull_request"])
async def test_a_push_keeps_the_reported_commit_and_builds_the_head(
    managed: ManagedProject, trigger: Trigger
) -> None:
    number = await managed.queue(
        trigger=trigger, ref="main", pushed_revision=REVISION, pushed_from=BEFORE, note="pushed by ada"
    )
    made = await managed.deployment(number)
    assert (made.trigger, made.ref, made.revision, made.status) == (trigger, "main", None, "queued")
    assert (made.pushed_revision, made.pushed_from) == (REVISION, BEFORE)
    assert await _log(managed, number) == ["Queued: main at 0123456, pushed by ada."]
    (entry, *_) = await managed.read_audit_log()
    assert (entry[0], entry[4]["trigger"], entry[4]["ref"]) == ("deployment.queue", trigger, "main")


async def test_a_push_with_fewer_details_is_described_shorter(managed: ManagedProject) -> None:
    number = await managed.queue(trigger="push", ref="main")
    assert await _log(managed, number) == ["Queued: main."]


@pytest.mark.parametrize("trigger", ["push", "pull_request"])
async def test_an_approval_names_the_pushed_commit(managed: ManagedProject, trigger: Trigger) -> None:
    await managed.change_environment(deploys_need_approval=True)
    number = await managed.queue(trigger=trigger, ref="main", pushed_revision=REVISION, pushed_from=BEFORE)
    waiting = await managed.deployment(number)
    assert (waiting.status, waiting.revision) == ("awaiting_approval", REVISION)
    await managed.approve(number)
    approved = await managed.deployment(number)
    assert (approved.status, approved.approved_revision) == ("queued", REVISION)


async def test_an_abbreviated_commit_is_not_approved(managed: ManagedProject) -> None:
    await managed.change_environment(deploys_need_approval=True)
    number = await managed.queue(trigger="pull_request", ref="topic", pushed_revision=BEGINNING)
    assert (await managed.deployment(number)).revision is None
    with pytest.raises(CommitUnknown, match="The commit of topic is not known yet"):
        await managed.approve(number)
    await managed.approve(number, revision=REVISION)
    assert (await managed.deployment(number)).revision == REVISION
