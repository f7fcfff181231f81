"""The number of SQL statements of a read does not depend on the number of rows."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from control_domain.accounts import operations as accounts
from control_domain.tables.configuration import RunStep
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import format_time
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.control_api.deploy_api.route_table import ROWS, address, credential
from tests.support.databases import recorded_statements
from tests.support.deploy_platform import Platform, Prepared, open_platform

NOW = datetime.now(UTC)


@pytest.fixture
async def platform(
    prepared: Prepared, tmp_path: Path, column_store: ChdbColumnStore
) -> AsyncIterator[Platform]:
    async with open_platform(prepared, tmp_path, column_store) as opened:
        yield opened


async def _fill(platform: Platform, count: int) -> None:
    """Add `count` objects of every kind that a read may return, all visible to `owner` and `viewer`."""
    acme = platform.acme
    viewer = acme.people["viewer"].id
    assert acme.site is not None
    async with platform.sessions() as session, session.begin():

        async def add(table: Any, rows: list[dict[str, Any]]) -> list[int]:
            return list((await session.execute(insert(table).returning(table.id), rows)).scalars())

        def each(**values: Any) -> list[dict[str, Any]]:
            return [{**values, "created_at": NOW} for _ in range(count)]

        named = [{"public_id": (i := make_identifier("prj", 0)), "slug": i, "name": i} for _ in range(count)]
        projects = await add(
            Project,
            [{**row, **name} for row, name in zip(each(account_id=acme.account.id), named, strict=True)],
        )
        await session.execute(
            insert(ProjectRole),
            [{"project_id": project, "person_id": viewer, "role": "viewer"} for project in projects],
        )
        for project in (*projects, acme.projects["shop"].id):
            await session.execute(
                insert(Environment),
                [
                    {
                        "public_id": (i := make_identifier("env", 0)),
                        "slug": i,
                        "name": i,
                        "project_id": project,
                    }
                    | {"type": "preview", "created_at": NOW}
                    for _ in range(2)
                ],
            )
        [repository] = await add(
            Repository,
            [{"project_id": projects[0], "kind": "git", "url": "x", "branch": "main", "created_at": NOW}],
        )
        deployment = {"account_id": acme.account.id, "repository_id": repository, "status": "failed"}
        deployment |= {"trigger": "api", "needs_approval": False, "created_at": NOW}
        await add(Deployment, [{**deployment, "project_id": project} for project in projects])
        line = {
            "deployment_id": acme.deployments["development"].id,
            "at": format_time(NOW),
            "stream": "stdout",
            "text": "x",
        }
        await add(DeploymentLine, [line] * count)
        application = acme.reviewed["shop"].run
        query = select(func.count()).where(RunStep.run_id == application)
        first = (await session.execute(query)).scalar_one()
        operation = {"run_id": application, "action": "{}", "status": "canceled"}
        await add(RunStep, [{**operation, "position": first + n} for n in range(count)])
        sites = [{"public_id": (i := make_identifier("sit", 0)), "name": i} for _ in range(count)]
        site = {"project_id": projects[0], "timezone": "UTC", "domains": "[]", "created_at": NOW}
        await add(Site, [{**site, **name} for name in sites])
        goals = [{"name": f"{projects[0]} {n}", "path": f"/{n}"} for n in range(count)]
        await add(
            Goal, [{"site_id": acme.site.id, "created_at": NOW, "event": None, **goal} for goal in goals]
        )


async def _count(platform: Platform) -> dict[str, int]:
    """Return the number of statements of each read, by route and person."""
    counts = {}
    reads = [row for row in ROWS if row.method == "GET"]
    for who in ("owner", "viewer"):
        for row in reads:
            path = address(row, platform.acme)
            for query in ("", "?limit=100") if row.path in ("/v1/projects", "/v1/deployments") else ("",):
                token = platform.acme.token(who) if row.is_for_people else credential(row, platform.acme)
                # The first call records the use of the token.
                await platform.call("GET", path + query, token=token)
                with recorded_statements(platform.engine) as statements:
                    answer = await platform.call("GET", path + query, token=token)
                assert answer.status == 200
                counts[f"{who}: {row.path}{query}"] = len(statements)
    return counts


async def test_statement_count_of_reads_is_independent_of_row_count(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise the use is recorded again after each minute, which may end between two calls.
    monkeypatch.setattr(accounts, "_LAST_USED_STEP", timedelta(days=1))
    await _fill(platform, 3)
    few = await _count(platform)
    await _fill(platform, 297)
    assert await _count(platform) == few
    assert all(1 <= count <= 4 for count in few.values()), few
    async with platform.sessions() as session:
        assert len((await session.execute(select(Project.id))).all()) > 300
