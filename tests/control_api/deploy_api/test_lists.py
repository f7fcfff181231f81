"""Lists of projects and deployments: exact while rows are added, and limited to the projects that the person may
see."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import insert, select

from control_domain.database.engine import Sessions
from control_domain.projects.operations import create_project
from control_domain.tables.accounts import Membership
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project, ProjectRole
from control_domain.tables.repositories import Repository
from pipeline_contracts.identifiers import make_identifier
from tests.support.deploy_platform import Platform, Tenant

NOW = datetime.now(UTC)
DEPLOYMENTS = "/v1/deployments"
PROJECTS = "/v1/projects"


async def _walk(platform: Platform, path: str, limit: int, who: str = "owner") -> AsyncIterator[list[Any]]:
    """Yield the rows of each page."""
    query = f"?limit={limit}"
    while True:
        answer = await platform.call("GET", f"{path}{query}", token=platform.acme.token(who))
        told = answer.json()
        assert answer.status == 200, told
        assert len(told["data"]) == limit or told["next_cursor"] is None
        yield told["data"]
        if told["next_cursor"] is None:
            return
        query = f"?limit={limit}&cursor={told['next_cursor']}"


async def _ids(platform: Platform, path: str, limit: int, who: str = "owner") -> list[Any]:
    return [row["id"] async for page in _walk(platform, path, limit, who) for row in page]


async def _add_deployments(sessions: Sessions, tenant: Tenant, name: str, count: int) -> list[int]:
    like = tenant.deployments["development"]
    row = {
        "account_id": like.account_id,
        "project_id": like.project_id,
        "repository_id": like.repository_id,
        "environment_id": tenant.environment(name).id,
        "status": "failed",
        "trigger": "api",
        "needs_approval": False,
        "created_at": NOW,
    }
    async with sessions() as session, session.begin():
        return list(
            (await session.execute(insert(Deployment).returning(Deployment.id), [row] * count)).scalars()
        )


@pytest.mark.both_databases
async def test_paging_over_deployments_is_exact_while_rows_are_added(platform: Platform) -> None:
    """Ten tasks add deployments in both accounts while each page is read. One reader sees all projects, another one
    sees one project."""
    acme, sessions = platform.acme, platform.sessions
    before = await _add_deployments(sessions, acme, "shop/staging", 300)
    before += [deployment.id for deployment in acme.deployments.values()]
    names = [f"shop/{slug}" for slug in acme.deployments]
    walks = {who: _walk(platform, DEPLOYMENTS, 12, who) for who in ("owner", "viewer")}
    seen: dict[str, list[Any]] = {who: [] for who in walks}
    added = 0

    async def add(of: Tenant, name: str) -> list[Any]:
        return await _add_deployments(sessions, of, name, 4)

    while True:
        adding = [add(acme, names[n % 3]) for n in range(9)] + [add(platform.other, "shop/staging")]
        *new, owners, viewers = await asyncio.gather(*adding, *(anext(walk, []) for walk in walks.values()))
        added += sum(map(len, new))
        if not owners and not viewers:
            break
        seen["owner"] += owners
        seen["viewer"] += viewers
    assert added >= 1000
    others = {environment.public_id for environment, _ in platform.other.places.values()}
    for who, rows in seen.items():
        ids = [row["id"] for row in rows]
        assert ids == sorted(set(ids), reverse=True), who
        assert set(before) <= set(ids), who
        assert not others & {row["environment_id"] for row in rows}, who


@pytest.mark.both_databases
async def test_paging_over_projects_is_exact_while_rows_are_added(platform: Platform) -> None:
    acme, sessions = platform.acme, platform.sessions

    async def add(of: Tenant, count: int) -> list[str]:
        async with sessions() as session, session.begin():
            rows = [_project(of) for _ in range(count)]
            await session.execute(insert(Project), rows)
            return [row["public_id"] for row in rows]

    before = [project.public_id for project in acme.projects.values()] + await add(acme, 300)
    ids: list[str] = []
    added = 0
    walk = _walk(platform, PROJECTS, 12)
    while True:
        adding = [*(add(acme, 5) for _ in range(8)), add(platform.other, 5)]
        page, new = await asyncio.gather(anext(walk, []), asyncio.gather(*adding))
        added += sum(map(len, new))
        if not page:
            break
        ids += [row["id"] for row in page]
    assert added >= 1000
    assert len(ids) == len(set(ids))
    assert set(before) <= set(ids)
    async with sessions() as session:
        query = select(Project.public_id).where(Project.public_id.in_(ids)).order_by(Project.id.desc())
        assert ids == list((await session.execute(query)).scalars())


def _project(tenant: Tenant) -> dict[str, Any]:
    identity = make_identifier("prj", 0)
    return {
        "public_id": identity,
        "account_id": tenant.account.id,
        "name": "One of many",
        "slug": identity,
        "created_at": NOW,
    }


@pytest.mark.both_databases
async def test_defaults_are_all_projects_and_the_newest_fifty_deployments(
    platform: Platform,
) -> None:
    async with platform.sessions() as session, session.begin():
        await session.execute(insert(Project), [_project(platform.acme) for _ in range(120)])
    await _add_deployments(platform.sessions, platform.acme, "shop/staging", 60)
    told = (await platform.call("GET", PROJECTS)).json()
    assert (len(told["data"]), "next_cursor" in told) == (122, False)
    told = (await platform.call("GET", DEPLOYMENTS)).json()
    assert len(told["data"]) == 50
    following = (await platform.call("GET", f"{DEPLOYMENTS}?cursor={told['next_cursor']}")).json()
    assert (len(following["data"]), following["next_cursor"]) == (13, None)
    every = [row["id"] for row in told["data"] + following["data"]]
    assert every == await _ids(platform, DEPLOYMENTS, 100) == await _ids(platform, DEPLOYMENTS, 7)


async def test_full_last_page_has_no_cursor(platform: Platform) -> None:
    assert [len(page) async for page in _walk(platform, DEPLOYMENTS, 3)] == [3]
    assert [len(page) async for page in _walk(platform, DEPLOYMENTS, 1)] == [1, 1, 1]
    assert [len(page) async for page in _walk(platform, PROJECTS, 2)] == [2]


@pytest.mark.both_databases
async def test_empty_list(platform: Platform) -> None:
    for path in (DEPLOYMENTS, f"{PROJECTS}?limit=5"):
        answer = await platform.call("GET", path, token=platform.acme.token("stranger"))
        assert answer.json() == {"data": [], "next_cursor": None}
    answer = await platform.call("GET", PROJECTS, token=platform.acme.token("stranger"))
    assert answer.json() == {"data": []}


BAD_LIMITS = [
    "0", "101", "abc", "", "-1", "%2B5", "1.0", "1e1", "%205", "5%20", "%D9%A3", "%00", "0x5", "5,5", "1000", "null",
]  # fmt: skip


@pytest.mark.parametrize("path", [DEPLOYMENTS, PROJECTS])
async def test_invalid_page_is_422_with_every_field(shared: Platform, path: str) -> None:
    async def refused(query: str) -> list[str]:
        answer = await shared.call("GET", f"{path}?{query}")
        assert answer.problem == (422, "validation-failed"), query
        return answer.fields

    for limit in BAD_LIMITS:
        assert await refused(f"limit={limit}") == ["limit"], limit
    assert await refused("limit=5&limit=5") == ["limit"]

    async def cursor_of(where: str, token: str) -> str:
        told: str = (await shared.call("GET", f"{where}?limit=1", token=token)).json()["next_cursor"]
        return told

    own = await cursor_of(path, shared.acme.token())
    assert (await shared.call("GET", f"{path}?cursor={own}")).status == 200
    altered = [own[:n] + ("A" if own[n] != "A" else "B") + own[n + 1 :] for n in range(len(own))]
    other_list = await cursor_of(DEPLOYMENTS if path == PROJECTS else PROJECTS, shared.acme.token())
    others = await cursor_of(path, shared.other.token())
    for cursor in [
        *altered,
        other_list,
        others,
        "",
        "x",
        "1",
        own[:-1],
        own + "A",
        own + "=",
        own + "%00",
        "%F0%9F%98%80",
    ]:
        assert await refused(f"cursor={cursor}") == ["cursor"], cursor
    assert await refused(f"cursor={own}&cursor={own}") == ["cursor"]
    assert await refused(f"cursor={others}&limit=0") == ["limit", "cursor"]


@pytest.mark.both_databases
async def test_cursor_works_for_other_members_within_their_access(shared: Platform) -> None:
    told = (await shared.call("GET", f"{PROJECTS}?limit=1")).json()
    assert [row["slug"] for row in told["data"]] == ["blog"]
    path = f"{PROJECTS}?limit=1&cursor={told['next_cursor']}"
    for who, slugs in (("viewer", ["shop"]), ("admin", ["shop"]), ("stranger", [])):
        seen = (await shared.call("GET", path, token=shared.acme.token(who))).json()
        assert ([row["slug"] for row in seen["data"]], seen["next_cursor"]) == (slugs, None)


@pytest.mark.parametrize("count", [1, 100, 101, 150])
async def test_member_sees_only_projects_with_a_role(platform: Platform, count: int) -> None:
    """Pages of up to 100 projects use an index by project, pages of more projects an index by account."""
    acme, stranger = platform.acme, platform.acme.people["stranger"]
    async with platform.sessions() as session, session.begin():
        mine = [await _project_with_deployments(session, acme, 3) for _ in range(count)]
        await _project_with_deployments(session, acme, 2)
        elsewhere = await _project_with_deployments(session, platform.other, 2)
        session.add(Membership(account_id=platform.other.account.id, person_id=stranger.id, role="member"))
        for project, _ in [*mine, elsewhere]:
            session.add(ProjectRole(project_id=project.id, person_id=stranger.id, role="viewer"))
    deployments = sorted((number for _, numbers in mine for number in numbers), reverse=True)
    assert await _ids(platform, DEPLOYMENTS, 70, "stranger") == deployments
    assert await _ids(platform, PROJECTS, 70, "stranger") == [p.public_id for p, _ in reversed(mine)]
    unpaged = await platform.call("GET", PROJECTS, token=acme.token("stranger"))
    assert [row["id"] for row in unpaged.data] == [p.public_id for p, _ in reversed(mine)]


async def _project_with_deployments(session: Any, tenant: Tenant, count: int) -> tuple[Project, list[int]]:
    project = await create_project(session, tenant.account, "One of many", make_identifier("s", 0), NOW)
    repository = Repository(project_id=project.id, kind="git", url="x", branch="main", created_at=NOW)
    session.add(repository)
    await session.flush()
    rows = [
        Deployment(
            account_id=tenant.account.id,
            project_id=project.id,
            repository_id=repository.id,
            status="failed",
            trigger="api",
            needs_approval=False,
            created_at=NOW,
        )
        for _ in range(count)
    ]
    session.add_all(rows)
    await session.flush()
    return project, [row.id for row in rows]
