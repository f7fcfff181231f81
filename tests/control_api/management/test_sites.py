"""Settings of sites."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from control_domain.sites import limits
from control_domain.tables.audit import AuditEntry
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryResult
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import Tenant
from tests.support.stored_visits import store_dropped, store_purchase

SITES = "/v1/analytics/sites"


def sites_of(tenant: Tenant, project: str = "shop") -> str:
    return f"/v1/projects/{tenant.projects[project].public_id}/sites"


def shop(tenant: Tenant) -> str:
    """Return the path of the site that every platform has."""
    assert tenant.site is not None
    return f"{SITES}/{tenant.site.id}"


async def published_origins(api: Api, site: dict[str, Any]) -> tuple[str, ...] | None:
    entry = await api.platform.directory.find(digest_credential(site["tracker_id"]))
    if entry is None:
        return None
    assert entry.site is not None
    assert entry.site.site_id == site["id"]
    return entry.site.origins


async def test_create_change_remove(api: Api) -> None:
    made = await api.call(
        "POST",
        sites_of(api.platform.acme),
        {"domains": ["Docs.Example", "https://*.docs.example", "docs.example/"]},
        by="deployer",
    )
    assert made.status == 201
    site = made.data
    assert site == {
        "id": site["id"],
        "name": "docs.example",
        "project": {"id": api.platform.acme.projects["shop"].public_id, "name": "Shop", "slug": "shop"},
        "tracker_id": site["tracker_id"],
        "domains": ["https://docs.example", "https://*.docs.example"],
        "timezone": "UTC",
        "created_at": site["created_at"],
    }
    assert await published_origins(api, site) == ("https://docs.example", "https://*.docs.example")
    path = f"{SITES}/{site['id']}"
    read = await api.call("GET", path, by="viewer")
    assert read.data == {**site, "verified": False, "last_event_at": None, "dropped_events": {}}

    changes = {"name": "Docs", "domains": ["http://localhost:8080"], "timezone": "Europe/Oslo"}
    changed = await api.call(
        "PATCH", path, changes, by="deployer", headers={"If-Match": read.headers["ETag"]}
    )
    assert changed.data == {**site, **changes}
    assert await published_origins(api, site) == ("http://localhost:8080",)
    assert changed.headers["ETag"] == (await api.call("GET", path)).headers["ETag"]
    await api.expect(
        (412, "precondition-failed"), "PATCH", path, {}, headers={"If-Match": read.headers["ETag"]}
    )
    before = await api.platform.contents()
    assert (await api.call("PATCH", path, changes)).data == changed.data
    assert await api.platform.contents() == before

    removed = await api.call("DELETE", path, by="deployer")
    assert removed.data == {"id": site["id"], "name": "Docs", "tracker_id": site["tracker_id"]}
    assert await published_origins(api, site) is None
    await api.expect((404, "not-found"), "DELETE", path)
    subject = f"site {site['id']}"
    assert await api.audit(3) == [
        ("site.remove", subject),
        ("site.set", subject),
        ("site.create", subject),
    ]


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        ("http://localhost:8080", "localhost"),
        ("https://*.docs.example", "docs.example"),
        ("http://[::1]:80", "::1"),
        ("blåbær.example", "xn--blbr-roah.example"),
    ],
)
async def test_a_site_is_named_after_its_first_domain(api: Api, domain: str, name: str) -> None:
    body = {"domains": [domain, "https://other.example"]}
    made = await api.call("POST", sites_of(api.platform.acme), body)
    assert (made.status, made.data["name"]) == (201, name)


@pytest.mark.both_databases
async def test_remove_with_goals(api: Api) -> None:
    """Other sites stay, and the number is not used again: the column store still has its events."""
    acme = api.platform.acme
    body = {"domains": ["gone.example"]}
    site = (await api.call("POST", sites_of(acme), body)).data
    for path in (shop(acme), f"{SITES}/{site['id']}"):
        for goal in ({"event": "purchase"}, {"path": "/welcome"}):
            assert (await api.call("POST", f"{path}/goals", goal)).status == 201
    assert (await api.call("DELETE", f"{SITES}/{site['id']}")).status == 200
    assert len(await api.read(f"{shop(acme)}/goals")) == 2
    async with api.platform.sessions() as session:
        count = await session.execute(select(func.count()).where(Goal.site_id == site["id"]))
        newest = select(AuditEntry.details).order_by(AuditEntry.id.desc()).limit(1)
        details = json.loads((await session.execute(newest)).scalar_one())
    assert count.scalar_one() == 0
    assert details == {
        "project": acme.projects["shop"].public_id,
        "name": "gone.example",
        "tracker_id": site["tracker_id"],
        "domains": ["https://gone.example"],
        "goals": 2,
    }
    again = (await api.call("POST", sites_of(acme), body)).data
    assert again["id"] > site["id"]
    assert again["tracker_id"] != site["tracker_id"]


async def test_received_events_of_a_site(api: Api, column_store: ChdbColumnStore) -> None:
    acme = api.platform.acme
    assert acme.site is not None
    # A new number, because all tests share the column store.
    number = uuid.uuid4().int % 2**31
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Site).where(Site.id == acme.site.id).values(id=number))
    now = datetime.now(UTC)
    await store_purchase(column_store, number, now - timedelta(days=1))
    for days, reason, events in ((1, "bot", 3), (2, "bot", 4), (29, "opted_out", 1), (31, "bot", 100)):
        await store_dropped(column_store, number, now - timedelta(days=days), reason, events)
    site = await api.read(f"{SITES}/{number}")
    assert (site["verified"], site["dropped_events"]) == (True, {"bot": 7, "opted_out": 1})
    assert site["last_event_at"] is not None


async def test_edges_that_cannot_be_informed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site is created, changed or removed nevertheless, and the response has a warning."""

    async def fail(*_: Any) -> None:
        raise StorageUnavailable("Redis is away.")

    for method in ("publish", "revoke"):
        monkeypatch.setattr(type(api.platform.directory), method, fail)
    made = await api.call("POST", sites_of(api.platform.acme), {"domains": ["docs.example"]})
    path = f"{SITES}/{made.data['id']}"
    changed = await api.call("PATCH", path, {"domains": ["two.example"]})
    assert (await api.read(path))["domains"] == ["https://two.example"]
    removed = await api.call("DELETE", path)
    assert [each.status for each in (made, changed, removed)] == [201, 200, 200]
    assert all("Redis is away." in each.json()["warning"] for each in (made, changed, removed))


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["domains"]),
        ({"domains": []}, ["domains"]),
        ({"domains": ["a.example"] * 51}, ["domains"]),
        ({"domains": "a.example"}, ["domains"]),
        ({"domains": ["a.example", 7]}, ["domains[1]"]),
        ({"domains": ["ok.example", "https://a.example/path", "*."]}, ["domains[1]", "domains[2]"]),
        ({"domains": ["a.example"], "name": "\t"}, ["name"]),
        ({"domains": ["a.example"], "timezone": "europe/oslo"}, ["timezone"]),
        ({"domains": ["bücher.example/x"], "name": "a\0", "timezone": "Mars"}, ["name"]),
        ({"domains": ["a b"], "name": " ", "timezone": "localtime"}, ["name", "domains[0]", "timezone"]),
    ],
    ids=str,
)
async def test_invalid_sites(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    refused = await shared_api.expect(
        (422, "validation-failed"), "POST", sites_of(shared_api.platform.acme), body
    )
    assert refused.fields == fields
    if body:
        refused = await shared_api.expect(
            (422, "validation-failed"), "PATCH", shop(shared_api.platform.acme), body
        )
        assert refused.fields == fields


@pytest.mark.both_databases
async def test_names(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are unique in the project."""
    body = {"name": "Shop", "domains": ["shop.example"]}
    acme = api.platform.acme
    await api.expect((409, "name-taken"), "POST", sites_of(acme), body)
    assert (await api.call("POST", sites_of(acme, "blog"), body)).status == 201
    other = await api.call("POST", sites_of(acme), {**body, "name": "Other"})
    await api.expect((409, "name-taken"), "PATCH", f"{SITES}/{other.data['id']}", {"name": "Shop"})
    monkeypatch.setattr(limits, "MAX_SITES", 3)
    await api.expect((409, "conflict"), "POST", sites_of(acme), {**body, "name": "Fourth"})


async def test_sites_in_projects_without_a_role(api: Api) -> None:
    body = {"domains": ["blog.example"]}
    site = (await api.call("POST", sites_of(api.platform.acme, "blog"), body)).data
    for method in ("GET", "DELETE"):
        refused = await api.call(method, f"{SITES}/{site['id']}", by="maintainer")
        assert refused.problem == (403, "deploy-not-allowed")


class _AbsentStore:
    """A column store that does not respond."""

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        raise StorageUnavailable("away")


async def test_settings_without_the_column_store(api: Api) -> None:
    api.platform.app.state.report_store = _AbsentStore()
    read = await api.read(shop(api.platform.acme))
    assert (read["verified"], read["last_event_at"], read["dropped_events"]) == (None, None, None)
    assert read["domains"] == ["https://shop.example"]


@pytest.mark.both_databases
async def test_concurrent_changes(api: Api) -> None:
    """The edges end with the domains in the database, independent of the order in which the changes are published."""
    path = shop(api.platform.acme)
    for _ in range(3):
        changed = await asyncio.gather(
            *(api.call("PATCH", path, {"domains": [f"d{n}.example"]}) for n in range(4))
        )
        assert {response.status for response in changed} == {200}
        site = await api.read(path)
        assert await published_origins(api, site) == tuple(site["domains"])
    ended = await asyncio.gather(
        api.call("PATCH", path, {"domains": ["last.example"]}),
        api.call("DELETE", path),
        api.call("DELETE", path),
        api.call("POST", f"{path}/goals", {"event": "Signup"}),
    )
    assert sorted(response.status for response in ended[1:3]) == [200, 404]
    assert await published_origins(api, site) is None
