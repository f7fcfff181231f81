"""The page of an incident: it needs a signature, a read changes nothing, and the page loads no other files."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from sqlalchemy import delete, select, update
from yarl import URL

from control_domain.notifications.signed_links import LINK_DAYS, IncidentLinks, LinkRecipient
from control_domain.tables.accounts import Membership
from control_domain.tables.audit import AuditEntry
from control_domain.tables.notifications import AlertIncident, NotificationChannel, NotificationSilence
from tests.support.deploy_platform import RECEIPT_KEY, Platform, Prepared, open_platform
from tests.support.notification_rows import add_incident, add_notifications
from tests.support.prepared_platform import prepared

__all__ = ["platform", "prepared"]

_LINKS = IncidentLinks(RECEIPT_KEY, None)


@pytest.fixture
async def platform(prepared: Prepared, tmp_path: Path) -> AsyncIterator[Platform]:
    async with open_platform(prepared, tmp_path) as opened:
        await add_notifications(opened)
        yield opened


async def _public_id(platform: Platform, number: int | None = None) -> str:
    async with platform.sessions() as session:
        incident = await session.get_one(AlertIncident, number or platform.acme.notified["incident"])
        return incident.public_id


def _sign(
    platform: Platform, public_id: str, now: datetime | None = None, recipient: LinkRecipient | None = None
) -> str:
    """Return the signature of a link, by default of one that was sent to the channel a moment ago."""
    channel = LinkRecipient(platform.acme.notified["channel"])
    return _LINKS.sign(public_id, recipient or channel, now or datetime.now(UTC))


def _address(platform: Platform, public_id: str, action: str = "", signature: str | None = None) -> URL:
    signed = _sign(platform, public_id) if signature is None else signature
    return URL(f"{platform.url}/incidents/{public_id}{action}").with_query(s=signed)


async def _read(response: aiohttp.ClientResponse) -> str:
    _check_headers(response)
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    return await response.text()


def _check_headers(response: aiohttp.ClientResponse) -> None:
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "noindex" in response.headers["X-Robots-Tag"]
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "form-action 'self'" in policy


async def test_reads_change_nothing(platform: Platform) -> None:
    public_id = await _public_id(platform)
    before = await platform.contents()
    for method in ("GET", "HEAD"):
        async with platform.http.request(method, _address(platform, public_id)) as response:
            page = await _read(response)
            assert response.status == 200
    for action in ("/acknowledge", "/silence"):
        async with platform.http.get(_address(platform, public_id, action)) as response:
            assert response.status == 405
    assert await platform.contents() == before
    async with platform.http.get(_address(platform, public_id)) as response:
        page = await _read(response)
    assert "nightly 1" in page and "<dd>shop</dd>" in page and "<dd>production</dd>" in page
    # Nothing is loaded, and no script runs.
    assert not re.search(r"<script|src=|https?://", page)


async def test_only_the_signature_opens_it(platform: Platform) -> None:
    public_id = await _public_id(platform)
    other = await _public_id(platform, platform.other.notified["incident"])
    now = datetime.now(UTC)
    expired = _sign(platform, public_id, now - timedelta(days=LINK_DAYS, seconds=1))
    before = await platform.contents()
    for signature in ("", "1.x", expired, _sign(platform, other)):
        for method, action in (("GET", ""), ("POST", "/acknowledge"), ("POST", "/silence")):
            address = _address(platform, public_id, action, signature)
            data = {"seconds": "3600"} if method == "POST" else None
            async with platform.http.request(method, address, data=data) as response:
                page = await _read(response)
                assert response.status == 403
                assert "nightly" not in page and "This link does not work" in page
    unknown = "inc_00000000000000000000000000"
    async with platform.http.get(_address(platform, unknown)) as response:
        assert response.status == 404
        await _read(response)
    assert await platform.contents() == before


@pytest.mark.both_databases
async def test_forms(platform: Platform) -> None:
    """Requests of a browser: both forms redirect to the page, and add audit entries."""
    public_id = await _public_id(platform)
    async with platform.http.post(_address(platform, public_id, "/acknowledge"), data={}) as response:
        page = await _read(response)
        assert (response.status, response.url.path) == (200, f"/incidents/{public_id}")
    assert "Acknowledged: no reminders follow." in page and "I am looking at it" not in page
    form = {"seconds": "14400", "reason": "known <b>fault</b>", "group": "1"}
    async with platform.http.post(_address(platform, public_id, "/silence"), data=form) as response:
        page = await _read(response)
    assert "Silenced until" in page
    async with platform.sessions() as session:
        incident = (
            await session.scalars(select(AlertIncident).where(AlertIncident.public_id == public_id))
        ).one()
        silence = (
            await session.scalars(
                select(NotificationSilence).order_by(NotificationSilence.id.desc()).limit(1)
            )
        ).one()
        query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(2)
        entries = (await session.scalars(query)).all()
    assert incident.acknowledged_at is not None and incident.acknowledged_by_id is None
    assert (silence.kinds, silence.reason, silence.person_id) == ('["heartbeat"]', form["reason"], None)
    assert silence.ends_at - silence.starts_at == timedelta(hours=4)
    assert [entry.action for entry in entries] == ["silence.create", "incident.acknowledge"]
    channel = platform.acme.notified["channel"]
    assert all(entry.source.startswith(f"signed link of channel {channel}, ") for entry in entries)


async def test_refused_forms(platform: Platform) -> None:
    public_id = await _public_id(platform)
    before = await platform.contents()
    for data, status in (
        ({}, 422),
        ({"seconds": "60"}, 422),
        ({"seconds": "3600", "reason": "x" * 501}, 422),
        (b"\xff\x00&=&seconds", 422),
        (b"a=1&" * 11, 422),
        ({"seconds": "3600", "reason": "x" * 5000}, 413),
    ):
        async with platform.http.post(_address(platform, public_id, "/silence"), data=data) as response:
            assert response.status == status, data
    assert await platform.contents() == before
    async with platform.sessions() as session, session.begin():
        await session.execute(
            update(AlertIncident)
            .where(AlertIncident.public_id == public_id)
            .values(open_key=None, state="resolved", resolved_at=datetime.now(UTC))
        )
    async with platform.http.post(
        _address(platform, public_id, "/silence"), data={"seconds": "3600"}
    ) as response:
        page = await _read(response)
        assert response.status == 409 and "has ended already" in page
    # The incident has ended, so the page has no forms.
    assert "<form" not in page
    before = await platform.contents()
    async with platform.http.post(
        _address(platform, public_id, "/acknowledge"), data={"group": "1"}
    ) as response:
        assert response.status == 409
    assert await platform.contents() == before


async def _try(platform: Platform, public_id: str, recipient: LinkRecipient) -> tuple[int, bool, int]:
    """Use a link; return the status of the page, whether it has forms, and the status of acknowledging."""
    signature = _sign(platform, public_id, recipient=recipient)
    async with platform.http.get(_address(platform, public_id, "", signature)) as response:
        page = await _read(response)
        shown = (response.status, "<form" in page)
    acknowledge = _address(platform, public_id, "/acknowledge", signature)
    async with platform.http.post(acknowledge, allow_redirects=False) as response:
        _check_headers(response)
        return *shown, response.status


async def test_recipient_has_the_rights_of_now(platform: Platform) -> None:
    public_id, acme = await _public_id(platform), platform.acme
    people = {name: LinkRecipient(person_id=person.id) for name, person in acme.people.items()}
    refused = (403, False, 403)
    before = await platform.contents()
    assert await _try(platform, public_id, people["viewer"]) == (200, False, 403)
    assert await _try(platform, public_id, people["stranger"]) == refused
    of_others = platform.other
    for recipient in (
        LinkRecipient(person_id=of_others.people["owner"].id),
        LinkRecipient(of_others.notified["channel"]),
        LinkRecipient(10**9),
    ):
        assert await _try(platform, public_id, recipient) == refused
    assert await platform.contents() == before
    for name in ("owner", "deployer"):
        assert await _try(platform, public_id, people[name]) == (200, True, 303)
    async with platform.sessions() as session, session.begin():
        incident = (
            await session.scalars(select(AlertIncident).where(AlertIncident.public_id == public_id))
        ).one()
        assert incident.acknowledged_by_id == acme.people["owner"].id
        entry = (await session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1))).one()
        assert (entry.person_id, entry.source.partition(",")[0]) == (
            incident.acknowledged_by_id,
            "signed link",
        )
        # Incidents of the platform are only for owners and admins.
        incident.project_id = incident.environment_id = None
    assert await _try(platform, public_id, people["deployer"]) == refused
    assert await _try(platform, public_id, people["admin"]) == (200, True, 303)
    async with platform.sessions() as session, session.begin():
        await session.execute(update(NotificationChannel).values(enabled=False))
        await session.execute(delete(Membership).where(Membership.person_id == acme.people["admin"].id))
    assert await _try(platform, public_id, people["admin"]) == refused
    assert await _try(platform, public_id, LinkRecipient(acme.notified["channel"])) == refused


async def test_silencing_again_extends_the_silence(platform: Platform) -> None:
    public_id = await _public_id(platform)
    ends = []
    for form in (
        {"seconds": "3600", "reason": "known"},
        {"seconds": "86400"},
        {"seconds": "3600"},
        {"seconds": "3600", "group": "1"},
        {"seconds": "3600", "group": "1"},
    ):
        async with platform.http.post(_address(platform, public_id, "/silence"), data=form) as response:
            assert response.status == 200
        async with platform.sessions() as session:
            query = select(NotificationSilence).where(
                NotificationSilence.id > platform.other.notified["silence"]
            )
            rows = (await session.scalars(query.order_by(NotificationSilence.id))).all()
        assert rows[0].reason == "known"
        ends.append([round((row.ends_at - row.starts_at).total_seconds() / 3600) for row in rows])
    assert ends == [[1], [24], [24], [24, 1], [24, 1]]


async def test_names_are_only_text(platform: Platform) -> None:
    async with platform.sessions() as session, session.begin():
        incident = await add_incident(
            session,
            platform.acme,
            datetime.now(UTC),
            "hostile",
            facts='{"heartbeat": "<script>alert(1)</script>\\u202e", "deployment_before": {"number": 7, '
            '"revision": "<img>", "subject": "<i>"}}',
        )
    async with platform.http.get(_address(platform, incident.public_id)) as response:
        page = await _read(response)
    assert not re.search(r"<(script|img|i)>", page)
    assert "\u202e" not in page and "&lt;script&gt;" in page
