"""`GET /v1/analytics/sites` and `…/sites/{site}/report` over real HTTP, on both databases and on chDB."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from sqlalchemy import select, update

from control_api.app import build_control_app
from control_domain.accounts.operations import create_account, create_api_token, create_person
from control_domain.database.engine import Sessions
from control_domain.projects.operations import create_project
from control_domain.sites.operations import add_goal
from control_domain.tables.accounts import ApiToken
from control_domain.tables.sites import Site
from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryResult
from tests.support.accounts import make_acme
from tests.support.serve_control import VARIABLE_KEYS, serving_control
from tests.support.stored_visits import sent_event, store_purchase, store_visits

NOW = datetime.now(UTC)
# Visits that do not continue over midnight.
NOON = NOW.replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
SITES = "/api/v1/analytics/sites"
_NOTHING = {"value": 0, "previous": 0, "change": 0.0}


class HeldStore:
    """A column store that is unavailable, or that blocks queries for a while."""

    def __init__(self) -> None:
        self.is_away = True
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        self.asked.set()
        if self.is_away:
            raise StorageUnavailable("away")
        await self.go_on.wait()
        return QueryResult((), [])

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        raise StorageUnavailable("away")


@dataclass(slots=True)
class Control:
    """The control plane with a site of one account, `site`, and one of another, `others_site`."""

    url: str
    http: aiohttp.ClientSession
    sessions: Sessions
    store: ChdbColumnStore
    app: Any
    token: str
    narrow_token: str
    others_token: str
    project: dict[str, str]
    site: Site
    others_site: Site

    async def get(self, path: str, token: str | None = None) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        async with self.http.get(self.url + path, headers=headers) as response:
            return response.status, response.headers, await response.json(content_type=None)

    async def report(self, query: str = "") -> dict[str, Any]:
        status, _, answer = await self.get(f"{SITES}/{self.site.id}/report{query}")
        assert status == 200, answer
        data: dict[str, Any] = answer["data"]
        return data


def _site(project_id: int, name: str, timezone: str) -> Site:
    # New IDs, because all tests share the column store.
    number = uuid.uuid4().int % 2**31
    return Site(
        id=number,
        public_id=f"sit_{number}",
        project_id=project_id,
        name=name,
        timezone=timezone,
        domains='["https://shop.example"]',
        created_at=NOW,
    )


@pytest.fixture
async def control(sessions: Sessions, column_store: ChdbColumnStore) -> AsyncIterator[Control]:
    tokens = []
    async with sessions() as session, session.begin():
        account, project, _ = await make_acme(session, NOW)
        other = await create_account(session, "Other", "other", RateLimit(1, 2), NOW)
        others_project = await create_project(session, other, "Blog", "blog", NOW)
        for owner, mail, scopes in (
            (account, "ada@example.com", ["analytics:read"]),
            (account, "bob@example.com", ["account:read", "deploy:read"]),
            (other, "eve@example.com", ["analytics:read"]),
        ):
            person = await create_person(session, owner, "Ada", mail, "owner", NOW)
            tokens.append(await create_api_token(session, owner, person, "x", scopes, NOW))
        site, others = _site(project.id, "Shop", "Europe/Oslo"), _site(others_project.id, "Blog", "UTC")
        session.add_all([site, others])
        await session.flush()
        await add_goal(session, site, "Purchase", "purchase", None, NOW)
        await add_goal(session, site, "Bought", None, "/thanks", NOW)
        await add_goal(session, site, "Purchase again", "purchase", None, NOW)
    told = {"id": project.public_id, "name": "Shop", "slug": "shop"}
    app = build_control_app(sessions, column_store, b"a receipt key of the test suite, 32+", VARIABLE_KEYS)
    async with serving_control(app) as url, aiohttp.ClientSession() as http:
        yield Control(url, http, sessions, column_store, app, *tokens, told, site, others)


async def test_sites_of_the_token_are_listed(control: Control) -> None:
    received = NOW.replace(microsecond=0) - timedelta(days=2)
    expected = {
        "id": control.site.id,
        "name": "Shop",
        "project": control.project,
        "tracker_id": control.site.public_id,
        "domains": ["https://shop.example"],
        "timezone": "Europe/Oslo",
    }
    status, _, answer = await control.get(SITES)
    assert (status, answer) == (200, {"data": [{**expected, "verified": False, "last_event_at": None}]})
    for days in (0, 1):
        await store_visits(
            control.store, control.site.id, sent_event(received - timedelta(days=days), "192.0.2.1")
        )
    _, _, answer = await control.get(SITES)
    at = f"{received:%Y-%m-%dT%H:%M:%S}.000Z"
    assert answer == {"data": [{**expected, "verified": True, "last_event_at": at}]}
    _, _, answer = await control.get(SITES, control.others_token)
    assert [site["id"] for site in answer["data"]] == [control.others_site.id]


@pytest.mark.both_databases
async def test_account_without_sites_gets_an_empty_list(control: Control) -> None:
    async with control.sessions() as session, session.begin():
        await session.delete(await session.get_one(Site, control.others_site.id))
    assert (await control.get(SITES, control.others_token))[2] == {"data": []}


async def test_report_of_a_visit_with_a_purchase(control: Control) -> None:
    await store_purchase(control.store, control.site.id, NOON)
    report = await control.report()
    assert report["site"] == {"id": control.site.id, "name": "Shop", "timezone": "Europe/Oslo"}
    assert {name: report["period"][name] for name in ("days", "interval", "timezone")} == {
        "days": 30,
        "interval": "day",
        "timezone": "Europe/Oslo",
    }
    assert report["filters"] == dict.fromkeys(("path", "source", "campaign", "device", "country"))
    metrics = {name: metric["value"] for name, metric in report["metrics"].items()}
    # For one visitor on one of thirty days the mean is 0.
    assert metrics == {
        "pageviews": 2,
        "visitors": 0,
        "visits": 1,
        "conversion_rate": 100.0,
        "bounce_rate": 0.0,
        "visit_duration": 10,
    }
    assert len(report["series"]) == 30
    assert {entry["name"] for entry in report["pages"]} == {"/", "/thanks"}
    assert report["entry_pages"] == [{"name": "/", "visitors": 1, "visits": 1}]
    assert report["sources"] == [{"name": "Google", "visitors": 1, "visits": 1}]
    assert report["countries"] == [{"name": "NO", "visitors": 1, "visits": 1}]
    reached = {"conversions": 1, "visitors": 1, "conversion_rate": 100.0}
    euros = [{"currency": "EUR", "amount": 12.5}]
    goals = [{name: value for name, value in goal.items() if name != "id"} for goal in report["goals"]]
    assert goals == [
        {"name": "Purchase", **reached, "revenue": euros},
        {"name": "Bought", **reached, "revenue": []},
        {"name": "Purchase again", **reached, "revenue": euros},
    ]
    assert report["page_speed"]["lcp"] == {"p75": None, "unit": "ms", "rating": None, "samples": 0}


async def test_filters_select_visits_and_are_returned(control: Control) -> None:
    await store_purchase(control.store, control.site.id, NOON)
    wanted = "path=/thanks&source=Google&campaign=spring&device=Mobile&country=no"
    report = await control.report(f"?days=7&{wanted}&other=1")
    assert report["filters"] == {
        "path": "/thanks",
        "source": "Google",
        "campaign": "spring",
        "device": "Mobile",
        "country": "NO",
    }
    assert (report["period"]["days"], report["metrics"]["visits"]["value"]) == (7, 1)
    for nobody in ("path=/nowhere", "source=Bing", "campaign=autumn", "device=Desktop", "country=SE"):
        assert (await control.report(f"?{nobody}"))["metrics"]["visits"] == _NOTHING, nobody


async def test_report_on_today_is_hourly(control: Control) -> None:
    report = await control.report("?days=1")
    assert report["period"]["interval"] == "hour"
    assert 1 <= len(report["series"]) <= 25
    assert report["series"][0]["at"][11:16] == "00:00"


async def test_report_without_traffic_is_complete(control: Control) -> None:
    report = await control.report("?days=365")
    assert all(metric["value"] == 0 for metric in report["metrics"].values())
    assert len(report["series"]) == 365
    assert [goal["conversions"] for goal in report["goals"]] == [0, 0, 0]


@pytest.mark.parametrize("path", [SITES, f"{SITES}/1/report"])
async def test_missing_or_invalid_token_is_401(control: Control, path: str) -> None:
    for token in ("", "nonsense", make_credential(CredentialKind.API_TOKEN), control.site.public_id):
        status, headers, answer = await control.get(path, token)
        assert (status, headers["WWW-Authenticate"], answer["type"]) == (
            401,
            "Bearer",
            "/problems/invalid-credential",
        )


@pytest.mark.parametrize("path", [SITES, f"{SITES}/1/report"])
async def test_token_without_the_scope_is_403_with_its_name(control: Control, path: str) -> None:
    status, _, answer = await control.get(path, control.narrow_token)
    assert (status, answer["type"]) == (403, "/problems/missing-scope")
    assert "analytics:read" in answer["detail"]


async def test_foreign_or_unknown_site_is_404(control: Control) -> None:
    for site in (
        control.others_site.id,
        control.site.public_id,
        0,
        -1,
        2**31,
        10**30,
        f"{control.site.id}.0",
        f"+{control.site.id}",
        "%D9%A1",
        "x",
    ):
        # This is checked before the query, so that errors reveal nothing about a site of another account.
        status, _, answer = await control.get(f"{SITES}/{site}/report?days=2")
        assert (status, answer["type"]) == (404, "/problems/not-found"), site


async def test_invalid_query_is_422_with_every_field(control: Control) -> None:
    query = f"days=2&device=TV&country=NOR&source=a&source=b&path={'x' * 2049}"
    status, headers, answer = await control.get(f"{SITES}/{control.site.id}/report?{query}")
    assert (status, headers["Content-Type"]) == (422, "application/problem+json")
    assert answer == {
        "type": "/problems/validation-failed",
        "title": "Validation failed",
        "status": 422,
        "detail": "Fix the fields listed below and send the request again.",
        "errors": [
            {"field": "days", "message": "must be one of 1, 7, 30, 90, 365"},
            {"field": "device", "message": "must be one of Desktop, Mobile, Tablet"},
            {"field": "country", "message": "must be two letters (ISO 3166-1 alpha-2)"},
            {"field": "source", "message": "must be given once"},
            {"field": "path", "message": "must have at most 2048 characters"},
        ],
    }


async def test_filter_texts_are_never_executed_as_sql(control: Control) -> None:
    for text in ("%00", "%27%20OR%201%3D1", "%5CN", "%7Bx%3AString%7D", "%F0%9F%98%80", "%FF", "%0A%09"):
        report = await control.report(f"?days=7&path={text}&source={text}&campaign={text}")
        assert report["metrics"]["visits"] == _NOTHING, text


async def test_unavailable_column_store_is_503(control: Control) -> None:
    control.app.state.column_store = control.app.state.report_store = HeldStore()
    for path in (SITES, f"{SITES}/{control.site.id}/report"):
        status, headers, answer = await control.get(path)
        assert (status, headers["Retry-After"], answer["type"]) == (503, "1", "/problems/unavailable")
        assert answer["detail"] == "The column store does not answer now."


@pytest.mark.both_databases
async def test_no_transaction_is_open_while_the_column_store_works(control: Control) -> None:
    """The use of the token is recorded before: on SQLite an open transaction would block all writers."""
    held = HeldStore()
    held.is_away = False
    control.app.state.report_store = held
    asking = asyncio.create_task(control.get(SITES))
    await asyncio.wait_for(held.asked.wait(), 60)
    async with asyncio.timeout(30), control.sessions() as session, session.begin():
        used = select(ApiToken.id).where(ApiToken.last_used_at.is_not(None))
        assert len((await session.execute(used)).all()) == 1
        await session.execute(update(ApiToken).values(name="written meanwhile"))
    held.go_on.set()
    status, _, answer = await asking
    assert (status, answer["data"][0]["verified"]) == (200, False)


async def test_report_is_cancelled_when_the_caller_disconnects(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    held = HeldStore()
    held.is_away = False
    control.app.state.report_store = held
    queue = control.app.state.report_queue
    asking = [asyncio.create_task(control.report()) for _ in range(3)]
    await asyncio.wait_for(held.asked.wait(), 60)
    async with asyncio.timeout(60):
        # An account may have two concurrent reports.
        while (queue.running, queue.waiting) != (2, 1):
            await asyncio.sleep(0.01)
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        while (queue.running, queue.waiting) != (0, 0):
            await asyncio.sleep(0.01)
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
