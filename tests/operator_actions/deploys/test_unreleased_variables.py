"""Variables that were changed since the live release: what is shown says that they are not live yet."""

from sqlalchemy import update

from control_domain.tables.deployments import Release
from control_domain.variables.versions import find_newest_variables
from tests.support.deployment_rows import begin_deployment, complete_deployment
from tests.support.managed_project import NOW, ManagedProject


async def _shown(managed: ManagedProject) -> bool:
    shown: bool = (await managed.act("variables/show", environment_id="production"))["not_live"]
    return shown


async def test_variables_are_not_live_until_a_release_has_them(managed: ManagedProject) -> None:
    assert not await _shown(managed)
    await managed.act("variables/set", environment_id="production", text="A=1")
    # Nothing runs that has others.
    assert not await _shown(managed)
    number = await managed.queue()
    async with managed.engines.sessions() as session, session.begin():
        await begin_deployment(session, number, NOW)
        release = await complete_deployment(session, number, NOW)
        present = await find_newest_variables(session, managed.environment)
        assert present is not None
        await session.execute(update(Release).where(Release.id == release.id).values(variables_id=present.id))
    assert not await _shown(managed)
    await managed.act("variables/set", environment_id="production", text="A=2")
    assert await _shown(managed)
