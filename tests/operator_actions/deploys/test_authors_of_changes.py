"""The author of a changed input cannot approve the deployment that waits with this input."""

from datetime import timedelta

import pytest

from control_domain.audit import Actor
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project
from control_domain.workflows.operations import set_workflow
from tests.support.operated import NOW, REVISION, Operated

MAINTAINER, DEPLOYER, OWNER = "maintainer@acme.example", "deployer@acme.example", "owner@acme.example"
WORKFLOW = "version: 1\nprocesses: {web: {command: run}}\n"


async def _wait(operated: Operated) -> int:
    await operated.change_environment(deploys_need_approval=True)
    return await operated.queue("deployer", revision=REVISION)


async def _digest(operated: Operated) -> str:
    (waiting,) = await operated.act("deployments/waiting")
    digest: str = waiting["digest"]
    return digest


async def test_who_set_the_workflow_by_the_api(operated: Operated) -> None:
    number = await _wait(operated)
    async with operated.engines.sessions() as session, session.begin():
        project = await session.get_one(Project, operated.project.id)
        actor = Actor("203.0.113.7", person_id=operated.people["maintainer"].id)
        await set_workflow(session, project, WORKFLOW, actor, NOW)
    wanted = {"id": number, "digest": await _digest(operated)}
    line = await operated.refused("deployments/approve", **wanted, by=MAINTAINER)
    assert line == (
        f"Maintainer has changed the workflow since deployment {number} was asked for: somebody else has to approve it."
    )
    assert (await operated.act("deployments/approve", **wanted, by=OWNER))["status"] == "queued"


@pytest.mark.parametrize("by", [MAINTAINER, None])
async def test_who_set_variables_or_a_workflow_by_command(operated: Operated, by: str | None) -> None:
    number = await _wait(operated)
    told = "Maintainer has changed the" if by else "It is not known who changed the"
    await operated.act("workflows/set", text=WORKFLOW, by=by)
    wanted = {"id": number, "by": MAINTAINER}
    line = await operated.refused("deployments/approve", **wanted, digest=await _digest(operated))
    assert line.startswith(f"{told} workflow since deployment {number}")
    await operated.act("workflows/set", text=f"{WORKFLOW}# again\n", by=DEPLOYER)
    await operated.act("variables/set", environment_id="production", text="A=1", by=by)
    line = await operated.refused("deployments/approve", **wanted, digest=await _digest(operated))
    assert line.startswith(f"{told} variables since deployment {number}")
    await operated.act("variables/set", environment_id="production", text="A=1", by=DEPLOYER)
    await operated.act("deployments/approve", **wanted, digest=await _digest(operated))


async def test_authors_of_the_inputs_at_the_time_of_the_request(operated: Operated) -> None:
    await operated.act("workflows/set", text=WORKFLOW, by=MAINTAINER)
    await operated.act("variables/set", environment_id="production", text="A=1")
    number = await _wait(operated)
    assert (await operated.act("deployments/approve", id=number, by=MAINTAINER))["status"] == "queued"


async def test_without_frozen_inputs_the_time_of_the_request_decides(operated: Operated) -> None:
    await operated.act("variables/set", environment_id="production", text="A=1", by=MAINTAINER)
    number = await _wait(operated)
    wanted = {"id": number, "by": MAINTAINER, "digest": await _digest(operated)}
    await operated.change(Deployment, number, frozen_at=None, created_at=NOW - timedelta(seconds=1))
    assert "Maintainer has changed the variables" in await operated.refused("deployments/approve", **wanted)
    # A preview and its first deployment have the same time.
    await operated.change(Deployment, number, created_at=NOW)
    await operated.act("deployments/approve", **wanted)
