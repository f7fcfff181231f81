"""Reads deployments from the database, and writes the rows of a deployer for tests that run none."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.transitions import transition_deployment
from control_domain.tables.deployments import Deployment, DeploymentLine, LiveRelease, Release
from control_domain.tables.runtime import EnvironmentLease, Instance
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep
from pipeline_contracts.times import format_time
from tests.support.deploy_platform import Platform


async def read_outcome(platform: Platform, number: int) -> tuple[str, str]:
    """Return the deployment's status and the last line of its log."""
    async with platform.sessions() as session:
        lines = select(DeploymentLine.text).where(DeploymentLine.deployment_id == number)
        last = (await session.execute(lines.order_by(DeploymentLine.id.desc()).limit(1))).scalar_one()
        return (await session.get_one(Deployment, number)).status, last


async def change_deployment(platform: Platform, number: int, **values: Any) -> None:
    """Set columns of the deployment."""
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(**values))


ADDRESS = "http://production.shop.localhost:8090"
HOLDER = "web1:/srv/deploys"
REVISION = "0123456789abcdef0123456789abcdef01234567"
WORKFLOW = {
    "build": {"steps": [], "timeout_seconds": 900},
    "release": {"steps": [], "timeout_seconds": 900},
    "processes": {
        "web": {"command": "python app.py"},
        "worker": {"command": "python work.py", "replicas": 2},
    },
    "triggers": {"push": {}},
    "retain": 5,
}


async def lease_environment(
    session: AsyncSession, environment_id: int, now: datetime, *, seconds: float = 3600, **values: Any
) -> None:
    """Give a deployer the environment's lease for `seconds`; if negative, the lease has expired that long ago.

    Leases use the database's clock, not the test's `now`.
    """
    await session.execute(delete(EnvironmentLease).where(EnvironmentLease.environment_id == environment_id))
    row = {"holder": "dpl_1", "holder_name": HOLDER, "fence": 1, "address": ADDRESS, "doing": None}
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    session.add(EnvironmentLease(environment_id=environment_id, leased_until=until, **{**row, **values}))


async def expire_leases(session: AsyncSession, now: datetime) -> None:
    """Let all leases expire: no deployer renews them any more."""
    await session.execute(update(EnvironmentLease).values(leased_until=now))


async def add_lines(
    session: AsyncSession, deployment_id: int, now: datetime, *texts: str, stream: str = "system"
) -> None:
    """Append lines to the deployment's log."""
    for text in texts:
        session.add(
            DeploymentLine(deployment_id=deployment_id, at=format_time(now), stream=stream, text=text)
        )
        await session.flush()


async def begin_deployment(session: AsyncSession, deployment_id: int, now: datetime) -> Deployment:
    """Move the deployment to its build step."""
    deployment = await session.get_one(Deployment, deployment_id)
    step = DeploymentStep.BUILD.value
    await transition_deployment(session, deployment, DeploymentStatus.DEPLOYING, now, step=step)
    return deployment


async def complete_deployment(session: AsyncSession, deployment_id: int, now: datetime) -> Release:
    """Let the deployment succeed and make its release live. A rollback makes the old release live again."""
    deployment = await session.get_one(Deployment, deployment_id)
    step = DeploymentStep.SWITCH.value
    await transition_deployment(session, deployment, DeploymentStatus.RUNNING, now, step=step)
    assert deployment.environment_id is not None
    source_id = deployment.rolled_back_to_id
    query = select(Release).where(Release.deployment_id == source_id)
    release = None if source_id is None else (await session.execute(query)).scalar_one()
    if release is None:
        release = Release(
            environment_id=deployment.environment_id,
            deployment_id=deployment.id,
            revision=deployment.revision or REVISION,
            artefact=f"artefacts/{deployment.id}",
            created_at=now,
            workflow=json.dumps(WORKFLOW),
        )
        session.add(release)
        await session.flush()
    await session.execute(delete(LiveRelease).where(LiveRelease.environment_id == deployment.environment_id))
    session.add(
        LiveRelease(
            environment_id=deployment.environment_id,
            release_id=release.id,
            deployment_id=deployment.id,
            since=now,
            held=source_id is not None,
        )
    )
    await add_lines(session, deployment.id, now, "Live.")
    await transition_deployment(session, deployment, DeploymentStatus.SUCCEEDED, now)
    return release


async def fail_deployment(session: AsyncSession, deployment_id: int, now: datetime, reason: str) -> None:
    """Let the deployment fail; `reason` is the last line of its log."""
    deployment = await session.get_one(Deployment, deployment_id)
    await add_lines(session, deployment_id, now, reason)
    await transition_deployment(session, deployment, DeploymentStatus.FAILED, now)


async def replace_instances(
    session: AsyncSession, deployment_id: int, now: datetime, rows: Sequence[dict[str, Any]]
) -> None:
    """Make these the only instances of the environment; `rows` are their columns."""
    deployment = await session.get_one(Deployment, deployment_id)
    assert deployment.environment_id is not None
    await session.execute(delete(Instance).where(Instance.environment_id == deployment.environment_id))
    defaults = {"process": "web", "number": 1, "state": "running", "port": None, "pid": 4711, "restarts": 0}
    owner = {"environment_id": deployment.environment_id, "deployment_id": deployment_id, "started_at": now}
    session.add_all(Instance(**{**owner, **defaults, **row}) for row in rows)


async def remove_release(session: AsyncSession, deployment_id: int, now: datetime) -> None:
    """Mark the deployment's release as removed."""
    await session.execute(
        update(Release).where(Release.deployment_id == deployment_id).values(removed_at=now)
    )
