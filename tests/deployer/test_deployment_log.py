"""A deployment's log has each line once, even after cancellations and lost connections."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from control_domain.database.errors import DatabaseUnavailable
from control_domain.deployments.transitions import add_log_line
from control_domain.tables.deployments import DeploymentLine
from deployer.deployments import log as log_module
from deployer.deployments.log import DeploymentLog
from deployer.identity import Identity
from deployer.leases import Lease, take_lease
from deployer.log_lines.masking import Mask
from pipeline_contracts.deploy_states import DeploymentStep
from tests.support.deploy_platform import Platform

pytestmark = pytest.mark.both_databases
NAME = "shop/production"
# Iterations of the loop after which the cancellation comes.
_TURNS = 20


class Written(NamedTuple):
    """A log, its lease, and access to its stored lines."""

    platform: Platform
    number: int
    lease: Lease
    log: DeploymentLog

    async def lines(self) -> list[str]:
        async with self.platform.sessions() as session:
            query = select(DeploymentLine.text).where(DeploymentLine.deployment_id == self.number)
            return list((await session.execute(query.order_by(DeploymentLine.id))).scalars())


@pytest.fixture
async def written(platform: Platform) -> AsyncIterator[Written]:
    identity = Identity("dpl_test", "here", 1, Path("/nowhere"))
    lease = await take_lease(platform.sessions, identity, platform.acme.environment(NAME).id, "http://here")
    assert lease is not None
    number = platform.acme.deployments["production"].id

    async def note(_step: DeploymentStep) -> None: ...

    written = Written(
        platform, number, lease, DeploymentLog(platform.sessions, lease, number, Mask([]), 10**6, note)
    )
    before = await written.lines()
    await written.log.write_line("begins")
    assert await written.lines() == [*before, "begins"]
    yield written


async def test_a_flush_cancelled_during_its_commit_stores_each_line_once(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, is_over = asyncio.Event(), asyncio.Event()
    lock_lease = log_module.lock_lease

    async def hold_long(*args: Any) -> None:
        await lock_lease(*args)
        begun.set()
        await is_over.wait()
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    before = await written.lines()
    monkeypatch.setattr(log_module, "lock_lease", hold_long)
    with pytest.raises(ValueError, match="the step failed"):
        async with written.log.flushing():
            await written.log.write("stdout", b"npm ERR! missing script\n")
            await begun.wait()
            is_over.set()
            raise ValueError("the step failed")
    await written.log.write("stdout", b"at last")
    written.log.end_lines()
    await written.log.flush()
    assert await written.lines() == [*before, "npm ERR! missing script", "at last"]


@pytest.mark.parametrize("is_lost", ["before_commit", "after_commit"])
@pytest.mark.parametrize("is_given_up", [False, True])
async def test_a_connection_lost_during_a_commit_stores_each_line_once(
    written: Written, is_lost: str, is_given_up: bool
) -> None:
    """`after_commit`: the commit succeeded, but its confirmation was lost. `is_given_up`: only a later flush
    retries."""
    log, faults = written.log, 2

    def lose(_session: Session) -> None:
        nonlocal faults
        if faults:
            faults -= 1
            raise DatabaseUnavailable("the connection was lost")

    before = await written.lines()
    await log.write("stdout", b"same\nsame\nlast\n")
    ends_at, written.lease.ends_at = written.lease.ends_at, float("-inf") if is_given_up else float("inf")
    event.listen(Session, is_lost, lose)
    try:
        if is_given_up:
            faults = 1
            with pytest.raises(DatabaseUnavailable):
                await log.flush()
            async with written.platform.sessions() as session, session.begin():
                add_log_line(session, written.number, "somebody else's", datetime.now(UTC))
        written.lease.ends_at = ends_at
        await log.write("stdout", b"same\n")
        await log.flush()
    finally:
        event.remove(Session, is_lost, lose)
    expected = ["same", "same", "last", "same"]
    assert [line for line in await written.lines() if line != "somebody else's"] == [*before, *expected]
