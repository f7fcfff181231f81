"""The author of a changed input cannot approve the deployment that waits with this input."""

from datetime import timedelta

import pytest

from control_domain.audit import Actor
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project
from control_domain.workflows.operations import set_workflow
from tests.support.managed_project import NOW, REVISION, ManagedProject

MAINTAINER, DEPLOYER, OWNER = "maintainer@acme.example", "deployer@acme.example", "owner@acme.example"
WORKFLOW = "version: 1\nprocesses: {web: {command: run}}\n"


async def _wait(managed: ManagedProject) -> int:
    await managed.change_environment(deploys_need_approval=True)
    return await managed.queue("deployer", revision=REVISION)


async def _digest(managed: ManagedProject) -> str:
    (waiting,) = await managed.act("deployments/waiting")
    digest: str = waiting["digest"]
    return digest


async def test_who_set_the_workflow_by_the_api(managed: ManagedProject) -> None:
    number = await _wait(managed)
    async with managed.engines.sessions() as session, session.begin():
        project = await session.get_one(Project, managed.project.id)
        actor = Actor("203.0.113.7", person_id=managed.people["maintainer"].id)
        await set_workflow(session, project, WORKFLOW, actor, NOW)
    wanted = {"id": number, "digest": await _digest(managed)}
    line = await managed.expect_refusal("deployments/approve", **wanted, by=MAINTAINER)
    assert line == (
        f"Maintainer has changed the workflow since deployment {number} was asked for: somebody else has to approve it."
    )
    assert (await managed.act("deployments/approve", **wanted, by=OWNER))["status"] == "queued"


@pytest.mark.parametrize("by", [MAINTAINER, None])
async def test_who_set_variables_or_a_workflow_by_command(managed: ManagedProject, by: str | None) -> None:
    number = await _wait(managed)
    told = "Maintainer has changed the" if by else "It is not known who changed the"
    await managed.set_workflow(WORKFLOW, "maintainer" if by else None)
    wanted = {"id": number, "by": MAINTAINER}
    line = await managed.expect_refusal("deployments/approve", **wanted, digest=await _digest(managed))
    assert line.startswith(f"{told} workflow since deployment {number}")
    await managed.set_workflow(f"{WORKFLOW}# again\n", "deployer")
    await managed.act("variables/set", environment_id="production", text="A=1", by=by)
    line = await managed.expect_refusal("deployments/approve", **wanted, digest=await _digest(managed))
    assert line.startswith(f"{told} variables since deployment {number}")
    await managed.act("variables/set", environment_id="production", text="A=1", by=DEPLOYER)
    await managed.act("deployments/approve", **wanted, digest=await _digest(managed))


async def test_authors_of_the_inputs_at_the_time_of_the_request(managed: ManagedProject) -> None:
    await managed.set_workflow(WORKFLOW, "maintainer")
    await managed.act("variables/set", environment_id="production", text="A=1")
    number = await _wait(managed)
    assert (await managed.act("deployments/approve", id=number, by=MAINTAINER))["status"] == "queued"


async def test_without_frozen_inputs_the_time_of_the_request_decides(managed: ManagedProject) -> None:
    await managed.act("variables/set", environment_id="production", text="A=1", by=MAINTAINER)
    number = await _wait(managed)
    wanted = {"id": number, "by": MAINTAINER, "digest": await _digest(managed)}
    await managed.change(Deployment, number, frozen_at=None, created_at=NOW - timedelta(seconds=1))
    assert "Maintainer has changed the variables" in await managed.expect_refusal(
        "deployments/approve", **wanted
    )
    # A preview and its first deployment have the same time.
    await managed.change(Deployment, number, created_at=NOW)
    await managed.act("deployments/approve", **wanted)
