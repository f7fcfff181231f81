"""Analyses of a site, and reports behind shared links."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from sqlalchemy import select, update

from control_domain.tables.audit import AuditEntry
from control_domain.tables.sites import ReportShare, Site
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.control_api.management.conftest import Api
from tests.support.stored_visits import store_purchase

_PARTS = ("/figures", "/conversions", "/page-speed", "/lists?names=pages")


def _site(api: Api) -> str:
    assert api.platform.acme.site is not None
    return f"/v1/analytics/sites/{api.platform.acme.site.id}"


async def _open(api: Api, secret: str, part: str = "") -> Any:
    answer = await api.platform.call(
        "POST", f"/v1/shared-report{part}", {"secret": secret}, headers={"Authorization": None}
    )
    return answer


async def test_analysis_counts_the_stored_events(api: Api, column_store: ChdbColumnStore) -> None:
    assert api.platform.acme.site is not None
    now = datetime.now(UTC)
    # Tests of one process share the column store, and their sites have the same numbers.
    number = uuid.uuid4().int % 2**31
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Site).where(Site.id == api.platform.acme.site.id).values(id=number))
    site = f"/v1/analytics/sites/{number}"
    await store_purchase(column_store, number, now - timedelta(seconds=30))
    await api.call("POST", f"{site}/goals", {"event": "purchase"})
    figures = await api.read(f"{site}/figures?days=2&compare=previous")
    assert figures["metrics"]["pageviews"] == {"value": 2, "previous": 0, "change": 100.0}
    lists = await api.read(f"{site}/lists?names=countries,pages&days=2&limit=1")
    assert lists["lists"]["countries"] == {
        "unit": "visits",
        "total": 1,
        "entries": [{"name": "NO", "visitors": 1, "number": 1}],
    }
    assert lists["lists"]["pages"]["total"] == 2
    (goal,) = (await api.read(f"{site}/conversions?days=2"))["goals"]
    assert (goal["conversions"], goal["revenue"]) == (1, [{"currency": "EUR", "amount": 12.5}])
    filters = json.dumps([["is_not", "country", ["no"]]])
    others = await api.read(f"{site}/figures?days=2&filters={quote(filters)}")
    assert others["metrics"]["pageviews"]["value"] == 0
    assert (await api.read(f"{site}/current-visitors")) == {"visitors": 1}
    (activity,) = (await api.read("/v1/analytics/activity"))["sites"]
    assert activity["current_visitors"] == 1 and sum(activity["pageviews"]) == 2
    await api.expect((422, "validation-failed"), "GET", f"{site}/lists?names=moons")
    # A person without a role in the project sees none of its sites in the dashboard.
    assert (await api.read("/v1/analytics/activity", by="stranger"))["sites"] == []


async def test_a_link_opens_the_report_of_its_site_alone(api: Api) -> None:
    made = await api.call("POST", f"{_site(api)}/shares", {"name": "The board"}, by="deployer")
    assert made.status == 201
    secret = made.data["secret"]
    opened = await _open(api, secret)
    assert opened.data == {"name": api.platform.acme.site.name, "timezone": api.platform.acme.site.timezone}  # type: ignore[union-attr]
    for part in _PARTS:
        answer = await _open(api, secret, part)
        assert answer.status == 200
        assert secret not in answer.body.decode() and "acc_" not in answer.body.decode()
    assert (await _open(api, secret, "/current-visitors")).data.keys() == {"visitors"}
    (listed,) = await api.read(f"{_site(api)}/shares")
    assert listed["state"] == "live" and "secret" not in listed
    async with api.platform.sessions() as session:
        share = (await session.execute(select(ReportShare))).scalar_one()
        assert secret.encode() not in share.digest
        actions = (await session.execute(select(AuditEntry.action, AuditEntry.details))).all()
    assert "site.share" in [action for action, _ in actions] and secret not in str(actions)


async def test_a_link_that_ended_opens_nothing(api: Api) -> None:
    async def make(name: str) -> dict[str, Any]:
        made: dict[str, Any] = (await api.call("POST", f"{_site(api)}/shares", {"name": name})).data
        return made

    async def is_closed(secret: str) -> None:
        for part in ("", "/current-visitors", *_PARTS):
            assert (await _open(api, secret, part)).problem == (404, "not-found"), part

    revoked, expired, whole = await make("revoked"), await make("expired"), await make("whole")
    for _ in range(2):
        assert (await api.call("DELETE", f"{_site(api)}/shares/{revoked['id']}")).data["state"] == "revoked"
    async with api.platform.sessions() as session, session.begin():
        await session.execute(
            update(ReportShare)
            .where(ReportShare.id == expired["id"])
            .values(expires_at=datetime.now(UTC) - timedelta(seconds=1))
        )
    for secret in (
        revoked["secret"],
        expired["secret"],
        whole["secret"][:-1] + "x",
        "phr_shr_",
        "",
        "x" * 200,
    ):
        await is_closed(secret)
    assert (await _open(api, whole["secret"])).status == 200
    # A link of another site cannot be revoked through this site, and is removed with its own site.
    await api.expect((404, "not-found"), "DELETE", f"{_site(api)}/shares/999")
    past = {"name": "past", "expires_at": "2020-01-01T00:00:00Z"}
    await api.expect((422, "validation-failed"), "POST", f"{_site(api)}/shares", past)
    assert (await api.call("DELETE", _site(api))).status == 200
    await is_closed(whole["secret"])
