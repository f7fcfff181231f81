"""The guard distinguishes removed environments and projects from lost ones."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.projects.find import DeployTarget
from control_domain.removals.remove_project import remove_project
from control_domain.tables.accounts import Account
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project
from deployer.database_guard import DatabaseGuard
from deployer.database_memory import DatabaseRefused
from deployer.drivers.local.folders import read_traces
from deployer.environments.desired_states import Hostnames, read_desired_states, read_retained
from tests.support.databases import KINDS, migrated_database
from tests.support.deploy_scenario import ACTOR, DeployScenario, open_scenario
from tests.support.deployment_rows import begin_deployment, complete_deployment

pytestmark = pytest.mark.both_databases


@pytest.fixture(params=KINDS)
async def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DeployScenario]:
    async with (
        migrated_database(request.param, request, tmp_path) as url,
        open_scenario(url, tmp_path) as scenario,
    ):
        yield scenario


async def _poll(guard: DatabaseGuard, scenario: DeployScenario) -> set[int]:
    """Check and read the database like a deployer; return the environments that are live."""
    await guard.check()
    await guard.remember_live(
        await read_desired_states(scenario.sessions, "dpl_test", Hostnames("localhost", 8090))
    )
    await guard.close()
    return set(guard.last_live)


async def _bring_live(scenario: DeployScenario, slug: str) -> dict[str, DeployTarget]:
    places = await scenario.add_project(slug, f"https://git.example/{slug}.git")
    for target in places.values():
        number, now = await scenario.deploy(target), datetime.now(UTC)
        async with scenario.sessions() as session, session.begin():
            await begin_deployment(session, number, now)
            await complete_deployment(session, number, now)
    return places


def _guard(scenario: DeployScenario, folder: Path) -> DatabaseGuard:
    return DatabaseGuard(scenario.sessions, folder, partial(read_traces, folder))


async def _remove_project(scenario: DeployScenario, project: Project) -> None:
    async with scenario.sessions() as session, session.begin():
        account = await session.get_one(Account, project.account_id)
        await remove_project(session, account, await session.merge(project), ACTOR, datetime.now(UTC))


async def _delete_removals(scenario: DeployScenario, kind: str) -> None:
    """Delete the audit entries of removals: removed rows then look lost."""
    async with scenario.sessions() as session, session.begin():
        await session.execute(delete(AuditEntry).where(AuditEntry.action == f"{kind}.remove"))


@pytest.mark.parametrize("polls_between", [True, False])
async def test_the_last_environments_and_their_project_may_be_removed(
    scenario: DeployScenario, tmp_path: Path, polls_between: bool
) -> None:
    """They may be removed between polls, or all while the deployer is stopped."""
    places = await _bring_live(scenario, "shop")
    guard = _guard(scenario, tmp_path)
    live = {target.environment.id for target in places.values()}
    assert await _poll(guard, scenario) == live
    for target in places.values():
        await scenario.remove(target)
        live.remove(target.environment.id)
        if polls_between:
            await guard.check(target.environment.id)
            assert await _poll(guard, scenario) == live
    await _remove_project(scenario, places["staging"].project)
    guard = _guard(scenario, tmp_path)
    assert await _poll(guard, scenario) == set()
    blog = await _bring_live(scenario, "blog")
    assert await _poll(guard, scenario) == {target.environment.id for target in blog.values()}


async def test_missing_environments_without_a_recorded_removal_are_refused(
    scenario: DeployScenario, tmp_path: Path
) -> None:
    places = await _bring_live(scenario, "shop")
    guard = _guard(scenario, tmp_path)
    live = await _poll(guard, scenario)
    await scenario.remove(places["staging"])
    await _delete_removals(scenario, "environment")
    for _ in range(2):
        with pytest.raises(DatabaseRefused, match="lost the live releases of 1 environment\\."):
            await _poll(guard, scenario)
        with pytest.raises(DatabaseRefused, match="lost the live releases of 1 environment\\."):
            await guard.check(places["staging"].environment.id)
        guard = _guard(scenario, tmp_path)
    await scenario.remove(places["production"])
    await _delete_removals(scenario, "environment")
    with pytest.raises(DatabaseRefused, match="no environments any more, and 2 had a live release"):
        await guard.check()
    assert set(guard.last_live) == live


async def test_a_missing_project_without_a_recorded_removal_is_refused(
    scenario: DeployScenario, tmp_path: Path
) -> None:
    await _bring_live(scenario, "blog")
    places = await _bring_live(scenario, "shop")
    guard = _guard(scenario, tmp_path)
    await _poll(guard, scenario)
    for target in places.values():
        await scenario.remove(target)
    await _remove_project(scenario, places["staging"].project)
    await _delete_removals(scenario, "project")
    with pytest.raises(DatabaseRefused, match="older than what runs here"):
        await guard.check()


async def test_the_check_and_the_read_of_retained_data_use_one_snapshot(
    scenario: DeployScenario, tmp_path: Path
) -> None:
    """A restore that begins after the check would make everything look removed."""
    places = await _bring_live(scenario, "shop")
    guard = _guard(scenario, tmp_path)
    live = await _poll(guard, scenario)

    async def check(session: AsyncSession) -> None:
        await guard.check_in(session)
        for target in places.values():
            await scenario.remove(target)

    assert set((await read_retained(scenario.sessions, "dpl_test", check)).environments) == live
    await _delete_removals(scenario, "environment")
    with pytest.raises(DatabaseRefused, match="no environments any more"):
        await read_retained(scenario.sessions, "dpl_test", guard.check_in)
    # The former connection no longer has a transaction of that kind.
    assert not (await read_retained(scenario.sessions)).environments
    await guard.close()


async def _check_without_file(scenario: DeployScenario, folder: Path) -> None:
    guard = _guard(scenario, folder)
    await guard.check()
    await guard.close()
    (folder / "database.json").unlink()


async def test_without_its_file_the_homes_identify_the_database(
    scenario: DeployScenario, tmp_path: Path
) -> None:
    """On the first start after an upgrade, each environment with a home is in the database, or was removed."""
    places = await _bring_live(scenario, "shop")
    for target in places.values():
        (tmp_path / "homes" / target.environment.public_id).mkdir(parents=True)
    file = tmp_path / "database.json"
    live = {target.environment.id for target in places.values()}
    assert await _poll(_guard(scenario, tmp_path), scenario) == live
    await scenario.remove(places["staging"])
    live.remove(places["staging"].environment.id)
    file.unlink()
    assert await _poll(_guard(scenario, tmp_path), scenario) == live
    await _delete_removals(scenario, "environment")
    file.unlink()
    for _ in range(2):
        guard = _guard(scenario, tmp_path)
        with pytest.raises(DatabaseRefused, match="does not know 1 of the 2 environments"):
            await guard.check()
        await guard.close()
        assert not file.exists()
    file.write_text("accept\n")
    for _ in range(2):
        assert await _poll(_guard(scenario, tmp_path), scenario) == live


async def test_without_its_file_the_newest_artefact_identifies_an_older_backup(
    scenario: DeployScenario, tmp_path: Path
) -> None:
    places = await _bring_live(scenario, "shop")
    async with scenario.sessions() as session:
        newest = (await session.execute(select(func.max(Deployment.id)))).scalar_one()
    (tmp_path / "artefacts" / str(newest)).mkdir(parents=True)
    await _check_without_file(scenario, tmp_path)
    (tmp_path / "artefacts" / str(newest + 1)).mkdir()
    with pytest.raises(
        DatabaseRefused, match=f"does not have deployment {newest + 1}, which has an artefact"
    ):
        await _check_without_file(scenario, tmp_path)
    for target in places.values():
        await scenario.remove(target)
    await _remove_project(scenario, places["staging"].project)
    await _check_without_file(scenario, tmp_path)
