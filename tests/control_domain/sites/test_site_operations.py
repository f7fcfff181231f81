"""Sites and goals in the database, and the entries of sites for the edges; on both databases."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from sqlalchemy.exc import IntegrityError

from control_domain.accounts.operations import create_account
from control_domain.database.base import Base
from control_domain.database.engine import Sessions
from control_domain.projects.operations import create_project
from control_domain.published_keys import publish_keys
from control_domain.sites.operations import (
    add_goal,
    change_domains,
    change_timezone,
    create_site,
    find_account_site,
    find_sites,
    list_account_sites,
    list_goals,
    live_sites,
    remove_goal,
    set_goal_target,
)
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from control_domain.tables.sites import Goal, ReportShare, Site
from pipeline_contracts.credentials import CredentialKind, digest_credential
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry, SiteEntry
from tests.support.accounts import make_acme

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SHOP = "https://shop.example"
ALL_BELOW = "https://*.shop.example"


@dataclass(slots=True)
class Owned:
    """Two accounts, each with a project; the site belongs to the first."""

    sessions: Sessions
    account: Account
    project: Project
    other: Account
    others_project: Project
    site: Site


@pytest.fixture
async def owned(sessions: Sessions) -> AsyncIterator[Owned]:
    async with sessions() as session, session.begin():
        account, project, _ = await make_acme(session, NOW)
        other = await create_account(session, "Other", "other", RateLimit(1, 2), NOW)
        others_project = await create_project(session, other, "Blog", "blog", NOW)
        site = await create_site(session, project.id, "Shop", "Europe/Oslo", [SHOP, ALL_BELOW], NOW)
    yield Owned(sessions, account, project, other, others_project, site)


@pytest.mark.both_databases
async def test_only_the_account_sees_its_sites(owned: Owned) -> None:
    assert owned.site.public_id.startswith("sit_")
    async with owned.sessions() as session:
        (seen,) = await list_account_sites(session, owned.account)
        assert (seen.site.name, seen.site.timezone, seen.project.id) == (
            "Shop",
            "Europe/Oslo",
            owned.project.id,
        )
        assert (seen.domains, seen.site.created_at) == ([SHOP, ALL_BELOW], NOW)
        assert await list_account_sites(session, owned.other) == []
        same = await find_account_site(session, owned.account, owned.site.id)
        assert same is not None and same.site.id == owned.site.id
        assert await find_account_site(session, owned.other, owned.site.id) is None
        assert await find_account_site(session, owned.account, 999) is None


@pytest.mark.both_databases
async def test_site_names_are_unique_in_a_project(owned: Owned) -> None:
    with pytest.raises(IntegrityError):
        async with owned.sessions() as session, session.begin():
            await create_site(session, owned.project.id, "Shop", "UTC", [SHOP], NOW)


async def test_domains_that_changed_meanwhile_are_not_overwritten(owned: Owned) -> None:
    async with owned.sessions() as session, session.begin():
        (seen,) = await find_sites(session, owned.site.id)
        assert await change_domains(session, seen.site, [SHOP])
        assert seen.domains == [SHOP]
    # This transaction read the former domains.
    async with owned.sessions() as session, session.begin():
        stale = await session.merge(owned.site, load=False)
        assert not await change_domains(session, stale, ["https://other.example"])
    async with owned.sessions() as session:
        (seen,) = await find_sites(session, owned.site.id)
    assert seen.domains == [SHOP]


async def test_the_time_zone_can_be_changed(owned: Owned) -> None:
    async with owned.sessions() as session, session.begin():
        (seen,) = await find_sites(session, owned.site.id)
        await change_timezone(session, seen.site, "Asia/Kathmandu")
    async with owned.sessions() as session:
        (seen,) = await find_sites(session, owned.site.id)
    assert seen.site.timezone == "Asia/Kathmandu"


@pytest.mark.both_databases
async def test_goals_belong_to_their_site(owned: Owned) -> None:
    async with owned.sessions() as session, session.begin():
        blog = await create_site(session, owned.others_project.id, "Blog", "UTC", [SHOP], NOW)
        bought = await add_goal(session, owned.site, "Purchase", "purchase", None, NOW)
        await add_goal(session, owned.site, "Signup", None, "/welcome", NOW)
        assert not await remove_goal(session, blog, bought.id)
        assert [goal.name for goal in await list_goals(session, owned.site)] == ["Purchase", "Signup"]
        assert await remove_goal(session, owned.site, bought.id)
        assert not await remove_goal(session, owned.site, bought.id)
        assert [(goal.event, goal.path) for goal in await list_goals(session, owned.site)] == [
            (None, "/welcome")
        ]
        assert await list_goals(session, blog) == []


@pytest.mark.both_databases
async def test_a_goal_gets_another_target(owned: Owned) -> None:
    async with owned.sessions() as session, session.begin():
        bought = await add_goal(session, owned.site, "Purchase", "purchase", None, NOW)
        other = await add_goal(session, owned.site, "Signup", None, "/welcome", NOW)
        assert await set_goal_target(session, bought, None, "/thanks")
        assert (bought.event, bought.path) == (None, "/thanks")
        await session.refresh(other)
        assert (other.event, other.path) == (None, "/welcome")
        assert await remove_goal(session, owned.site, bought.id)
        assert not await set_goal_target(session, bought, "signup", None)


def test_every_table_that_refers_to_a_site_is_known() -> None:
    """`remove_site` must delete the rows of a new table."""
    tables = Base.metadata.tables.values()
    referring = {
        table.name for table in tables if any(key.column.table.name == "sites" for key in table.foreign_keys)
    }
    assert referring == {Goal.__tablename__, ReportShare.__tablename__}


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("name", "event", "path"),
    [("Purchase", None, "/again"), ("Both", "purchase", "/bought"), ("Neither", None, None)],
)
async def test_the_database_refuses_invalid_goals(
    owned: Owned, name: str, event: str | None, path: str | None
) -> None:
    async with owned.sessions() as session, session.begin():
        await add_goal(session, owned.site, "Purchase", "purchase", None, NOW)
    with pytest.raises(IntegrityError):
        async with owned.sessions() as session, session.begin():
            session.add(Goal(site_id=owned.site.id, name=name, event=event, path=path, created_at=NOW))


async def test_edges_get_the_account_and_domains_of_a_site(owned: Owned) -> None:
    async with owned.sessions() as session, session.begin():
        other = await create_site(session, owned.others_project.id, "Blog", "UTC", ["http://blog"], NOW)
        (entry,) = await live_sites(session, owned.site.id)
        entries = await live_sites(session)
    digest = digest_credential(owned.site.public_id)
    assert entry == KeyEntry(
        digest=digest,
        kind=CredentialKind.SITE,
        account_id=owned.account.public_id,
        project_id=owned.project.public_id,
        environment_id="",
        limit=RateLimit(10, 20),
        site=SiteEntry(owned.site.id, (SHOP, ALL_BELOW)),
    )
    assert {one.digest for one in entries} == {digest, digest_credential(other.public_id)}
    directory = InProcessKeyDirectory()
    assert await publish_keys(owned.sessions, directory, NOW) == 2
    assert await directory.find(digest) == entry
