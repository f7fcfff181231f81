"""The audit log of the account."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from control_domain.audit import Actor, record_audit_entry
from control_domain.tables.audit import AuditEntry
from tests.control_api.management.conftest import Api

AUDIT = "/v1/audit"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


async def record(
    api: Api, action: str, subject: str, person: str | None = None, *, tenant: str = "acme", hours: int = 0
) -> None:
    """Add an entry that is `hours` after noon."""
    of = getattr(api.platform, tenant)
    actor = Actor("192.0.2.1", None if person is None else of.people[person].id, request_id="req")
    async with api.platform.sessions() as session, session.begin():
        at = NOON + timedelta(hours=hours)
        record_audit_entry(session, actor, of.account.id, action, subject, at, {"hours": hours})


async def test_entries(api: Api) -> None:
    shop = api.platform.acme.projects["shop"]
    made = await api.call("PATCH", f"/v1/projects/{shop.public_id}", {"name": "Store"}, by="admin")
    admin = api.platform.acme.people["admin"]
    (entry,) = await api.read(f"{AUDIT}?limit=1", by="admin")
    assert entry == {
        "id": entry["id"],
        "at": entry["at"],
        "person": {"id": admin.public_id, "name": admin.name, "email": admin.email},
        "token_id": entry["token_id"],
        "action": "project.rename",
        "subject": f"project {shop.public_id}",
        "details": {"from": "Shop", "to": "Store"},
        "source": "127.0.0.1",
        "request_id": made.headers["X-Request-Id"],
    }
    tokens = await api.read(f"/v1/tokens?limit=100&person={admin.public_id}", by="admin")
    (token,) = [each for each in tokens if each["is_current"]]
    assert entry["token_id"] == token["id"]


async def test_filters(api: Api) -> None:
    acme = api.platform.acme
    environment, owner = acme.environment("shop/staging").public_id, acme.people["owner"]
    await record(api, "environment.lock", f"environment {environment}", "owner", hours=0)
    await record(api, "environment.unlock", f"environment {environment}", "admin", hours=1)
    await record(api, "site.set", "site 4", "owner", hours=2)
    await record(api, "site.set", "site 44", hours=3)
    # Entries without an account, and of another account.
    async with api.platform.sessions() as session, session.begin():
        session.add(
            AuditEntry(action="variables.reseal", subject="site 4", at=NOON, details="{}", source="x")
        )
    await record(api, "site.set", "site 4", "owner", tenant="other")

    async def hours(query: str) -> list[int]:
        return [each["details"]["hours"] for each in await api.read(f"{AUDIT}?{query}")]

    def at(hour: int) -> str:
        return quote((NOON + timedelta(hours=hour)).astimezone().isoformat())

    assert await hours(f"until={at(9)}") == [3, 2, 1, 0]
    assert await hours(f"subject={environment}") == [1, 0]
    assert await hours(f"subject=environment%20{environment}") == [1, 0]
    assert await hours("subject=site%204") == [2]
    assert await hours("subject=4") == await hours("subject=env_x") == await hours("action=site") == []
    assert await hours(f"action=site.set&person={owner.public_id}") == [2]
    assert await hours(f"person={owner.id}&until={at(9)}") == [2, 0]
    assert await hours(f"person={api.platform.other.people['owner'].public_id}") == []
    assert await hours(f"since={at(1)}&until={at(3)}") == [2, 1]
    assert await hours(f"since={at(3)}&until={at(1)}") == []


@pytest.mark.both_databases
async def test_pages_while_entries_are_added(api: Api) -> None:
    for number in range(5):
        await record(api, "site.set", "site 4", hours=number)
    first = await api.call("GET", f"{AUDIT}?action=site.set&limit=2")
    cursor = first.json()["next_cursor"]
    await record(api, "site.set", "site 4", hours=9)
    second = await api.call("GET", f"{AUDIT}?action=site.set&limit=2&cursor={cursor}")
    assert [each["details"]["hours"] for each in first.data + second.data] == [4, 3, 2, 1]
    # A cursor is valid only for the list with the same filters.
    refused = await api.call("GET", f"{AUDIT}?limit=2&cursor={cursor}")
    assert refused.fields == ["cursor"]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("since=yesterday&until=2026-05-04", ["since", "until"]),
        ("since=2026-05-04T00:00:00", ["since"]),
        ("since=0001-01-01T00:00:00%2B14:00", ["since"]),
        ("until=9999-12-31T23:59:59-14:00", ["until"]),
        ("subject=%00", ["subject"]),
        (f"action={'a' * 61}", ["action"]),
        ("after=1", ["after"]),
    ],
)
async def test_invalid_filters(shared_api: Api, query: str, fields: list[str]) -> None:
    refused = await shared_api.call("GET", f"{AUDIT}?{query}")
    assert (refused.problem, refused.fields) == ((422, "validation-failed"), fields)


async def test_times_at_the_ends_of_the_calendar(shared_api: Api) -> None:
    ends = "since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z"
    assert (await shared_api.call("GET", f"{AUDIT}?{ends}")).status == 200
