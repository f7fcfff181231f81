"""What happens to an environment, or asks for it, while it is being removed; on both databases."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy.exc import NoResultFound

from control_domain.audit import Actor
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.resolve import resolve_target
from control_domain.refusals import Refused
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.deployments import Deployment
from control_domain.tables.monitors import QueueState
from control_domain.tables.projects import Environment
from control_domain.variables.operations import replace_variables
from pipeline_contracts.deploy_states import ACTIVE_STATUSES
from pipeline_contracts.errors import NotFound, StorageUnavailable
from storage_backends.monitor_states.interface import Progress, SeenQueue
from tests.support.managed_project import NOW, REVISION, ManagedProject
from tests.support.monitored import open_states


@pytest.mark.both_databases
async def test_of_five_concurrent_removals_one_succeeds(managed: ManagedProject) -> None:
    told = await asyncio.gather(
        *(managed.act("environments/remove", id="production") for _ in range(5)), return_exceptions=True
    )
    assert len([one for one in told if isinstance(one, dict)]) == 1
    assert {str(one) for one in told if not isinstance(one, dict)} <= {
        "Environment shop/production was removed by somebody else just now.",
        "There is no environment production; `pharos environment list` shows all.",
    }
    assert await managed.count(Environment) == 0


@pytest.mark.both_databases
async def test_a_deploy_at_the_same_time_is_either_first_or_not_found(managed: ManagedProject) -> None:
    """It never stays behind, active and without its environment."""
    for _ in range(10):
        made = await managed.act("environments/create", name="Busy", type="development")
        async with managed.engines.sessions() as session:
            busy = replace(managed, target=await resolve_target(session, made["id"]))
        queued, removed = await asyncio.gather(
            busy.queue(), busy.act("environments/remove", id=made["id"]), return_exceptions=True
        )
        if isinstance(queued, int):
            assert isinstance(removed, Refused), removed
            await managed.act("deployments/cancel", id=queued)
            await managed.act("environments/remove", id=made["id"])
        else:
            assert isinstance(queued, NotFound | NoResultFound), queued
            assert isinstance(removed, dict), removed
    assert await managed.count(Deployment, Deployment.status.in_(ACTIVE_STATUSES)) == 0


@pytest.mark.both_databases
async def test_an_approval_at_the_same_time_is_either_first_or_refused(managed: ManagedProject) -> None:
    for _ in range(10):
        made = await managed.act("environments/create", name="Busy", type="development")
        await managed.act("environments/set", id=made["id"], deploy_approval=True)
        async with managed.engines.sessions() as session:
            waiting = await replace(managed, target=await resolve_target(session, made["id"])).queue()
        wanted = {"by": "maintainer@acme.example", "revision": REVISION}
        agreed = {"by": "deployer@acme.example", "approved_by": "maintainer@acme.example"}
        approved, removed = await asyncio.gather(
            managed.act("deployments/approve", id=waiting, **wanted),
            managed.act("environments/remove", id=made["id"], **agreed),
            return_exceptions=True,
        )
        assert isinstance(approved, dict) != isinstance(removed, dict), (approved, removed)
        deployment = await managed.deployment(waiting)
        if isinstance(approved, dict):
            assert isinstance(removed, Refused) and "wait until it is finished" in str(removed)
            assert (deployment.status, deployment.environment_id) == ("queued", made["number"])
            await managed.act("deployments/cancel", id=waiting)
            await managed.act("environments/remove", id=made["id"], **agreed)
        else:
            assert isinstance(approved, Refused), approved
            assert (deployment.status, deployment.environment_id) == ("canceled", None)


async def test_a_deploy_after_the_removal_is_not_found(managed: ManagedProject) -> None:
    """The request has read the environment, which is gone when it writes."""
    await managed.act("environments/remove", id="production")
    async with managed.engines.sessions() as session:
        with pytest.raises(NotFound, match="no such environment"):
            await queue_deployment(session, managed.target, DeploymentRequest("api"), Actor("test"), NOW)


async def test_variables_after_the_removal_are_refused(managed: ManagedProject) -> None:
    await managed.act("environments/remove", id="production")
    keys = managed.engines.sealing_keys()
    async with managed.engines.sessions() as session:
        with pytest.raises(NotFound, match="no such environment"):
            await replace_variables(session, keys, managed.target, {}, Actor("test"), NOW)


@pytest.mark.both_databases
async def test_a_consumer_that_writes_during_the_removal_continues(
    managed: ManagedProject, database_url: str
) -> None:
    """What it writes to a queue that is being removed is left out at the second try at the latest."""
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
            target = await resolve_target(session, "production")
            await remove_environment(session, target, Actor("operator kim"), NOW)
            writing = asyncio.create_task(write())
            await asyncio.sleep(0.3)
            # It waits for what becomes of the queue.
            assert not writing.done()
        await writing
        assert await managed.count(QueueState) == 0
    finally:
        await states.close()
