"""Sites are removed with their goals, and nothing else, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.database.base import Base
from control_domain.sites.operations import live_sites, set_goal_target
from control_domain.tables.projects import Project
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.credentials import digest_credential
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.engines import or_skip
from tests.support.managed_project import ManagedProject
from tests.support.redis_server import running_redis

SHOP = "https://shop.example"


async def add(managed: ManagedProject, domain: str = SHOP) -> dict[str, Any]:
    """A site with two goals."""
    made: dict[str, Any] = await managed.act("sites/create", domains=[domain])
    await managed.act("sites/goals-add", id=made["id"], event="purchase")
    await managed.act("sites/goals-add", id=made["id"], path="/welcome")
    return made


def test_every_table_that_refers_to_a_site_is_known() -> None:
    """One that comes later has to be removed with it."""
    tables = Base.metadata.tables.values()
    referring = {
        one.name for one in tables if any(key.column.table.name == "sites" for key in one.foreign_keys)
    }
    assert referring == {Goal.__tablename__}


async def test_a_site_is_removed_with_its_goals(managed: ManagedProject) -> None:
    kept, gone = await add(managed, "https://kept.example"), await add(managed)
    told = await managed.act("sites/remove", id=gone["id"])
    assert told == {
        "id": gone["id"],
        "name": "shop.example",
        "tracker_id": gone["tracker_id"],
        "removed": True,
    }
    assert [site["id"] for site in await managed.act("sites/list")] == [kept["id"]]
    assert await managed.count(Goal) == await managed.count(Goal, Goal.site_id == kept["id"]) == 2
    find = managed.engines.directory.find
    assert await find(digest_credential(gone["tracker_id"])) is None
    assert await find(digest_credential(kept["tracker_id"])) is not None
    async with managed.engines.sessions() as session:
        assert [entry.site and entry.site.site_id for entry in await live_sites(session)] == [kept["id"]]
    assert (await managed.read_audit_log())[0] == (
        "site.remove",
        f"site {gone['id']}",
        None,
        "operator kim",
        {
            "project": managed.project.public_id,
            "name": "shop.example",
            "tracker_id": gone["tracker_id"],
            "domains": [SHOP],
            "goals": 2,
        },
    )


async def test_a_removed_site_is_refused(managed: ManagedProject) -> None:
    gone = await add(managed)
    await managed.act("sites/remove", id=gone["id"])
    for action, wanted in (
        ("remove", {}),
        ("show", {}),
        ("domains", {"add": ["https://two.example"]}),
        ("goals-add", {"event": "signup"}),
    ):
        line = await managed.expect_refusal(f"sites/{action}", id=gone["id"], **wanted)
        assert line == f"There is no site {gone['id']}; `pharos site list` shows all."


async def test_numbers_of_removed_sites_are_not_reused(managed: ManagedProject) -> None:
    """The column store has its visits under it."""
    gone = await add(managed)
    await managed.act("sites/remove", id=gone["id"])
    again = await add(managed)
    assert again["id"] > gone["id"]
    assert again["tracker_id"] != gone["tracker_id"]


async def test_the_project_of_a_removed_site_can_be_removed(managed: ManagedProject) -> None:
    gone = await add(managed)
    await managed.act("environments/remove", id="production")
    assert await managed.expect_refusal("projects/remove", id="shop") == (
        "The project shop still has the site shop.example: remove what is in it first, with "
        "`pharos environment remove` and `pharos site remove`."
    )
    await managed.act("sites/remove", id=gone["id"])
    await managed.act("projects/remove", id="shop")
    assert await managed.count(Project) == 0


@pytest.mark.both_databases
async def test_of_five_concurrent_removals_one_succeeds(managed: ManagedProject) -> None:
    number = (await add(managed))["id"]
    told = await asyncio.gather(
        *(managed.act("sites/remove", id=number) for _ in range(5)), return_exceptions=True
    )
    assert len([one for one in told if isinstance(one, dict)]) == 1
    assert {str(one) for one in told if not isinstance(one, dict)} <= {
        f"Site {number} was removed by somebody else just now.",
        f"There is no site {number}; `pharos site list` shows all.",
    }
    assert [action for action, *_ in await managed.read_audit_log()] == ["site.remove"]


@pytest.mark.both_databases
async def test_a_concurrent_goal_is_removed_or_refused(managed: ManagedProject) -> None:
    for _ in range(10):
        number = (await add(managed))["id"]
        goal, removed = await asyncio.gather(
            managed.act("sites/goals-add", id=number, event="signup"),
            managed.act("sites/remove", id=number),
            return_exceptions=True,
        )
        assert isinstance(removed, dict), removed
        assert isinstance(goal, dict) or "There is no site" in str(goal)
    assert [await managed.count(table) for table in (Site, Goal)] == [0, 0]


async def test_an_unreachable_key_directory_is_a_warning(
    managed: ManagedProject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    number = (await add(managed))["id"]
    with or_skip(running_redis(tmp_path_factory.mktemp("away"))) as server:
        directory = await open_redis_key_directory(server.url, follow=False)
        server.stop()
        managed.engines = type(managed.engines)(managed.engines.sessions, directory)
        told = await managed.act("sites/remove", id=number)
        await directory.close()
    assert "The edges could not be informed" in told["warning"]
    assert await managed.count(Site) == 0


@pytest.mark.both_databases
async def test_a_goal_gets_another_target(managed: ManagedProject) -> None:
    number = (await add(managed))["id"]
    sessions = managed.engines.sessions
    bought, welcome = (await managed.act("sites/show", id=number))["goals"]
    async with sessions() as session, session.begin():
        goal = await session.get_one(Goal, bought["id"])
        assert await set_goal_target(session, goal, None, "/thanks")
        assert (goal.event, goal.path) == (None, "/thanks")
    shown = (await managed.act("sites/show", id=number))["goals"]
    assert shown == [{**bought, "event": None, "path": "/thanks"}, welcome]
    await managed.act("sites/goals-remove", id=number, goal_id=bought["id"])
    async with sessions() as session, session.begin():
        assert not await set_goal_target(session, goal, "signup", None)
