"""Deployments that wait are approved or rejected, and canceled, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.deployments import decisions
from control_domain.deployments.operations import tail_log
from control_domain.tables.audit import AuditEntry
from pipeline_contracts.errors import CommitUnknown, DeployRunning
from tests.support.managed_project import REVISION, ManagedProject


async def _wait(managed: ManagedProject, **request: Any) -> int:
    """Return a deployment that waits for approval."""
    await managed.change_environment(deploys_need_approval=True)
    return await managed.queue(**{"revision": REVISION, **request})


async def _read_last_line(managed: ManagedProject, number: int) -> str:
    async with managed.engines.sessions() as session:
        return (await tail_log(session, number))[0][-1].text


async def test_the_log_says_who_decided(managed: ManagedProject) -> None:
    approved, rejected, canceled = [await _wait(managed) for _ in range(3)]
    await managed.approve(approved)
    await managed.reject(rejected)
    await managed.cancel(canceled)
    assert await _read_last_line(managed, approved) == f"Approved by Maintainer: {REVISION}."
    assert await _read_last_line(managed, rejected) == "Rejected by Maintainer: because."
    assert await _read_last_line(managed, canceled) == "Canceled."


async def test_an_approval_covers_the_commit_and_the_variables(managed: ManagedProject) -> None:
    await managed.set_variables("A=1")
    number = await _wait(managed, revision=None, ref="main")
    with pytest.raises(CommitUnknown, match="The commit of main is not known yet"):
        await managed.approve(number)
    await managed.approve(number, revision=REVISION)
    deployment = await managed.deployment(number)
    assert (deployment.status, deployment.approved_revision) == ("queued", REVISION)
    assert deployment.decided_by_id == managed.people["maintainer"].id
    assert deployment.approved_variables_id is not None


async def test_an_approval_and_its_record_are_written_together(
    managed: ManagedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The savepoint of the transition is not a separate commit."""
    number = await _wait(managed)

    def fail(*_: Any) -> None:
        raise RuntimeError("the process ends here")

    monkeypatch.setattr(decisions, "add_log_line", fail)
    with pytest.raises(RuntimeError):
        await managed.approve(number)
    assert (await managed.deployment(number)).status == "awaiting_approval"


@pytest.mark.both_databases
async def test_of_two_waiting_deployments_one_is_approved(managed: ManagedProject) -> None:
    """The other one can be approved when the first is finished."""
    numbers = [await _wait(managed), await _wait(managed)]
    outcomes = await asyncio.gather(*map(managed.approve, numbers), return_exceptions=True)
    queued = numbers[outcomes.index(None)]
    (refused,) = [each for each in outcomes if isinstance(each, DeployRunning)]
    assert refused.members["active_deployment_id"] == queued
    assert await managed.count(AuditEntry, AuditEntry.action == "deployment.approve") == 1
    await managed.cancel(queued)
    (other,) = set(numbers) - {queued}
    await managed.approve(other)
