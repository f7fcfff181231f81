"""The checks before an attempt at a deployment, and the inputs of the attempt."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.deployments.decisions import approve_deployment
from control_domain.deployments.inputs import read_deployment_inputs
from control_domain.deployments.queue_deployment import DeploymentRequest, Trigger, queue_deployment
from control_domain.environments.locks import lock_environment
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from control_domain.variables.operations import replace_variables
from control_domain.variables.versions import find_newest_variables
from deployer.deployments.begin_attempt import begin_attempt
from deployer.deployments.read_job import Job, PushedCommit
from deployer.identity import Identity
from deployer.leases import Lease, LeaseLost, take_lease
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep
from tests.support.deploy_platform import Platform, environment_path
from tests.support.deployment_rows import change_deployment, read_outcome
from tests.support.serve_control import VARIABLE_KEYS

NAME = "shop/production"
NOW = datetime.now(UTC)
ACTOR = Actor("operator test")
COMMIT = "c" * 40
BEFORE = "b" * 40
IDENTITY = Identity("dpl_test", "here", 1, Path("/nowhere"))


async def _queue(platform: Platform, name: str = NAME) -> int:
    answer = await platform.call("POST", environment_path(platform.acme.places[name], "deploy"))
    assert answer.status == 202
    return int(answer.data["id"])


async def _queue_push(
    platform: Platform,
    trigger: Trigger = "push",
    revision: str | None = COMMIT,
    before: str | None = BEFORE,
) -> int:
    """Queue the deployment of a webhook."""
    request = DeploymentRequest(trigger, ref="main", pushed_revision=revision, pushed_from=before)
    async with platform.sessions() as session, session.begin():
        target = await _read_place(session, platform, NAME)
        return (await queue_deployment(session, target, request, ACTOR, datetime.now(UTC))).id


async def _lease(platform: Platform, name: str = NAME) -> Lease:
    number = platform.acme.environment(name).id
    lease = await take_lease(platform.sessions, IDENTITY, number, "http://here")
    assert lease is not None
    return lease


async def _begin(
    platform: Platform, number: int, name: str = NAME, keys: SealingKeys = VARIABLE_KEYS
) -> Job | None:
    return await begin_attempt(platform.sessions, await _lease(platform, name), keys, number)


async def _read_place(session: AsyncSession, platform: Platform, name: str) -> DeployTarget:
    """Return the environment as an object of this session."""
    found = await session.get_one(Environment, platform.acme.environment(name).id)
    return DeployTarget(found, platform.acme.places[name].project)


async def _set_variables(platform: Platform, name: str = NAME, **values: str) -> None:
    async with platform.sessions() as session, session.begin():
        target = await _read_place(session, platform, name)
        actor = Actor("operator test", platform.acme.people["deployer"].id)
        await replace_variables(session, VARIABLE_KEYS, target, values, actor, datetime.now(UTC))


async def _approve(platform: Platform, number: int, revision: str | None = COMMIT) -> None:
    """Approve the present inputs of the deployment."""
    async with platform.sessions() as session, session.begin():
        deployment = await session.get_one(Deployment, number)
        environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
        admin = platform.acme.people["admin"]
        inputs = await read_deployment_inputs(
            session, deployment, environment, revision or deployment.revision
        )
        now, digest = datetime.now(UTC), inputs.digest()
        await approve_deployment(session, deployment, environment, admin, revision, ACTOR, now, digest)


@pytest.mark.both_databases
async def test_a_queued_deployment_begins(platform: Platform) -> None:
    await _set_variables(platform, KEY="value")
    number = await _queue(platform)
    job = await _begin(platform, number)
    assert job is not None
    assert (job.ref, job.revision, job.release, job.step) == ("main", None, None, None)
    assert job.variables == {"KEY": "value"}
    assert "value" not in repr(job)
    assert (await read_outcome(platform, number))[0] == "deploying"


async def test_a_lock_set_since_the_request_cancels_the_deployment_and_names_its_owner(
    platform: Platform,
) -> None:
    number = await _queue(platform)
    async with platform.sessions() as session, session.begin():
        target, actor = (
            await _read_place(session, platform, NAME),
            Actor("test", platform.acme.people["owner"].id),
        )
        await lock_environment(session, target, "end of quarter", actor, NOW)
    assert await _begin(platform, number) is None
    status, line = await read_outcome(platform, number)
    assert status == "canceled"
    assert "owner of Acme" in line and "end of quarter" in line


async def test_a_deployment_outside_its_window_is_canceled(platform: Platform) -> None:
    number = await _queue(platform)
    day = f"{datetime.now(UTC) + timedelta(days=2):%a}".lower()
    window = {"days": [day], "from": "09:00", "to": "10:00", "timezone": "UTC"}
    await platform.change(NAME, deploy_window=json.dumps(window))
    assert await _begin(platform, number) is None
    status, line = await read_outcome(platform, number)
    assert (status, day in line.lower()) == ("canceled", True)


async def test_a_deployment_to_an_environment_hibernated_since_is_canceled(platform: Platform) -> None:
    number = await _queue(platform)
    await platform.change(NAME, state="hibernated")
    assert await _begin(platform, number) is None
    assert (await read_outcome(platform, number))[0] == "canceled"


async def _disconnect(platform: Platform) -> None:
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Repository).values(disconnected_at=NOW))


async def test_a_disconnected_repository_cancels_builds_but_not_rollbacks(platform: Platform) -> None:
    number = await _queue(platform)
    await _disconnect(platform)
    assert await _begin(platform, number) is None
    canceled = ("canceled", "Canceled: the repository was disconnected.")
    assert await read_outcome(platform, number) == canceled
    source = platform.acme.deployments["production"].id
    answer = await platform.call("POST", f"/v1/deployments/{source}/rollback")
    assert await _begin(platform, answer.data["id"]) is not None


async def test_approval_required_since_the_request_is_required_before_the_start(platform: Platform) -> None:
    number = await _queue(platform)
    await platform.change(NAME, deploys_need_approval=True)
    assert await _begin(platform, number) is None
    assert (await read_outcome(platform, number))[0] == "awaiting_approval"
    await _approve(platform, number)
    job = await _begin(platform, number)
    assert job is not None and job.revision == COMMIT


async def test_an_approval_is_bound_to_the_variables(platform: Platform) -> None:
    await platform.change(NAME, deploys_need_approval=True)
    number = await _queue(platform)
    await _approve(platform, number)
    await _set_variables(platform, KEY="another")
    assert await _begin(platform, number) is None
    status, line = await read_outcome(platform, number)
    assert (status, "variables" in line) == ("awaiting_approval", True)
    await _approve(platform, number)
    job = await _begin(platform, number)
    assert job is not None and job.variables == {"KEY": "another"}


async def test_a_rollback_restores_its_variables_without_approval(platform: Platform) -> None:
    await _set_variables(platform, KEY="then")
    source = platform.acme.deployments["production"].id
    async with platform.sessions() as session, session.begin():
        then = await find_newest_variables(session, platform.acme.environment(NAME))
        assert then is not None
        values = {"variables_id": then.id}
        await session.execute(update(Release).where(Release.deployment_id == source).values(values))
    await _set_variables(platform, KEY="now")
    await platform.change(NAME, deploys_need_approval=True)
    answer = await platform.call("POST", f"/v1/deployments/{source}/rollback")
    job = await _begin(platform, answer.data["id"])
    assert job is not None and job.release is not None
    assert (job.is_rollback, job.variables, job.release.deployment_id) == (True, {"KEY": "then"}, source)


async def test_a_promotion_uses_the_artefact_with_the_variables_of_its_target(platform: Platform) -> None:
    await _set_variables(platform, "shop/staging", KEY="staging")
    await _set_variables(platform, NAME, KEY="production")
    source = platform.acme.deployments["staging"].id
    body = {"target_environment_id": platform.acme.environment(NAME).public_id}
    answer = await platform.call("POST", f"/v1/deployments/{source}/promote", body)
    job = await _begin(platform, answer.data["id"])
    assert job is not None and job.release is not None
    assert (job.variables, job.release.deployment_id) == ({"KEY": "production"}, source)


async def test_a_rollback_to_a_removed_release_fails(platform: Platform) -> None:
    source = platform.acme.deployments["production"].id
    answer = await platform.call("POST", f"/v1/deployments/{source}/rollback")
    async with platform.sessions() as session, session.begin():
        await session.execute(delete(Release).where(Release.deployment_id == source))
    assert await _begin(platform, answer.data["id"]) is None
    status, line = await read_outcome(platform, answer.data["id"])
    assert (status, "not retained" in line) == ("failed", True)


async def test_a_wrong_variables_key_fails_the_deployment_and_is_named(platform: Platform) -> None:
    await _set_variables(platform, KEY="value")
    number = await _queue(platform)
    assert (
        await _begin(platform, number, keys=SealingKeys.read("another key for variables of the test suite"))
        is None
    )
    status, line = await read_outcome(platform, number)
    assert (status, "PHAROS_VARIABLES_KEY" in line) == ("failed", True)


@pytest.mark.parametrize(
    ("status", "step", "resumes"),
    [
        ("deploying", DeploymentStep.CHECK_OUT, True),
        ("deploying", DeploymentStep.BUILD, True),
        ("running", DeploymentStep.RELEASE, False),
        ("running", DeploymentStep.START, True),
        ("running", DeploymentStep.SWITCH, True),
    ],
)
async def test_interrupted_deployments_resume_except_in_release_steps(
    platform: Platform, status: str, step: DeploymentStep, resumes: bool
) -> None:
    number = await _queue(platform)
    await change_deployment(platform, number, status=status, step=step.value, attempts=1, revision=COMMIT)
    if status == "running":
        async with platform.sessions() as session, session.begin():
            environment_id = platform.acme.environment(NAME).id
            release = Release(
                environment_id=environment_id,
                deployment_id=number,
                revision=COMMIT,
                artefact=str(number),
                created_at=NOW,
            )
            session.add(release)
            if step is DeploymentStep.SWITCH:
                await session.flush()
                await _make_live(session, release)
    job = await _begin(platform, number)
    found, line = await read_outcome(platform, number)
    assert "was stopped during this deployment" in line
    if resumes:
        assert job is not None and (job.step, job.status) == (step, DeploymentStatus(status))
        assert found == status
    else:
        assert (job, found) == (None, "failed")
        async with platform.sessions() as session:
            removed_at = select(Release.removed_at).where(Release.deployment_id == number)
            assert (await session.execute(removed_at)).scalar_one() is not None


async def _make_live(session: AsyncSession, release: Release) -> None:
    row = {"environment_id": release.environment_id, "release_id": release.id, "since": NOW, "held": False}
    await session.merge(LiveRelease(deployment_id=release.deployment_id, **row))


async def test_the_live_release_decides_whether_a_deployment_resumes_at_its_switch(
    platform: Platform,
) -> None:
    await _set_variables(platform, KEY="value")
    number = await _queue(platform)
    await change_deployment(platform, number, status="running", step="switch", attempts=3, revision=COMMIT)
    async with platform.sessions() as session, session.begin():
        variables = await find_newest_variables(session, platform.acme.environment(NAME))
        assert variables is not None
        release = Release(
            environment_id=platform.acme.environment(NAME).id,
            deployment_id=number,
            revision=COMMIT,
            artefact=str(number),
            variables_id=variables.id,
            created_at=NOW,
            # Earlier versions did this when they failed a deployment after its switch.
            removed_at=NOW,
        )
        session.add(release)
        await session.flush()
        await _make_live(session, release)
    # In each case the live release is retained, and its deployment succeeds and does not block others.
    wrong = SealingKeys.read("another key for variables of the test suite")
    assert await _begin(platform, number, keys=wrong) is None
    found, line = await read_outcome(platform, number)
    assert (found, "PHAROS_VARIABLES_KEY" in line) == ("succeeded", True)
    await change_deployment(platform, number, status="running", finished_at=None)
    job = await _begin(platform, number)
    assert job is not None and job.release is not None
    assert (job.step, job.release.id, job.variables) == (DeploymentStep.SWITCH, release.id, {"KEY": "value"})

    # Without a live release, the start is repeated: the traffic may go to another release.
    async with platform.sessions() as session, session.begin():
        await session.execute(delete(LiveRelease))
        await session.execute(update(Release).values(removed_at=None))
    await change_deployment(platform, number, attempts=1)
    job = await _begin(platform, number)
    assert job is not None and job.step is DeploymentStep.START


async def test_a_deployment_fails_after_the_third_interruption(platform: Platform) -> None:
    number = await _queue(platform)
    await change_deployment(platform, number, status="deploying", step="build", attempts=3)
    assert await _begin(platform, number) is None
    assert (await read_outcome(platform, number))[0] == "failed"


@pytest.mark.both_databases
async def test_no_attempt_begins_under_a_lost_lease(platform: Platform) -> None:
    number = await _queue(platform)
    lease = await _lease(platform)
    # The restarted deployer takes the lease.
    await _lease(platform)
    with pytest.raises(LeaseLost):
        await begin_attempt(platform.sessions, lease, VARIABLE_KEYS, number)
    assert (await read_outcome(platform, number))[0] == "queued"


@pytest.mark.parametrize("trigger", ["push", "pull_request"])
async def test_a_push_begins_with_the_commit_of_its_webhook(platform: Platform, trigger: Trigger) -> None:
    job = await _begin(platform, await _queue_push(platform, trigger))
    assert job is not None
    assert (job.ref, job.revision, job.pushed) == ("main", None, PushedCommit(BEFORE, COMMIT))


@pytest.mark.parametrize(
    ("revision", "before"), [(None, BEFORE), (COMMIT, None), (COMMIT[:12], BEFORE), (COMMIT, BEFORE[:12])]
)
async def test_an_abbreviated_commit_of_a_webhook_is_ignored(
    platform: Platform, revision: str | None, before: str | None
) -> None:
    job = await _begin(platform, await _queue_push(platform, revision=revision, before=before))
    assert job is not None and (job.revision, job.pushed) == (None, None)


@pytest.mark.parametrize("known", [{"revision": COMMIT}, {"pushed_from": COMMIT}], ids=["deployed", "left"])
async def test_a_pushed_commit_that_the_host_has_returned_before_is_ignored(
    platform: Platform, known: dict[str, str]
) -> None:
    await change_deployment(platform, platform.acme.deployments["production"].id, **known)
    job = await _begin(platform, await _queue_push(platform))
    assert job is not None and job.pushed is None


async def test_a_pushed_commit_that_only_another_environment_has_deployed_counts(platform: Platform) -> None:
    await change_deployment(platform, platform.acme.deployments["staging"].id, revision=COMMIT)
    job = await _begin(platform, await _queue_push(platform))
    assert job is not None and job.pushed == PushedCommit(BEFORE, COMMIT)


async def test_an_approved_push_builds_the_approved_commit(platform: Platform) -> None:
    await platform.change(NAME, deploys_need_approval=True)
    number = await _queue_push(platform)
    await _approve(platform, number, None)
    job = await _begin(platform, number)
    assert job is not None and job.revision == COMMIT


async def test_a_push_that_awaits_approval_is_bound_to_its_commit(platform: Platform) -> None:
    number = await _queue_push(platform)
    await platform.change(NAME, deploys_need_approval=True)
    assert await _begin(platform, number) is None
    async with platform.sessions() as session:
        waiting = await session.get_one(Deployment, number)
    assert (waiting.status, waiting.revision) == ("awaiting_approval", COMMIT)
    await _approve(platform, number, None)
    job = await _begin(platform, number)
    assert job is not None and job.revision == COMMIT


@pytest.mark.parametrize(
    ("trigger", "again"),
    [
        ("api", "it begins again with the check-out."),
        ("push", "it begins again with the check-out."),
        ("pull_request", "it begins again with the check-out."),
        ("promotion", "it begins again."),
    ],
)
async def test_an_interrupted_build_begins_again_with_the_check_out(
    platform: Platform, trigger: Trigger, again: str
) -> None:
    source = platform.acme.deployments["production"].id
    number = await _queue_push(platform, "push")
    promoted = {"promoted_from_id": source} if trigger == "promotion" else {}
    await change_deployment(
        platform, number, trigger=trigger, status="deploying", step="build", attempts=1, **promoted
    )
    assert await _begin(platform, number) is not None
    assert (await read_outcome(platform, number))[
        1
    ] == f"The deployer was stopped during this deployment: {again}"
