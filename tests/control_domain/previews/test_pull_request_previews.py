"""Previews of pull requests are created once, updated, woken and closed, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.audit import Actor
from control_domain.deployments.queue_deployment import DeploymentRequest
from control_domain.environments.change import NewEnvironment, add_environment
from control_domain.previews.operations import (
    StillStarting,
    close_preview,
    copy_variables,
    deploy_preview,
    find_pull_request_preview,
    open_pull_request_preview,
)
from control_domain.projects import limits
from control_domain.projects.find import DeployTarget
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from control_domain.tables.webhooks import ClosingPreview
from control_domain.variables.versions import find_newest_variables, open_variables
from pipeline_contracts.errors import DeployRunning, RepositoryNotReady
from tests.support import deployment_rows
from tests.support.managed_project import NOW, ManagedProject

ACTOR = Actor("webhook 203.0.113.7")


async def _open(
    managed: ManagedProject, number: int = 7, ref: str = "login", **given: Any
) -> tuple[DeployTarget, bool]:
    keys = given.get("keys", managed.engines.sealing_keys)
    source = given.get("source", managed.target)
    async with managed.engines.sessions() as session, session.begin():
        return await open_pull_request_preview(
            session, managed.project, number, ref, source, keys, ACTOR, NOW
        )


async def _not_ready(managed: ManagedProject, **given: Any) -> str:
    """Return the reason for which there is no preview; check that nothing was written, even if the rest of the
    transaction is committed."""
    before = (
        await managed.read_audit_log(),
        await managed.count(Environment),
        await managed.count(VariableSet),
    )
    keys = given.get("keys", managed.engines.sealing_keys)
    async with managed.engines.sessions() as session, session.begin():
        with pytest.raises(RepositoryNotReady) as caught:
            await open_pull_request_preview(
                session, managed.project, 7, "login", given.get("source", managed.target), keys, ACTOR, NOW
            )
    after = (
        await managed.read_audit_log(),
        await managed.count(Environment),
        await managed.count(VariableSet),
    )
    assert after == before
    return caught.value.detail


async def _find(managed: ManagedProject, number: int = 7) -> Environment | None:
    async with managed.engines.sessions() as session:
        return await find_pull_request_preview(session, managed.project, number)


async def _values(managed: ManagedProject, environment: Environment) -> dict[str, str]:
    async with managed.engines.sessions() as session:
        present = await find_newest_variables(session, environment)
    return open_variables(managed.engines.sealing_keys, present, environment.public_id)


async def _deploy(
    managed: ManagedProject, target: DeployTarget, request: DeploymentRequest | None = None
) -> Deployment:
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session, target.environment.public_id)
        return await deploy_preview(session, target, ACTOR, NOW, request)


async def _close(managed: ManagedProject, target: DeployTarget) -> None:
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session, target.environment.public_id)
        await close_preview(session, target, ACTOR, NOW)


@pytest.mark.parametrize("protected", [[], ["A"]], ids=["copied", "nothing to copy"])
async def test_variables_of_a_gated_environment_bring_its_gate(
    managed: ManagedProject, protected: list[str]
) -> None:
    """The code of a pull request gets these variables only after an approval."""
    await managed.set_variables("A=1\n")
    if protected:
        await managed.protect_variables(*protected)
    await managed.change_environment(deploys_need_approval=True)
    target, _ = await _open(managed)
    request = DeploymentRequest("pull_request", ref="login", pushed_revision="c" * 40)
    deployment = await _deploy(managed, target, request)
    expected = ("queued", None) if protected else ("awaiting_approval", "c" * 40)
    assert (deployment.status, deployment.revision) == expected
    # The gate stays while the preview is reused.
    (again, _), is_new = await _open(managed)
    assert (again.deploys_need_approval, is_new) == (not protected, False)


async def test_a_pull_request_gets_an_environment_of_its_own(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\nSECRET=hunter2\n")
    await managed.protect_variables("SECRET")
    assert await _find(managed) is None
    (made, project), is_new = await _open(managed, 7, "feature/Login")
    assert (is_new, project.id) == (True, managed.project.id)
    assert (made.slug, made.name, made.type) == ("pr-7", "Pull request 7", "preview")
    found = await _find(managed)
    assert found is not None and found.id == made.id
    assert (found.branch, found.wake_on_request, found.desired_replicas) == ("feature/Login", True, 1)
    assert (found.position, found.state) == (0, "running")
    assert await _values(managed, found) == {"A": "1"}
    details = {
        "project": managed.project.public_id,
        "name": "Pull request 7",
        "slug": "pr-7",
        "type": "preview",
        "branch": "feature/Login",
    }
    subject = f"environment {made.public_id}"
    assert (await managed.read_audit_log())[:2] == [
        ("variables.replace", subject, None, ACTOR.source, {"names": ["A"]}),
        ("environment.create", subject, None, ACTOR.source, details),
    ]
    assert await _find(managed, 8) is None
    # The variables of the source are unchanged.
    assert await _values(managed, managed.environment) == {"A": "1", "SECRET": "hunter2"}


async def test_an_existing_preview_follows_its_pull_request_and_wakes(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\n")
    (made, _), _ = await _open(managed, 7, "login")
    await managed.change(Environment, made.id, state="hibernated")
    await managed.set_variables("A=2\n")
    target, is_new = await _open(managed, 7, "refs/pull/7/head")
    assert (is_new, target.environment.id) == (False, made.id)
    found = await _find(managed)
    assert found is not None and (found.branch, found.state) == ("refs/pull/7/head", "running")
    # The preview keeps its own variables.
    assert await _values(managed, found) == {"A": "1"}
    assert [entry[:1] + entry[4:] for entry in (await managed.read_audit_log())[:2]] == [
        ("environment.state", {"from": "hibernated", "to": "running"}),
        ("environment.set", {"branch": {"from": "login", "to": "refs/pull/7/head"}}),
    ]
    before = await managed.read_audit_log()
    await _open(managed, 7, "refs/pull/7/head")
    assert await managed.read_audit_log() == before


async def test_reopening_cancels_a_pending_closing(managed: ManagedProject) -> None:
    (made, _), _ = await _open(managed)
    async with managed.engines.sessions() as session, session.begin():
        session.add(ClosingPreview(environment_id=made.id, source=ACTOR.source, created_at=NOW))
    await _open(managed)
    assert await managed.count(ClosingPreview) == 0
    async with managed.engines.sessions() as session, session.begin():
        session.add(ClosingPreview(environment_id=made.id, source=ACTOR.source, created_at=NOW))
    # The same holds if a person opens the preview by hand.
    target, _ = await managed.open_preview("login")
    assert target.environment.slug == "pr-7"
    assert await managed.count(ClosingPreview) == 0


async def test_an_environment_of_that_slug_that_is_no_preview_is_left_alone(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session, session.begin():
        new = NewEnvironment("PR 7", "staging", "pr-7", branch="main")
        await add_environment(session, managed.project, new, ACTOR, NOW)
    assert await _not_ready(managed) == (
        "The environment shop/pr-7 is not a preview: give it another slug, or remove it."
    )
    assert await _find(managed) is None
    found = (await managed.find("pr-7")).environment
    assert (found.branch, found.type) == ("main", "staging")


async def test_no_preview_is_created_if_variables_cannot_be_opened(managed: ManagedProject) -> None:
    await managed.set_variables("A=hunter2\n")
    line = await _not_ready(managed, keys=SealingKeys([b"n" * 32]))
    assert line == (
        "The variables of shop/production cannot be opened with the keys of this installation: set them again."
    )


async def test_no_preview_is_created_beyond_the_limit(
    managed: ManagedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _open(managed, 1, "first")
    monkeypatch.setattr(limits, "MAX_PREVIEWS", 1)
    assert await _not_ready(managed) == "The project has 1 previews, which is the limit: remove one first."
    # An existing preview is reused.
    _, is_new = await _open(managed, 1, "first")
    assert not is_new


async def test_variables_of_a_preview_are_not_copied(managed: ManagedProject) -> None:
    source, _ = await managed.open_preview("feature")
    assert await _not_ready(managed, source=source) == (
        "The workflow's triggers copy variables from preview-feature, which is a preview: name another environment."
    )


@pytest.mark.both_databases
async def test_of_many_concurrent_requests_one_creates_the_preview(managed: ManagedProject) -> None:
    told = await asyncio.gather(*(_open(managed) for _ in range(6)), return_exceptions=True)
    done = [one for one in told if isinstance(one, tuple)]
    assert len({target.environment.id for target, _ in done}) == 1
    assert len([target for target, is_new in done if is_new]) == 1
    refused = [one for one in told if not isinstance(one, tuple)]
    assert all(isinstance(one, RepositoryNotReady) for one in refused), refused
    assert {str(one) for one in refused} <= {"Another request has just created the environment shop/pr-7."}
    assert await managed.count(Environment, Environment.slug == "pr-7") == 1
    assert await managed.count(VariableSet) == 1


@pytest.mark.both_databases
async def test_a_concurrent_close_either_removes_the_preview_or_not(managed: ManagedProject) -> None:
    """The preview is updated before it is closed, or created again."""

    for _ in range(10):
        target, _ = await _open(managed)
        (opened, is_new), _ = await asyncio.gather(_open(managed, ref="other"), _close(managed, target))
        found = await _find(managed)
        if is_new:
            assert found is not None and found.public_id == opened.environment.public_id
            assert found.public_id != target.environment.public_id
            await _close(managed, opened)
        else:
            assert found is None


@pytest.mark.both_databases
async def test_a_preview_being_closed_is_created_again(managed: ManagedProject) -> None:
    target, _ = await _open(managed)
    async with managed.engines.sessions() as session, session.begin():
        found = await managed.read_target(session, target.environment.public_id)
        await close_preview(session, found, ACTOR, NOW)
        opening = asyncio.create_task(_open(managed))
        # The request has found the preview that this transaction removes.
        done, _ = await asyncio.wait({opening}, timeout=0.3)
        assert not done
    opened, is_new = await opening
    assert is_new
    found_now = await _find(managed)
    assert found_now is not None and found_now.public_id == opened.environment.public_id
    assert found_now.public_id != target.environment.public_id


async def test_copying_returns_the_number_of_variables(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\nB=2\nSECRET=hunter2\n")
    await managed.protect_variables("SECRET", "NEVER")
    await _open(managed)
    keys = managed.engines.sealing_keys
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session, "pr-7")
        assert await copy_variables(session, keys, managed.target, target, ACTOR, NOW) == 2


async def test_a_preview_opened_by_hand_gets_no_protected_variables(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\nSECRET=hunter2\n")
    await managed.protect_variables("SECRET")
    target, _ = await managed.open_preview("login", "production")
    assert await _values(managed, target.environment) == {"A": "1"}


async def test_the_requested_commit_of_a_pull_request_is_deployed(managed: ManagedProject) -> None:
    target, _ = await _open(managed)
    request = DeploymentRequest(
        "pull_request", repository_id=managed.repository.id, ref="login", note="pull request 7"
    )
    deployment = await _deploy(managed, target, request)
    assert (deployment.trigger, deployment.ref, deployment.note) == (
        "pull_request",
        "login",
        "pull request 7",
    )
    # A queued deployment uses the head that the branch has when it starts, by whichever name it was requested.
    assert (await _deploy(managed, target, request)).id == deployment.id
    assert (await _deploy(managed, target)).id == deployment.id
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, deployment.id, NOW)
    with pytest.raises(DeployRunning):
        await _deploy(managed, target, request)


@pytest.mark.parametrize("queued", [{"ref": "v1"}, {"revision": deployment_rows.REVISION}], ids=str)
async def test_a_queued_deployment_of_another_ref_is_not_reused(
    managed: ManagedProject, queued: dict[str, str]
) -> None:
    target, _ = await _open(managed)
    first = await _deploy(managed, target, DeploymentRequest("api", **queued))  # type: ignore[arg-type]
    with pytest.raises(DeployRunning) as caught:
        await _deploy(managed, target, DeploymentRequest("pull_request", ref="login"))
    assert caught.value.members == {"active_deployment_id": first.id}


async def test_closing_waits_for_a_deployment_past_its_build(managed: ManagedProject) -> None:
    target, _ = await _open(managed)
    number = (await _deploy(managed, target)).id
    await managed.change(Deployment, number, status="running")
    with pytest.raises(StillStarting, match="is past its build"):
        await _close(managed, target)
    assert await _find(managed) is not None
    assert (await managed.deployment(number)).status == "running"
    await managed.change(Deployment, number, status="succeeded")
    await _close(managed, target)
    assert await _find(managed) is None
