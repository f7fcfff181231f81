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
from tests.support.operated import Operated
from tests.support.redis_server import running_redis

SHOP = "https://shop.example"


async def add(operated: Operated, domain: str = SHOP) -> dict[str, Any]:
    """A site with two goals."""
    made: dict[str, Any] = await operated.act("sites/create", domains=[domain])
    await operated.act("sites/goals-add", id=made["id"], event="purchase")
    await operated.act("sites/goals-add", id=made["id"], path="/welcome")
    return made


def test_every_table_that_refers_to_a_site_is_known() -> None:
    """One that comes later has to be removed with it."""
    tables = Base.metadata.tables.values()
    referring = {
        one.name for one in tables if any(key.column.table.name == "sites" for key in one.foreign_keys)
    }
    assert referring == {Goal.__tablename__}


async def test_a_site_is_removed_with_its_goals(operated: Operated) -> None:
    kept, gone = await add(operated, "https://kept.example"), await add(operated)
    told = await operated.act("sites/remove", id=gone["id"])
    assert told == {
        "id": gone["id"],
        "name": "shop.example",
        "tracker_id": gone["tracker_id"],
        "removed": True,
    }
    assert [site["id"] for site in await operated.act("sites/list")] == [kept["id"]]
    assert await operated.count(Goal) == await operated.count(Goal, Goal.site_id == kept["id"]) == 2
    find = operated.engines.directory.find
    assert await find(digest_credential(gone["tracker_id"])) is None
    assert await find(digest_credential(kept["tracker_id"])) is not None
    async with operated.engines.sessions() as session:
        assert [entry.site and entry.site.site_id for entry in await live_sites(session)] == [kept["id"]]
    assert (await operated.audited())[0] == (
        "site.remove",
        f"site {gone['id']}",
        None,
        "operator kim",
        {
            "project": operated.project.public_id,
            "name": "shop.example",
            "tracker_id": gone["tracker_id"],
            "domains": [SHOP],
            "goals": 2,
        },
    )


async def test_a_removed_site_is_refused(operated: Operated) -> None:
    gone = await add(operated)
    await operated.act("sites/remove", id=gone["id"])
    for action, wanted in (
        ("remove", {}),
        ("show", {}),
        ("domains", {"add": ["https://two.example"]}),
        ("goals-add", {"event": "signup"}),
    ):
        line = await operated.refused(f"sites/{action}", id=gone["id"], **wanted)
        assert line == f"There is no site {gone['id']}; `pharos site list` shows all."


async def test_numbers_of_removed_sites_are_not_reused(operated: Operated) -> None:
    """The column store has its visits under it."""
    gone = await add(operated)
    await operated.act("sites/remove", id=gone["id"])
    again = await add(operated)
    assert again["id"] > gone["id"]
    assert again["tracker_id"] != gone["tracker_id"]


async def test_the_project_of_a_removed_site_can_be_removed(operated: Operated) -> None:
    gone = await add(operated)
    await operated.act("environments/remove", id="production")
    assert await operated.refused("projects/remove", id="shop") == (
        "The project shop still has the site shop.example: remove what is in it first, with "
        "`pharos environment remove` and `pharos site remove`."
    )
    await operated.act("sites/remove", id=gone["id"])
    await operated.act("projects/remove", id="shop")
    assert await operated.count(Project) == 0


@pytest.mark.both_databases
async def test_of_five_concurrent_removals_one_succeeds(operated: Operated) -> None:
    number = (await add(operated))["id"]
    told = await asyncio.gather(
        *(operated.act("sites/remove", id=number) for _ in range(5)), return_exceptions=True
    )
    assert len([one for one in told if isinstance(one, dict)]) == 1
    assert {str(one) for one in told if not isinstance(one, dict)} <= {
        f"Site {number} was removed by somebody else just now.",
        f"There is no site {number}; `pharos site list` shows all.",
    }
    assert [action for action, *_ in await operated.audited()] == ["site.remove"]


@pytest.mark.both_databases
async def test_a_concurrent_goal_is_removed_or_refused(operated: Operated) -> None:
    for _ in range(10):
        number = (await add(operated))["id"]
        goal, removed = await asyncio.gather(
            operated.act("sites/goals-add", id=number, event="signup"),
            operated.act("sites/remove", id=number),
            return_exceptions=True,
        )
        assert isinstance(removed, dict), removed
        assert isinstance(goal, dict) or "There is no site" in str(goal)
    assert [await operated.count(table) for table in (Site, Goal)] == [0, 0]


async def test_an_unreachable_key_directory_is_a_warning(
    operated: Operated, tmp_path_factory: pytest.TempPathFactory
) -> None:
    number = (await add(operated))["id"]
    with or_skip(running_redis(tmp_path_factory.mktemp("away"))) as server:
        directory = await open_redis_key_directory(server.url, follow=False)
        server.stop()
        operated.engines = type(operated.engines)(operated.engines.sessions, directory)
        told = await operated.act("sites/remove", id=number)
        await directory.close()
    assert "The edges could not be told" in told["warning"]
    assert await operated.count(Site) == 0


@pytest.mark.both_databases
async def test_a_goal_gets_another_target(operated: Operated) -> None:
    number = (await add(operated))["id"]
    sessions = operated.engines.sessions
    bought, welcome = (await operated.act("sites/show", id=number))["goals"]
    async with sessions() as session, session.begin():
        goal = await session.get_one(Goal, bought["id"])
        assert await set_goal_target(session, goal, None, "/thanks")
        assert (goal.event, goal.path) == (None, "/thanks")
    shown = (await operated.act("sites/show", id=number))["goals"]
    assert shown == [{**bought, "event": None, "path": "/thanks"}, welcome]
    await operated.act("sites/goals-remove", id=number, goal_id=bought["id"])
    async with sessions() as session, session.begin():
        assert not await set_goal_target(session, goal, "signup", None)
