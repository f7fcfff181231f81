"""Deployers do not check out a disconnected repository."""

from datetime import timedelta
from typing import Any

from control_domain.deployments.operations import tail_log
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from tests.support.operated import NOW, REVISION, Operated

MAINTAINER = "maintainer@acme.example"


async def _wait(operated: Operated, **request: Any) -> int:
    await operated.change_environment(deploys_need_approval=True)
    return await operated.queue("deployer", **{"revision": REVISION, **request})


async def test_what_waits_for_approval_is_canceled_but_for_releases(operated: Operated) -> None:
    await operated.change_environment(deploys_need_approval=False)
    built = await operated.queue()
    await operated.change(Deployment, built, status="succeeded")
    number = await _wait(operated)
    promotion = await _wait(operated, trigger="promotion", promoted_from_id=built)
    await operated.act("repositories/disconnect", id=operated.repository.id)
    assert (await operated.deployment(number)).status == "canceled"
    async with operated.engines.sessions() as session:
        lines, _ = await tail_log(session, number)
    assert lines[-1].text == "Canceled: the repository was disconnected."
    assert (await operated.audited())[0][-1] == {"url": operated.repository.url, "canceled": 1}
    told = await operated.act("deployments/approve", id=promotion, by=MAINTAINER)
    assert told["status"] == "queued"


async def test_nothing_is_canceled_where_the_disconnect_is_refused(operated: Operated) -> None:
    number = await _wait(operated)
    await operated.change_environment(deploys_need_approval=False)
    active = await operated.queue()
    line = await operated.refused("repositories/disconnect", id=operated.repository.id)
    assert line.startswith(f"Deployment {active} of the project shop is queued: wait until it is finished")
    assert (await operated.deployment(number)).status == "awaiting_approval"


async def test_an_approval_of_what_waits_still_is_refused(operated: Operated) -> None:
    number = await _wait(operated)
    await operated.change(Repository, operated.repository.id, disconnected_at=NOW - timedelta(hours=1))
    line = await operated.refused("deployments/approve", id=number, by=MAINTAINER)
    assert line.startswith(
        f"The repository of deployment {number} was disconnected, and nothing is checked out"
    )
    (waiting,) = await operated.act("deployments/waiting")
    assert waiting["repository_url"] == operated.repository.url
