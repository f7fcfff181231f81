"""Deployments that a webhook has asked for, as they are queued, and approved."""

import pytest
from sqlalchemy import select

from control_domain.deployments.queue_deployment import Trigger
from control_domain.tables.deployments import DeploymentLine
from tests.support.operated import REVISION, Operated

MAINTAINER = "maintainer@acme.example"
BEFORE = "f" * 40
BEGINNING = REVISION[:12]


async def _log(operated: Operated, number: int) -> list[str]:
    async with operated.engines.sessions() as session:
        query = select(DeploymentLine.text).where(DeploymentLine.deployment_id == number)
        return list((await session.execute(query.order_by(DeploymentLine.id))).scalars())


@pytest.mark.parametrize("trigger", ["push", "pull_request"])
async def test_a_push_keeps_the_reported_commit_and_builds_the_head(
    operated: Operated, trigger: Trigger
) -> None:
    number = await operated.queue(
        trigger=trigger, ref="main", pushed_revision=REVISION, pushed_from=BEFORE, note="pushed by ada"
    )
    made = await operated.deployment(number)
    assert (made.trigger, made.ref, made.revision, made.status) == (trigger, "main", None, "queued")
    assert (made.pushed_revision, made.pushed_from) == (REVISION, BEFORE)
    assert await _log(operated, number) == ["Queued: main at 0123456, pushed by ada."]
    (entry, *_) = await operated.audited()
    assert (entry[0], entry[4]["trigger"], entry[4]["ref"]) == ("deployment.queue", trigger, "main")


async def test_a_push_with_fewer_details_is_described_shorter(operated: Operated) -> None:
    number = await operated.queue(trigger="push", ref="main")
    assert await _log(operated, number) == ["Queued: main."]


@pytest.mark.parametrize("trigger", ["push", "pull_request"])
async def test_an_approval_names_the_pushed_commit(operated: Operated, trigger: Trigger) -> None:
    await operated.change_environment(deploys_need_approval=True)
    number = await operated.queue(trigger=trigger, ref="main", pushed_revision=REVISION, pushed_from=BEFORE)
    waiting = await operated.deployment(number)
    assert (waiting.status, waiting.revision) == ("awaiting_approval", REVISION)
    told = await operated.act("deployments/approve", id=number, by=MAINTAINER)
    assert (told["status"], told["revision"]) == ("queued", REVISION)
    assert (await operated.deployment(number)).approved_revision == REVISION


async def test_an_abbreviated_commit_is_not_approved(operated: Operated) -> None:
    await operated.change_environment(deploys_need_approval=True)
    number = await operated.queue(trigger="pull_request", ref="topic", pushed_revision=BEGINNING)
    assert (await operated.deployment(number)).revision is None
    line = await operated.refused("deployments/approve", id=number, by=MAINTAINER)
    assert line.startswith("The commit of topic is not known yet")
    told = await operated.act("deployments/approve", id=number, by=MAINTAINER, revision=REVISION)
    assert (told["status"], told["revision"]) == ("queued", REVISION)
