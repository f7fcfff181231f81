"""The rows that a deployer writes when a deployment succeeds."""

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from control_domain.tables.deployments import Release
from deployer.deployments.begin_attempt import begin_attempt
from deployer.deployments.record import DeploymentRecord
from deployer.identity import Identity
from deployer.leases import take_lease
from tests.support.deploy_platform import Platform, environment_path
from tests.support.deployment_rows import begin_deployment, complete_deployment
from tests.support.serve_control import VARIABLE_KEYS

NAME = "shop/production"


async def test_the_live_release_is_retained_although_newer_ones_were_built(platform: Platform) -> None:
    now, environment = datetime.now(UTC), platform.acme.environment(NAME)
    newer = await platform.call("POST", environment_path(platform.acme.places[NAME], "deploy"))
    async with platform.sessions() as session, session.begin():
        await begin_deployment(session, newer.data["id"], now)
        await complete_deployment(session, newer.data["id"], now)
    source = platform.acme.deployments["production"].id
    rollback = await platform.call("POST", f"/v1/deployments/{source}/rollback")

    identity = Identity("dpl_test", "here", 1, Path("/nowhere"))
    lease = await take_lease(platform.sessions, identity, environment.id, "http://here")
    assert lease is not None
    job = await begin_attempt(platform.sessions, lease, VARIABLE_KEYS, rollback.data["id"])
    assert job is not None and job.release is not None
    record = DeploymentRecord(platform.sessions, lease, rollback.data["id"])
    await record.skip_build()
    # No step has run yet, so another attempt may resume.
    assert await begin_attempt(platform.sessions, lease, VARIABLE_KEYS, rollback.data["id"]) is not None
    await record.make_live(job.release.id, is_rollback=True)
    await record.succeed("done", retain=1)

    async with platform.sessions() as session:
        mine = (Release.environment_id == environment.id, Release.removed_at.is_(None))
        retained = set((await session.execute(select(Release.deployment_id).where(*mine))).scalars())
    assert retained == {source, newer.data["id"]}
