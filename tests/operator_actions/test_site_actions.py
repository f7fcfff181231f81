"""Sites and goals as an operator handles them, by the names of the actions, on both databases."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from control_domain.database.engine import Sessions
from control_domain.projects.operations import create_project
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from control_domain.tables.sites import Goal, Site
from operator_actions.door import ACTIONS, Engines
from pipeline_contracts.credentials import digest_credential
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.accounts import make_acme
from tests.support.engines import or_skip
from tests.support.redis_server import running_redis
from tests.support.stored_visits import store_dropped, store_purchase

NOW = datetime.now(UTC)
# Visits that no midnight cuts.
NOON = NOW.replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
SHOP = "https://shop.example"


@dataclass(slots=True)
class Control:
    """What actions work on, and the project that sites belong to."""

    engines: Engines
    project: Project

    async def act(self, action: str, **wanted: Any) -> Any:
        return await ACTIONS[f"sites/{action}"](self.engines, wanted, NOW)

    async def add(self, *domains: str, **wanted: Any) -> dict[str, Any]:
        told: dict[str, Any] = await self.act("create", domains=list(domains or (SHOP,)), **wanted)
        return told

    async def origins(self, tracker_id: str) -> tuple[str, ...]:
        """Where the edges take events of the site from."""
        entry = await self.engines.directory.find(digest_credential(tracker_id))
        assert entry is not None and entry.site is not None
        return entry.site.origins

    async def count(self, table: Any) -> int:
        async with self.engines.sessions() as session:
            return (await session.execute(select(func.count()).select_from(table))).scalar_one()


@pytest.fixture
async def control(sessions: Sessions) -> AsyncIterator[Control]:
    async with sessions() as session, session.begin():
        _, project, _ = await make_acme(session, NOW)
    yield Control(Engines(sessions, InProcessKeyDirectory()), project)


@pytest.fixture
async def measured(control: Control, column_store: ChdbColumnStore) -> Control:
    """The same with a column store, and a site "Shop" of an ID of its own: all tests share the store."""
    told = await control.add(name="Shop", timezone="Europe/Oslo")
    async with control.engines.sessions() as session, session.begin():
        number = uuid.uuid4().int % 2**31
        await session.execute(update(Site).where(Site.id == told["id"]).values(id=number))
    control.engines = Engines(control.engines.sessions, control.engines.directory, column_store)
    return control


async def test_a_site_is_made_and_known_at_the_edges(control: Control) -> None:
    told = await control.add("Shop.example/", "https://*.shop.example", "shop.example")
    assert told == {
        "id": told["id"],
        "name": "shop.example",
        "project": {"id": control.project.public_id, "name": "Shop", "slug": "shop"},
        "tracker_id": told["tracker_id"],
        "domains": [SHOP, "https://*.shop.example"],
        "timezone": "UTC",
        "verified": False,
        "last_event_at": None,
    }
    assert told["tracker_id"].startswith("sit_")
    assert await control.origins(told["tracker_id"]) == (SHOP, "https://*.shop.example")


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        ("http://localhost:8080", "localhost"),
        ("https://*.shop.example", "shop.example"),
        ("http://[::1]:80", "::1"),
        ("blåbær.example", "xn--blbr-roah.example"),
    ],
)
async def test_a_site_is_named_after_its_first_domain(control: Control, domain: str, name: str) -> None:
    assert (await control.add(domain, SHOP))["name"] == name


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"domains": []}, "A site has at least one domain, like https://shop.example."),
        ({"domains": None}, "A site has at least one domain"),
        ({"domains": ["https://shop.example/path"]}, "is no origin: write https://shop.example"),
        ({"domains": ["ftp://shop.example"]}, "is no origin"),
        ({"domains": [f"https://{n}.example" for n in range(51)]}, "A site has at most 50 domains"),
        ({"name": "x" * 101}, "A name has 1 to 100 printable characters"),
        ({"name": "a\x1b[31m"}, "A name has 1 to 100 printable characters"),
        ({"timezone": "Mars"}, "'Mars' is no time zone; write one like Europe/Oslo, or UTC."),
        ({"timezone": "europe/oslo"}, "'europe/oslo' is no time zone"),
        ({"timezone": "localtime"}, "'localtime' is no time zone"),
        ({"project_id": "prj_nobody"}, "There is no project prj_nobody."),
    ],
    ids=str,
)
async def test_invalid_sites_are_refused(control: Control, wanted: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told.replace("(", "\\(")):
        await control.act("create", **{"domains": [SHOP], **wanted})
    assert await control.count(Site) == 0


@pytest.mark.both_databases
async def test_names_are_unique_in_a_project(control: Control) -> None:
    await control.add()
    with pytest.raises(Refused, match="has a site of the name 'shop.example' already; choose another"):
        await control.add()
    async with control.engines.sessions() as session, session.begin():
        account = (await session.execute(select(Account))).scalar_one()
        blog = await create_project(session, account, "Blog", "blog", NOW)
    with pytest.raises(Refused, match="There are several projects: name one."):
        await control.add()
    told = await control.add(project_id=blog.public_id)
    assert told["project"]["slug"] == "blog"


async def test_domains_are_added_and_removed_at_the_edges_too(control: Control) -> None:
    site = await control.add()
    other = "http://localhost:8080"
    told = await control.act("domains", id=site["id"], add=["HTTP://localhost:8080/", SHOP])
    assert told == {"id": site["id"], "domains": [SHOP, other]}
    assert await control.origins(site["tracker_id"]) == (SHOP, other)
    # Added first: the only one can be replaced.
    told = await control.act("domains", id=site["id"], add=["https://new.example"], remove=[SHOP, other])
    assert told["domains"] == ["https://new.example"]
    assert await control.origins(site["tracker_id"]) == ("https://new.example",)


async def test_invalid_changes_of_domains_are_refused(control: Control) -> None:
    site = await control.add()
    for wanted, told in (
        ({"remove": ["https://no.example"]}, f"has no domain https://no.example; it has {SHOP}."),
        ({"remove": [SHOP]}, "A site has at least one domain"),
        ({"add": [f"https://{n}.example" for n in range(50)]}, "A site has at most 50 domains"),
        ({"add": "javascript:alert(1)"}, "is no origin"),
    ):
        with pytest.raises(Refused, match=told):
            await control.act("domains", id=site["id"], **wanted)
    assert await control.origins(site["tracker_id"]) == (SHOP,)


@pytest.mark.both_databases
async def test_domains_by_ten_at_once_get_lost_for_nobody_who_is_told_of_success(control: Control) -> None:
    site = await control.add()
    wanted = [f"https://{n}.example" for n in range(10)]
    told = await asyncio.gather(
        *(control.act("domains", id=site["id"], add=[origin]) for origin in wanted), return_exceptions=True
    )
    done = {origin for origin, answer in zip(wanted, told, strict=True) if isinstance(answer, dict)}
    assert done and {str(one) for one in told if not isinstance(one, dict)} <= {
        "The site's domains were changed by somebody else meanwhile; run the command again."
    }
    (listed,) = await control.act("list")
    assert set(listed["domains"]) == {SHOP, *done}


async def test_a_time_zone_is_changed(control: Control) -> None:
    site = await control.add()
    told = await control.act("timezone", id=site["id"], timezone="Asia/Kathmandu")
    assert told == {"id": site["id"], "timezone": "Asia/Kathmandu"}
    assert (await control.act("show", id=site["id"]))["timezone"] == "Asia/Kathmandu"
    for wrong, told_why in (("Mars", "'Mars' is no time zone"), ("", "Name the time zone")):
        with pytest.raises(Refused, match=told_why):
            await control.act("timezone", id=site["id"], timezone=wrong)


async def test_goals_are_added_shown_and_removed(control: Control) -> None:
    site = (await control.add())["id"]
    bought = await control.act("goals-add", id=site, name="Purchase", event="purchase")
    assert bought == {
        "id": bought["id"],
        "name": "Purchase",
        "event": "purchase",
        "path": None,
        "site_id": site,
    }
    missing = await control.act("goals-add", id=site, event="404")
    welcome = await control.act("goals-add", id=site, name="", path="/welcome")
    assert (missing["name"], welcome["name"]) == ("404", "/welcome")
    shown = await control.act("show", id=site)
    assert [goal["id"] for goal in shown["goals"]] == [bought["id"], missing["id"], welcome["id"]]
    assert shown["goals"][2] == {"id": welcome["id"], "name": "/welcome", "event": None, "path": "/welcome"}
    gone = {"id": bought["id"], "site_id": site, "removed": True}
    assert await control.act("goals-remove", id=site, goal_id=bought["id"]) == gone
    with pytest.raises(Refused, match=f"Site {site} has no goal {bought['id']}; `pharos site show {site}`"):
        await control.act("goals-remove", id=site, goal_id=bought["id"])


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "A goal is either an event or a path"),
        ({"event": "a", "path": "/a"}, "A goal is either an event or a path"),
        ({"event": "Engagement"}, "'Engagement' is what the tracker sends by itself"),
        ({"event": "Web Vital"}, "'Web Vital' is what the tracker sends by itself"),
        ({"event": "x" * 256}, "An event's name has 1 to 255 printable characters."),
        ({"path": "welcome"}, "A path begins with / and has at most 2048 characters"),
        ({"path": f"/{'x' * 2048}"}, "A path begins with / and has at most 2048 characters"),
        ({"path": f"/{'x' * 100}"}, "A name has 1 to 100 printable characters; choose one with --name."),
        ({"event": "taken"}, "has a goal of the name 'taken' already; choose another with --name."),
    ],
    ids=str,
)
async def test_invalid_goals_are_refused(control: Control, wanted: dict[str, Any], told: str) -> None:
    site = (await control.add())["id"]
    await control.act("goals-add", id=site, event="taken")
    with pytest.raises(Refused, match=told):
        await control.act("goals-add", id=site, **wanted)
    assert await control.count(Goal) == 1


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("show", {}),
        ("domains", {"add": [SHOP]}),
        ("timezone", {"timezone": "UTC"}),
        ("goals-add", {"event": "a"}),
        ("goals-remove", {"goal_id": 1}),
    ],
)
async def test_an_unknown_site_is_refused(control: Control, action: str, wanted: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="There is no site 999; `pharos site list` shows all."):
        await control.act(action, id=999, **wanted)


async def test_without_a_column_store_the_configuration_is_shown(control: Control) -> None:
    site = await control.add()
    (listed,) = await control.act("list")
    assert (listed["verified"], listed["last_event_at"]) == (None, None)
    shown = await control.act("show", id=site["id"])
    assert (shown["verified"], shown["dropped"], shown["goals"]) == (None, None, [])
    with pytest.raises(Refused, match="Set PHAROS_CLICKHOUSE_URL as well"):
        await control.act("report", id=site["id"])


async def test_what_came_and_what_was_dropped_is_shown(
    measured: Control, column_store: ChdbColumnStore
) -> None:
    (before,) = await measured.act("list")
    assert (before["verified"], before["last_event_at"]) == (False, None)
    shown = await measured.act("show", id=before["id"])
    assert shown["dropped"] == {}
    await store_purchase(column_store, before["id"], NOON)
    for days, reason, events in ((1, "bot", 3), (2, "bot", 4), (29, "opted_out", 1), (31, "bot", 100)):
        await store_dropped(column_store, before["id"], NOW - timedelta(days=days), reason, events)
    shown = await measured.act("show", id=before["id"])
    assert (shown["verified"], shown["dropped"]) == (True, {"bot": 7, "opted_out": 1})
    (listed,) = await measured.act("list")
    assert listed["last_event_at"] == shown["last_event_at"] is not None


async def test_a_report_by_id_name_and_tracker_id(measured: Control, column_store: ChdbColumnStore) -> None:
    (site,) = await measured.act("list")
    await store_purchase(column_store, site["id"], NOON)
    await measured.act("goals-add", id=site["id"], event="purchase")
    filters = {"path": None, "device": "Mobile", "country": "no"}
    reports = [
        await measured.act("report", **called, days=7, filters=filters)
        for called in ({"id": site["id"]}, {"name": "Shop"}, {"name": site["tracker_id"]})
    ]
    assert reports[0] == reports[1] == reports[2]
    assert reports[0]["site"] == {
        "id": site["id"],
        "name": "Shop",
        "timezone": "Europe/Oslo",
        "tracker_id": site["tracker_id"],
    }
    assert reports[0]["metrics"]["pageviews"]["value"] == 2
    assert (reports[0]["filters"]["country"], reports[0]["goals"][0]["conversions"]) == ("NO", 1)
    assert (await measured.act("report", id=site["id"]))["period"]["days"] == 30


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"id": 2}, "There is no site 2; `pharos site list` shows all."),
        ({"name": "Nobody"}, "There is no site 'Nobody'; `pharos site list` shows all."),
        ({}, "There is no site ''"),
        (
            {"name": "Shop", "days": 3, "filters": {"device": "TV"}},
            "device must be one of Desktop, Mobile, Tablet; days must be one of 1, 7, 30, 90, 365.",
        ),
    ],
    ids=str,
)
async def test_invalid_reports_are_refused(measured: Control, wanted: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        await measured.act("report", **wanted)


@pytest.mark.both_databases
async def test_a_name_of_several_sites_is_refused_with_their_ids(measured: Control) -> None:
    async with measured.engines.sessions() as session, session.begin():
        account = (await session.execute(select(Account))).scalar_one()
        blog = await create_project(session, account, "Blog", "blog", NOW)
    await measured.add(name="Shop", project_id=blog.public_id)
    ids = ", ".join(str(site["id"]) for site in await measured.act("list"))
    with pytest.raises(Refused, match=f"Several sites are called 'Shop': name one by its ID \\({ids}\\)."):
        await measured.act("report", name="Shop")


async def test_an_unreachable_key_directory_is_a_warning(
    control: Control, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with or_skip(running_redis(tmp_path_factory.mktemp("away"))) as server:
        directory = await open_redis_key_directory(server.url, follow=False)
        server.stop()
        away = Control(Engines(control.engines.sessions, directory), control.project)
        site = await away.add()
        changed = await away.act("domains", id=site["id"], add=["https://two.example"])
        await directory.close()
    assert "The edges could not be informed" in site["warning"]
    assert "The edges could not be informed" in changed["warning"]
    assert (await control.act("show", id=site["id"]))["domains"] == [SHOP, "https://two.example"]
