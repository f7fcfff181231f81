"""Objects and stored data of the account."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from control_domain.usage import report
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryResult
from tests.control_api.management.conftest import Api
from tests.support.stored_visits import sent_event, store_visits

USAGE = "/v1/usage"
OTLP = {
    "otel_traces": "spans",
    "otel_logs": "log_records",
    "otel_metrics_gauge": "metric_points",
    "otel_metrics_sum": "metric_points",
    "otel_metrics_histogram": "metric_points",
    "otel_metrics_exponential_histogram": "metric_points",
    "otel_metrics_summary": "metric_points",
}
NOTHING = {"events": 0, "spans": 0, "log_records": 0, "metric_points": 0}


async def store_rows(store: ChdbColumnStore, environment_id: str, day: date, rows: int) -> None:
    """Store this many rows in each table, received on this day."""
    received = f"{day} 23:59:59.999"
    await store.command(
        "INSERT INTO pharos.telemetry_events (environment_id, received_at, timestamp) "
        f"SELECT '{environment_id}', '{received}', '{received}' FROM numbers({rows})"
    )
    for table in OTLP:
        await store.command(
            f"INSERT INTO pharos.{table} (EnvironmentId, ReceivedAt) "
            f"SELECT '{environment_id}', '{received}' FROM numbers({rows})"
        )


def of_day(document: Any, day: date) -> Any:
    (found,) = [each for each in document if each["day"] == day.isoformat()]
    return {name: rows for name, rows in found.items() if name != "day"}


def added(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after}


async def test_counts(shared_api: Api) -> None:
    acme = shared_api.platform.acme
    usage = await shared_api.read(USAGE)
    assert usage["counts"] == {
        "projects": len(acme.projects),
        "environments": len(acme.places),
        "people": len(acme.people),
        "monitors": (acme.heartbeat is not None) + (acme.queue is not None),
        "sites": 1,
        "deployments": len(acme.deployments),
    }
    today = datetime.now(UTC).date()
    assert (usage["until"], len(usage["days"])) == (today.isoformat(), 30)
    assert usage["since"] == usage["days"][0]["day"] == (today - timedelta(days=29)).isoformat()
    assert usage["days"][-1]["day"] == usage["until"]
    (only,) = (await shared_api.read(f"{USAGE}?days=1"))["days"]
    assert only["day"] == usage["until"]


async def test_stored_by_day(api: Api, column_store: ChdbColumnStore) -> None:
    acme = api.platform.acme
    shop, blog = acme.environment("shop/staging").public_id, acme.environment("blog/staging").public_id
    site_id = acme.site.id if acme.site else 0
    now = datetime.now(UTC)
    today, earlier = now.date(), now.date() - timedelta(days=3)
    before = await api.read(USAGE)
    await store_rows(column_store, shop, earlier, 2)
    await store_rows(column_store, blog, earlier, 1)
    await store_rows(column_store, api.platform.other.environment("shop/staging").public_id, earlier, 7)
    await store_visits(
        column_store,
        site_id,
        sent_event(now, "192.0.2.1"),
        sent_event(now, "192.0.2.1", type="event", name="signup"),
        sent_event(now - timedelta(days=3), "192.0.2.1"),
    )
    after = await api.read(USAGE)

    rows = {"events": 1, "spans": 1, "log_records": 1, "metric_points": 5}
    assert added(of_day(before["days"], earlier), of_day(after["days"], earlier)) == {
        **{kind: 3 * number for kind, number in rows.items()},
        "pageviews": 1,
    }
    assert added(of_day(before["days"], today), of_day(after["days"], today)) == {**NOTHING, "pageviews": 1}
    listed = {each["environment"]["id"]: each for each in after["environments"]}
    assert listed[shop]["project"]["slug"] == "shop"
    assert set(of_day(listed[blog]["days"], earlier)) == set(rows)
    assert all(each["day"] != (earlier - timedelta(days=1)).isoformat() for each in listed[blog]["days"])
    (site,) = after["sites"]
    assert (site["site"], site["project"]["slug"]) == ({"id": site_id, "name": "Shop"}, "shop")
    assert of_day(site["days"], earlier)["pageviews"] >= 1
    # Outside of the period.
    (last,) = (await api.read(f"{USAGE}?days=1"))["days"]
    assert last == after["days"][-1]


async def test_only_projects_that_the_caller_may_see_are_listed(
    api: Api, column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = api.platform.acme
    shop, blog = acme.environment("shop/staging").public_id, acme.environment("blog/staging").public_id
    for environment_id in (shop, blog):
        await store_rows(column_store, environment_id, datetime.now(UTC).date(), 1)
    seen = {person: await api.read(USAGE, by=person) for person in ("admin", "viewer", "stranger")}
    ids = {
        person: {each["environment"]["id"] for each in usage["environments"]}
        for person, usage in seen.items()
    }
    assert ids["admin"] >= {shop, blog}
    assert shop in ids["viewer"] and blog not in ids["viewer"]
    assert ids["stranger"] == set() and seen["stranger"]["sites"] == []
    # The totals are those of the account.
    assert seen["stranger"]["days"] == seen["admin"]["days"]
    monkeypatch.setattr(report, "MAX_LISTED", 1)
    await store_rows(column_store, blog, datetime.now(UTC).date(), 1000)
    (most,) = (await api.read(USAGE))["environments"]
    assert most["environment"]["id"] == blog


@pytest.mark.parametrize("days", ["0", "91", "x", "1&days=2"])
async def test_invalid_days(shared_api: Api, days: str) -> None:
    refused = await shared_api.call("GET", f"{USAGE}?days={days}")
    assert (refused.problem, refused.fields) == ((422, "validation-failed"), ["days"])


async def test_unavailable_column_store(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_arguments: Any, **_options: Any) -> QueryResult:
        raise StorageUnavailable("away")

    monkeypatch.setattr(ChdbColumnStore, "query", fail)
    headers = {"Authorization": f"Bearer {api.platform.acme.token()}"}
    async with api.platform.http.get(f"{api.platform.url}/api{USAGE}", headers=headers) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        assert "column store" in (await response.json(content_type=None))["detail"]
