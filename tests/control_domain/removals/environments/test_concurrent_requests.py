"""Requests for an environment while it is being removed, on both databases."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import NoResultFound

from control_domain.audit import Actor
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.deployments import Deployment
from control_domain.tables.monitors import QueueState
from control_domain.tables.projects import Environment
from control_domain.tables.variables import ProtectedVariable
from control_domain.variables.operations import replace_variables
from control_domain.variables.protection import protect_variables
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, ForbiddenTransition
from pipeline_contracts.errors import Conflict, DeployRunning, NotFound, StorageUnavailable
from storage_backends.monitor_states.interface import Progress, SeenQueue
from tests.support.lock_waits import ends_or_waits
from tests.support.managed_project import NOW, REVISION, ManagedProject
from tests.support.monitored import open_states

_ROUNDS = 10
_GONE = (NotFound, NoResultFound)
"""The errors of a request that finds no environment: from an operation, or from the look-up of the test."""


async def _remove_gated(managed: ManagedProject, name: str) -> None:
    """Remove an environment with a gate, as two people do by a configuration."""
    async with managed.engines.sessions() as session, session.begin():
        target = await managed.read_target(session, name)
        await remove_environment(session, target, managed.actor(), NOW)


@pytest.mark.both_databases
async def test_of_five_concurrent_removals_one_succeeds(managed: ManagedProject) -> None:
    outcomes: list[Any] = await asyncio.gather(
        *(managed.remove_environment() for _ in range(5)), return_exceptions=True
    )
    assert len([each for each in outcomes if isinstance(each, _GONE)]) == 4
    assert await managed.count(Environment) == 0


@pytest.mark.both_databases
async def test_a_deploy_at_the_same_time_is_either_first_or_not_found(managed: ManagedProject) -> None:
    """No deployment stays active without its environment."""
    for _ in range(_ROUNDS):
        busy = replace(managed, target=await managed.add_environment("Busy", "development"))
        queued, removed = await asyncio.gather(
            busy.queue(), managed.remove_environment("busy"), return_exceptions=True
        )
        if isinstance(queued, int):
            assert isinstance(removed, DeployRunning), removed
            await managed.cancel(queued)
            await managed.remove_environment("busy")
        else:
            assert isinstance(queued, _GONE), queued
            assert not isinstance(removed, BaseException), removed
    assert await managed.count(Deployment, Deployment.status.in_(ACTIVE_STATUSES)) == 0


@pytest.mark.both_databases
async def test_an_approval_at_the_same_time_is_either_first_or_refused(managed: ManagedProject) -> None:
    for _ in range(_ROUNDS):
        busy = replace(managed, target=await managed.add_environment("Busy", "development"))
        await managed.change_settings("busy", deploys_need_approval=True)
        waiting = await busy.queue()
        approved, removed = await asyncio.gather(
            managed.approve(waiting, revision=REVISION),
            _remove_gated(managed, "busy"),
            return_exceptions=True,
        )
        assert (approved is None) != (removed is None), (approved, removed)
        deployment = await managed.deployment(waiting)
        if approved is None:
            assert isinstance(removed, DeployRunning), removed
            assert (deployment.status, deployment.environment_id) == ("queued", busy.environment.id)
            await managed.cancel(waiting)
            await _remove_gated(managed, "busy")
        else:
            assert isinstance(approved, Conflict | NotFound | ForbiddenTransition), approved
            assert (deployment.status, deployment.environment_id) == ("canceled", None)


@pytest.mark.both_databases
async def test_protecting_at_the_same_time_leaves_no_row(managed: ManagedProject) -> None:
    for _ in range(_ROUNDS // 2):
        await managed.add_environment("Busy", "development")
        removed, protected = await asyncio.gather(
            managed.remove_environment("busy"),
            managed.protect_variables("A", environment="busy"),
            return_exceptions=True,
        )
        assert not isinstance(removed, BaseException), removed
        assert protected is None or isinstance(protected, _GONE), protected
        assert await managed.count(ProtectedVariable) == 0


async def test_environment_read_before_the_removal_is_not_found(managed: ManagedProject) -> None:
    """The request has read the environment, which is removed when the request writes."""
    await managed.remove_environment()
    keys, actor = managed.engines.sealing_keys, Actor("test")
    async with managed.engines.sessions() as session:
        with pytest.raises(NotFound, match="no such environment"):
            await queue_deployment(session, managed.target, DeploymentRequest("api"), actor, NOW)
        with pytest.raises(NotFound, match="no such environment"):
            await replace_variables(session, keys, managed.target, {}, actor, NOW)
        with pytest.raises(NotFound, match="no such environment"):
            await protect_variables(session, managed.target, ["A"], actor, NOW)


@pytest.mark.both_databases
async def test_a_consumer_that_writes_during_the_removal_continues(
    managed: ManagedProject, database_url: str
) -> None:
    """At the latest, the second attempt omits the rows of the removed queue."""
    queue = (await managed.objects.add_queue()).id
    states = await open_states(database_url)
    seen = SeenQueue(queue, managed.environment.public_id, "s1", 1, 1, 1, None, None, None, None)

    async def write() -> None:
        while True:
            try:
                return await states.apply_queues([seen], [], Progress("queues", 0, 1))
            except StorageUnavailable:
                continue

    try:
        async with managed.engines.sessions() as session, session.begin():
            target = await managed.read_target(session)
            await remove_environment(session, target, managed.actor(), NOW)
            writing = asyncio.create_task(write())
            await ends_or_waits(managed.engines.sessions, writing)
            # The consumer waits for the end of the removal.
            assert not writing.done()
        await writing
        assert await managed.count(QueueState) == 0
        async with managed.engines.sessions() as session:
            assert (await session.execute(select(Environment))).all() == []
    finally:
        await states.close()
