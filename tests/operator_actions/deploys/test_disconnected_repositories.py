"""Deployers do not check out a disconnected repository."""

from datetime import timedelta
from typing import Any

from control_domain.deployments.operations import tail_log
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from tests.support.managed_project import NOW, REVISION, ManagedProject

MAINTAINER = "maintainer@acme.example"


async def _wait(managed: ManagedProject, **request: Any) -> int:
    await managed.change_environment(deploys_need_approval=True)
    return await managed.queue("deployer", **{"revision": REVISION, **request})


async def test_what_waits_for_approval_is_canceled_but_for_releases(managed: ManagedProject) -> None:
    await managed.change_environment(deploys_need_approval=False)
    built = await managed.queue()
    await managed.change(Deployment, built, status="succeeded")
    number = await _wait(managed)
    promotion = await _wait(managed, trigger="promotion", promoted_from_id=built)
    await managed.act("repositories/disconnect", id=managed.repository.id)
    assert (await managed.deployment(number)).status == "canceled"
    async with managed.engines.sessions() as session:
        lines, _ = await tail_log(session, number)
    assert lines[-1].text == "Canceled: the repository was disconnected."
    assert (await managed.read_audit_log())[0][-1] == {"url": managed.repository.url, "canceled": 1}
    told = await managed.act("deployments/approve", id=promotion, by=MAINTAINER)
    assert told["status"] == "queued"


async def test_nothing_is_canceled_where_the_disconnect_is_refused(managed: ManagedProject) -> None:
    number = await _wait(managed)
    await managed.change_environment(deploys_need_approval=False)
    active = await managed.queue()
    line = await managed.expect_refusal("repositories/disconnect", id=managed.repository.id)
    assert line.startswith(f"Deployment {active} of the project shop is queued: wait until it is finished")
    assert (await managed.deployment(number)).status == "awaiting_approval"


async def test_an_approval_of_what_waits_still_is_refused(managed: ManagedProject) -> None:
    number = await _wait(managed)
    await managed.change(Repository, managed.repository.id, disconnected_at=NOW - timedelta(hours=1))
    line = await managed.expect_refusal("deployments/approve", id=number, by=MAINTAINER)
    assert line.startswith(
        f"The repository of deployment {number} was disconnected, and nothing is checked out"
    )
    (waiting,) = await managed.act("deployments/waiting")
    assert waiting["repository_url"] == managed.repository.url
