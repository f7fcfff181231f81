"""Variables that were changed since the live release: what is shown says that they are not live yet."""

from sqlalchemy import update

from control_domain.tables.deployments import Release
from control_domain.variables.operations import find_newest_variables
from tests.support.carried_out import begin, bring_live
from tests.support.operated import NOW, Operated


async def _shown(operated: Operated) -> bool:
    shown: bool = (await operated.act("variables/show", environment_id="production"))["not_live"]
    return shown


async def test_variables_are_not_live_until_a_release_has_them(operated: Operated) -> None:
    assert not await _shown(operated)
    await operated.act("variables/set", environment_id="production", text="A=1")
    # Nothing runs that has others.
    assert not await _shown(operated)
    number = await operated.queue()
    async with operated.engines.sessions() as session, session.begin():
        await begin(session, number, NOW)
        release = await bring_live(session, number, NOW)
        present = await find_newest_variables(session, operated.environment)
        assert present is not None
        await session.execute(update(Release).where(Release.id == release.id).values(variables_id=present.id))
    assert not await _shown(operated)
    await operated.act("variables/set", environment_id="production", text="A=2")
    assert await _shown(operated)
