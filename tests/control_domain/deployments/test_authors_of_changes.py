"""The author of a changed input cannot approve the deployment that waits with this input."""

from datetime import timedelta

import pytest

from control_domain.tables.deployments import Deployment
from pipeline_contracts.errors import SecondPersonRequired
from tests.support.managed_project import NOW, REVISION, ManagedProject

WORKFLOW = "version: 1\nprocesses: {web: {command: run}}\n"


async def _wait(managed: ManagedProject) -> int:
    await managed.change_environment(deploys_need_approval=True)
    return await managed.queue("deployer", revision=REVISION)


async def _approve(managed: ManagedProject, number: int, by: str = "maintainer") -> None:
    await managed.approve(number, by, digest=await managed.read_digest(number))


async def test_who_set_the_workflow(managed: ManagedProject) -> None:
    number = await _wait(managed)
    await managed.set_workflow(WORKFLOW, by="maintainer")
    with pytest.raises(SecondPersonRequired) as refused:
        await _approve(managed, number)
    assert refused.value.detail == (
        f"Maintainer has changed the workflow since deployment {number} was requested: another person must approve it."
    )
    await _approve(managed, number, by="owner")
    assert (await managed.deployment(number)).status == "queued"


@pytest.mark.parametrize("author", ["maintainer", None])
async def test_who_set_variables_or_a_workflow_last(managed: ManagedProject, author: str | None) -> None:
    number = await _wait(managed)
    reason = "Maintainer has changed the" if author else "Pharos does not know who changed the"
    await managed.set_workflow(WORKFLOW, by=author)
    with pytest.raises(SecondPersonRequired, match=f"{reason} workflow since deployment {number}"):
        await _approve(managed, number)
    await managed.set_workflow(f"{WORKFLOW}# again\n", by="deployer")
    await managed.set_variables("A=1", by=author)
    with pytest.raises(SecondPersonRequired, match=f"{reason} variables since deployment {number}"):
        await _approve(managed, number)
    await managed.set_variables("A=1", by="deployer")
    await _approve(managed, number)


async def test_authors_of_the_inputs_at_the_time_of_the_request(managed: ManagedProject) -> None:
    await managed.set_workflow(WORKFLOW, by="maintainer")
    await managed.set_variables("A=1", by="maintainer")
    number = await _wait(managed)
    await managed.approve(number)
    assert (await managed.deployment(number)).status == "queued"


async def test_without_recorded_inputs_the_time_of_the_request_decides(managed: ManagedProject) -> None:
    await managed.set_variables("A=1", by="maintainer")
    number = await _wait(managed)
    await managed.change(Deployment, number, frozen_at=None, created_at=NOW - timedelta(seconds=1))
    with pytest.raises(SecondPersonRequired, match="Maintainer has changed the variables"):
        await _approve(managed, number)
    # A preview and its first deployment have the same time.
    await managed.change(Deployment, number, created_at=NOW)
    await _approve(managed, number)
