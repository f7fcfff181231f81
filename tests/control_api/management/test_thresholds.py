"""Thresholds: their rules, and that their incidents end with them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.tables.notifications import AlertEvent, AlertState
from tests.control_api.management.conftest import Api

_WAIT = {"name": "wait", "kind": "queue.wait", "target": "mail", "threshold": 60}
_METRIC = {"name": "load", "kind": "metric.value", "target": "cpu", "threshold": 5}


def _path(api: Api) -> str:
    return f"/v1/environments/{api.platform.acme.environment('shop/production').public_id}/thresholds"


async def test_defaults_and_changes(monitored: Api) -> None:
    made = await monitored.call("POST", _path(monitored), _WAIT, by="maintainer")
    assert made.status == 201
    given = {"recovery": 60, "window_seconds": 300, "pending_seconds": 60, "severity": "warning"}
    assert {name: made.data[name] for name in given} == given
    assert (made.data["phase"], made.data["value"], made.data["direction"]) == (None, None, "above")
    path = f"/v1/thresholds/{made.data['id']}"
    changed = await monitored.call("PATCH", path, {"threshold": 90, "recovery": None})
    assert (changed.data["threshold"], changed.data["recovery"]) == (90, 90)
    lower = await monitored.call("PATCH", path, {"recovery": 45})
    assert lower.data["recovery"] == 45
    await monitored.expect((422, "validation-failed"), "PATCH", path, {"threshold": 40})
    await monitored.expect((403, "deploy-not-allowed"), "PATCH", path, {"threshold": 95}, by="deployer")
    await monitored.expect((409, "name-taken"), "POST", _path(monitored), _WAIT)
    assert (await monitored.call("DELETE", path)).status == 200
    assert [action for action, _ in await monitored.audit(4)] == [
        "threshold.remove",
        *["threshold.set"] * 2,
        "threshold.create",
    ]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({**_WAIT, "kind": "heartbeat.down"}, ["kind"]),
        ({**_WAIT, "target": " "}, ["target"]),
        ({**_WAIT, "service": "web"}, ["service"]),
        ({**_WAIT, "aggregation": "max"}, ["aggregation"]),
        ({**_WAIT, "threshold": -1}, ["threshold"]),
        ({**_WAIT, "recovery": 61}, ["recovery"]),
        ({**_METRIC, "direction": "below", "recovery": 4}, ["recovery"]),
        ({**_METRIC, "threshold": 1e16}, ["threshold"]),
        ({**_WAIT, "window_seconds": 30, "pending_seconds": 90_000}, ["window_seconds", "pending_seconds"]),
        ({**_WAIT, "kind": "service.error_rate", "threshold": 101}, ["threshold"]),
    ],
)
async def test_refused_thresholds(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    refused = await shared_api.expect((422, "validation-failed"), "POST", _path(shared_api), body)
    assert refused.fields == fields


async def test_recovery_on_the_good_side(monitored: Api) -> None:
    below = {**_METRIC, "direction": "below", "recovery": 6, "service": "web", "aggregation": "min"}
    made = await monitored.call("POST", _path(monitored), below)
    assert (made.data["recovery"], made.data["service"], made.data["aggregation"]) == (6, "web", "min")
    cleared = await monitored.call("PATCH", f"/v1/thresholds/{made.data['id']}", {"service": None})
    assert cleared.data["service"] is None


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("change", "ends"),
    [
        (None, "removed"),
        ({"enabled": False}, "disabled"),
        ({"target": "other"}, "changed"),
        ({"threshold": 90}, None),
    ],
)
async def test_incident_ends_with_its_threshold(
    monitored: Api, change: dict[str, Any] | None, ends: str | None
) -> None:
    number = monitored.platform.acme.notified["threshold"]
    now = datetime.now(UTC)
    async with monitored.platform.sessions() as session, session.begin():
        session.add(
            AlertState(key=f"threshold {number}", phase="firing", since=now, value=75.0, evaluated_at=now)
        )
    path = f"/v1/thresholds/{number}"
    read = await monitored.read(path)
    assert (read["phase"], read["value"]) == ("firing", 75)
    await monitored.call("DELETE" if change is None else "PATCH", path, change)
    async with monitored.platform.sessions() as session:
        events = (await session.scalars(select(AlertEvent))).all()
        states = (await session.scalars(select(AlertState))).all()
    assert [(event.kind, event.subject, event.state) for event in events] == (
        [] if ends is None else [("queue.wait", f"threshold {number}", "resolved")]
    )
    assert all(json.loads(event.facts)["reason"] == ends for event in events)
    assert len(states) == (1 if ends is None else 0)


async def test_lists_have_what_the_caller_may_read(monitored: Api) -> None:
    blog = monitored.platform.acme.environment("blog/production").public_id
    await monitored.call("POST", f"/v1/environments/{blog}/thresholds", _METRIC)

    async def names(by: str, query: str = "") -> list[str]:
        return [each["name"] for each in await monitored.read(f"/v1/thresholds{query}", by=by)]

    assert await names("owner") == ["load", "mail waits"]
    assert await names("owner", f"?environment={blog}") == ["load"]
    assert await names("viewer") == ["mail waits"]
    assert await names("stranger") == []
