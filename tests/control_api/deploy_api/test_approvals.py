"""A second person approves or rejects a waiting deployment; deployments are cancelled."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.audit import Actor
from control_domain.deployments.decisions import approve_deployment, cancel_deployment, reject_deployment
from control_domain.deployments.inputs import input_columns, read_deployment_inputs
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import Environment, EnvironmentLock
from control_domain.tables.variables import VariableSet
from pipeline_contracts.deploy_states import (
    ACTIVE_STATUSES,
    FINAL_STATUSES,
    DeploymentStatus,
    ForbiddenTransition,
)
from pipeline_contracts.errors import (
    CommitUnknown,
    Conflict,
    DeployRunning,
    EnvironmentLocked,
    EnvironmentNotReady,
    NotFound,
    SecondPersonRequired,
)
from tests.support.deploy_platform import Platform, add_deployment, environment_path

NOW = datetime.now(UTC) + timedelta(seconds=1)
NAME = "shop/production"
COMMIT, OTHER_COMMIT = "c" * 40, "d" * 40


def _actor(platform: Platform, who: str) -> Actor:
    return Actor("operator test", person_id=platform.acme.people[who].id)


async def _waiting(platform: Platform, name: str = NAME, who: str = "deployer", **values: Any) -> int:
    """Queue a deployment by this person, of a commit that is not known yet."""
    asked_by = platform.acme.people[who].id
    row = {"status": "awaiting_approval", "revision": None, "asked_by_id": asked_by, "needs_approval": True}
    async with platform.sessions() as session, session.begin():
        made = await add_deployment(session, platform.acme, name, NOW, **{**row, **values})
        environment = await session.get_one(Environment, made.environment_id)
        inputs = await read_deployment_inputs(session, made, environment, made.revision)
        for column, value in input_columns(inputs, NOW).items():
            setattr(made, column, value)
        return made.id


async def _read(platform: Platform, number: int) -> Deployment:
    async with platform.sessions() as session:
        return await session.get_one(Deployment, number)


async def _approve(
    platform: Platform, number: int, revision: str | None = None, who: str = "maintainer"
) -> None:
    async with platform.sessions() as session, session.begin():
        deployment = await session.get_one(Deployment, number)
        environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
        person, actor = platform.acme.people[who], _actor(platform, who)
        await approve_deployment(session, deployment, environment, person, revision, actor, NOW)


async def _reject(platform: Platform, number: int, who: str = "maintainer") -> None:
    async with platform.sessions() as session, session.begin():
        deployment = await session.get_one(Deployment, number)
        person = platform.acme.people[who]
        await reject_deployment(session, deployment, person, "too late", _actor(platform, who), NOW)


async def _cancel(platform: Platform, number: int) -> None:
    async with platform.sessions() as session, session.begin():
        deployment = await session.get_one(Deployment, number)
        await cancel_deployment(session, deployment, _actor(platform, "owner"), NOW)


async def _read_logs(platform: Platform, number: int) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Return the deployment's log and its audit entries."""
    async with platform.sessions() as session:
        lines = select(DeploymentLine.text).where(DeploymentLine.deployment_id == number)
        entries = (
            select(AuditEntry).where(AuditEntry.subject == f"deployment {number}").order_by(AuditEntry.id)
        )
        return list((await session.execute(lines.order_by(DeploymentLine.id))).scalars()), [
            (entry.action, json.loads(entry.details)) for entry in (await session.execute(entries)).scalars()
        ]


async def test_approval_is_bound_to_commit_and_variables(platform: Platform) -> None:
    path = environment_path(platform.acme.places[NAME], "variables")
    await platform.call("PUT", path, {"variables": "A=1"})
    await platform.call("PUT", path, {"variables": "A=2"})
    number = await _waiting(platform)
    await _approve(platform, number, COMMIT)
    row = await _read(platform, number)
    async with platform.sessions() as session:
        newest = select(VariableSet.id).where(VariableSet.version == 2)
        variables_id = (await session.execute(newest)).scalar_one()
    maintainer = platform.acme.people["maintainer"]
    assert (row.status, row.revision, row.approved_revision) == ("queued", COMMIT, COMMIT)
    assert (row.approved_variables_id, row.decided_by_id, row.decided_at) == (
        variables_id,
        maintainer.id,
        NOW,
    )
    assert row.finished_at is None
    assert row.approved_digest is not None
    assert await _read_logs(platform, number) == (
        [f"Approved by {maintainer.name}: {COMMIT}."],
        [("deployment.approve", {"revision": COMMIT, "digest": row.approved_digest})],
    )
    seen = (await platform.call("GET", f"/v1/deployments/{number}")).data
    assert (seen["status"], seen["revision"]) == ("queued", COMMIT)


async def test_approval_without_variables(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT)
    await _approve(platform, number)
    row = await _read(platform, number)
    assert (row.approved_revision, row.approved_variables_id) == (COMMIT, None)


async def test_approval_must_name_an_unknown_commit(platform: Platform) -> None:
    number = await _waiting(platform)
    with pytest.raises(CommitUnknown, match="not known yet"):
        await _approve(platform, number)
    assert (await _read(platform, number)).status == "awaiting_approval"


async def test_error_explains_why_the_commit_is_unknown(platform: Platform) -> None:
    number = await _waiting(platform, ref="main", commit_fault="The host did not answer.")
    with pytest.raises(CommitUnknown, match="main could not be looked up: The host did not answer. Fix that"):
        await _approve(platform, number)


async def test_approval_of_another_commit_is_refused(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT)
    with pytest.raises(Conflict, match=COMMIT):
        await _approve(platform, number, OTHER_COMMIT)
    assert (await _read(platform, number)).status == "awaiting_approval"
    await _approve(platform, number, COMMIT)


async def test_requester_cannot_decide_own_deployment(platform: Platform) -> None:
    number = await _waiting(platform, who="maintainer", revision=COMMIT)
    before = await platform.contents()
    for decide in (_approve, _reject):
        with pytest.raises(SecondPersonRequired, match="another person"):
            await decide(platform, number, who="maintainer")
    assert await platform.contents() == before
    # Cancelling is not a decision, so the requester may cancel.
    await _cancel(platform, number)
    assert (await _read(platform, number)).status == "canceled"


async def test_anybody_may_approve_a_deployment_of_an_operator(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT, asked_by_id=None)
    await _approve(platform, number)
    assert (await _read(platform, number)).status == "queued"


async def test_approval_waits_for_the_active_deployment(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT)
    for status in ACTIVE_STATUSES:
        async with platform.sessions() as session, session.begin():
            active = (await add_deployment(session, platform.acme, NAME, NOW, status=status.value)).id
        before = await platform.contents()
        with pytest.raises(DeployRunning) as raised:
            await _approve(platform, number)
        assert raised.value.members == {"active_deployment_id": active}
        assert await platform.contents() == before
        await platform.settle()
    await _approve(platform, number)
    assert (await _read(platform, number)).status == "queued"


async def test_approval_checks_again_if_the_environment_accepts_deploys(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT)
    environment = platform.acme.environment(NAME)
    await platform.change(NAME, state="hibernated")
    with pytest.raises(EnvironmentNotReady):
        await _approve(platform, number)
    await platform.change(NAME, state="running")
    async with platform.sessions() as session, session.begin():
        session.add(EnvironmentLock(environment_id=environment.id, reason="x", locked_at=NOW))
    with pytest.raises(EnvironmentLocked):
        await _approve(platform, number)
    assert (await _read(platform, number)).status == "awaiting_approval"


Decide = Callable[[Platform, int], Awaitable[None]]
DECISIONS: dict[str, Decide] = {"approve": _approve, "reject": _reject, "cancel": _cancel}


async def test_decided_deployment_is_not_decided_again(platform: Platform) -> None:
    for first, second in itertools.product(DECISIONS, DECISIONS):
        number = await _waiting(platform, revision=COMMIT)
        await DECISIONS[first](platform, number)
        if (first, second) == ("approve", "cancel"):
            # A queued deployment can still be cancelled.
            await _cancel(platform, number)
            assert (await _read(platform, number)).status == "canceled"
            continue
        before = await platform.contents()
        with pytest.raises(ForbiddenTransition):
            await DECISIONS[second](platform, number)
        assert await platform.contents() == before, (first, second)
        await platform.settle()


@pytest.mark.both_databases
async def test_cancellable_statuses(platform: Platform) -> None:
    for status in DeploymentStatus:
        await platform.settle()
        number = await _waiting(platform, status=status.value)
        if status in FINAL_STATUSES or status == "running":
            with pytest.raises(ForbiddenTransition):
                await _cancel(platform, number)
            assert (await _read(platform, number)).status == status
            continue
        await _cancel(platform, number)
        row = await _read(platform, number)
        assert (row.status, row.finished_at) == ("canceled", NOW)
        assert await _read_logs(platform, number) == (["Canceled."], [("deployment.cancel", {})])
        deployed = await platform.call("POST", environment_path(platform.acme.places[NAME], "deploy"))
        assert deployed.status == 202


@pytest.mark.both_databases
async def test_rejection_ends_the_deployment_with_a_reason(platform: Platform) -> None:
    number = await _waiting(platform)
    await _reject(platform, number)
    row = await _read(platform, number)
    maintainer = platform.acme.people["maintainer"]
    assert (row.status, row.finished_at, row.decided_by_id) == ("rejected", NOW, maintainer.id)
    assert await _read_logs(platform, number) == (
        [f"Rejected by {maintainer.name}: too late."],
        [("deployment.reject", {"reason": "too late"})],
    )


@pytest.mark.both_databases
async def test_one_of_many_concurrent_decisions_succeeds(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT)
    outcomes = await asyncio.gather(
        *(decide(platform, number) for decide in (_approve, _reject) for _ in range(5)),
        return_exceptions=True,
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(outcome, ForbiddenTransition) for outcome in outcomes if outcome is not None)
    lines, entries = await _read_logs(platform, number)
    assert (len(lines), len(entries)) == (1, 1)


@pytest.mark.both_databases
async def test_one_of_many_concurrently_approved_deployments_is_queued(platform: Platform) -> None:
    numbers = [await _waiting(platform, revision=COMMIT) for _ in range(8)]
    outcomes = await asyncio.gather(*(_approve(platform, n) for n in numbers), return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(outcome, DeployRunning) for outcome in outcomes if outcome is not None)
    statuses = [(await _read(platform, number)).status for number in numbers]
    assert sorted(statuses) == ["awaiting_approval"] * 7 + ["queued"]


async def test_approval_is_atomic(platform: Platform) -> None:
    """A later failure in the same transaction undoes the approval."""
    number = await _waiting(platform, revision=COMMIT)
    before = await platform.contents()
    with pytest.raises(ZeroDivisionError):
        async with platform.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
            person, actor = platform.acme.people["maintainer"], _actor(platform, "maintainer")
            await approve_deployment(session, deployment, environment, person, None, actor, NOW)
            raise ZeroDivisionError
    assert await platform.contents() == before


async def test_deployment_waiting_in_a_removed_environment(platform: Platform) -> None:
    number = await _waiting(platform, revision=COMMIT)
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(environment_id=None))
    with pytest.raises(NotFound):
        async with platform.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            gone = Environment(id=2**31 - 1)
            person = platform.acme.people["maintainer"]
            await approve_deployment(
                session, deployment, gone, person, None, _actor(platform, "maintainer"), NOW
            )
    await _cancel(platform, number)
