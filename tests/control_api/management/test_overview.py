"""The overview, its time line, marks of deployments, and the first steps."""

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from control_domain.monitors.operations import HeartbeatSettings, create_heartbeat
from control_domain.repositories.operations import connect_repository
from control_domain.tables.configuration import ConfigurationRun
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.monitors import HeartbeatRun, HeartbeatState, QueueState
from control_domain.tables.notifications import AlertIncident, AlertThreshold
from control_domain.tables.projects import Environment
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_domain.tables.sites import Site
from control_domain.tables.variables import VariableChange
from pipeline_contracts.schedules import Schedule
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import ALL_SCOPES, add_deployment
from tests.support.notification_rows import add_incident


def _ago(**since: float) -> datetime:
    return datetime.now(UTC) - timedelta(**since)


@dataclass(slots=True)
class Watched:
    """A platform whose environments have new IDs, because all tests share the column store."""

    api: Api
    store: ChdbColumnStore
    environment: str
    site: int

    async def insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        await self.store.insert(f"pharos.{table}", lines, len(rows), uuid.uuid4().hex)

    async def add_events(self, kind: str, count: int, since: timedelta, **members: Any) -> None:
        at = datetime.now(UTC) - since
        row = {
            "environment_id": self.environment,
            "received_at": at.isoformat(),
            "timestamp": at.isoformat(),
            "type": kind,
            "log": uuid.uuid4().hex,
            **members,
        }
        await self.insert("telemetry_events", [{**row, "log_offset": number} for number in range(count)])

    async def add(self, *rows: Any) -> None:
        async with self.api.platform.sessions() as session, session.begin():
            session.add_all(rows)


@pytest.fixture
async def watched(monitored: Api, column_store: ChdbColumnStore) -> AsyncIterator[Watched]:
    acme = monitored.platform.acme
    public_id = f"env_{uuid.uuid4().hex[:26]}"
    assert acme.site is not None
    async with monitored.platform.sessions() as session, session.begin():
        production = acme.environment("shop/production").id
        for number in (await session.execute(select(Environment.id))).scalars().all():
            own = public_id if number == production else f"env_{uuid.uuid4().hex[:26]}"
            await session.execute(update(Environment).where(Environment.id == number).values(public_id=own))
        # Tests of one process share the column store.
        own_site = uuid.uuid4().int % 2**31
        await session.execute(update(Site).where(Site.id == acme.site.id).values(name="Shop", id=own_site))
        await session.execute(delete(AlertIncident))
        await session.execute(update(ConfigurationRun).values(status="succeeded"))
        for tenant in (acme, monitored.platform.other):
            url = f"https://git.{tenant.account.slug}.example/blog.git"
            await connect_repository(
                session, tenant.projects["blog"].id, "git", url, "main", datetime.now(UTC)
            )
    yield Watched(monitored, column_store, public_id, own_site)


def _kinds(overview: Any) -> dict[str, Any]:
    """Return the items by kind. There is one item of each kind."""
    items = overview["attention"]["items"]
    kinds = {item["kind"]: item for item in items}
    assert len(kinds) == len(items), items
    return kinds


async def test_overview_lists_what_needs_attention(watched: Watched) -> None:
    acme, now = watched.api.platform.acme, datetime.now(UTC)
    production = acme.environment("shop/production").id
    assert acme.heartbeat is not None and acme.queue is not None
    assert _kinds(await watched.api.read("/v1/overview")) == {}
    async with watched.api.platform.sessions() as session, session.begin():
        failed = await add_deployment(
            session, acme, "shop/production", now, status="failed", finished_at=now, commit_subject="Pay"
        )
        older = await add_deployment(session, acme, "blog/production", now, status="failed", finished_at=now)
        await add_deployment(session, acme, "blog/production", now)
        waiting = await add_deployment(session, acme, "shop/staging", now, status="awaiting_approval")
        state = update(HeartbeatState).where(HeartbeatState.heartbeat_id == acme.heartbeat.id)
        await session.execute(state.values(state="down", since_ms=to_epoch_ms(now)))
        is_of_shop = ConfigurationRun.project_id == acme.projects["shop"].id
        await session.execute(update(ConfigurationRun).where(is_of_shop).values(status="failed"))
        session.add_all(
            [
                QueueState(
                    queue_id=acme.queue.id,
                    snapshot_id="s",
                    observed_us=to_epoch_ms(now) * 1000,
                    received_ms=to_epoch_ms(now),
                    pending=9,
                    oldest_wait_seconds=90,
                ),
                VariableChange(environment_id=production, state="pending", count=1, created_at=now),
                AlertThreshold(
                    environment_id=production, name="long", kind="queue.size", target="mail", threshold=10,
                    recovery=5, window_seconds=60, pending_seconds=60, severity="critical", created_at=now,
                ),
            ]
        )  # fmt: skip
    await watched.add_events(
        "exception", 30, timedelta(minutes=9), name="ValueError", title="<b>7</b>", service="api"
    )
    await watched.add_events("exception", 2, timedelta(hours=7), name="KeyError", title="old", service="api")
    ended = timedelta(minutes=5)
    await watched.add_events("request", 90, ended, service="api", status_code=200, duration_ms=900.0)
    await watched.add_events("request", 10, ended, service="api", status_code=500, duration_ms=900.0)
    await watched.add_events("request", 40, ended, service="web", status_code=200, duration_ms=900.0)
    await watched.add_events(
        "request", 40, timedelta(hours=5), service="web", status_code=200, duration_ms=90.0
    )
    overview = await watched.api.read("/v1/overview")
    items = overview["attention"]["items"]
    found = {(item["kind"], item["target"]["id"], item["severity"]): item for item in items}
    group = found.keys() - {
        ("deployment.failed", str(failed.id), "critical"),
        ("heartbeat.down", str(acme.heartbeat.id), "critical"),
        ("service.errors", "api", "warning"),
        ("service.slow", "web", "warning"),
        ("queue.wait", str(acme.queue.id), "warning"),
        ("deployment.waiting", str(waiting.id), "info"),
    }
    by_kind = {kind: item for (kind, _, _), item in found.items()}
    assert sorted(kind for kind, _, _ in group) == [
        "configuration.failed",
        "exception.new",
        "exception.spike",
        "variables.waiting",
    ]
    assert by_kind["exception.spike"]["title"] == "ValueError: <b>7</b>"
    assert by_kind["exception.spike"]["severity"] == "critical" and by_kind["exception.spike"]["count"] == 30
    assert by_kind["exception.new"]["count"] == 2
    assert by_kind["service.errors"]["detail"] == "10 of 100 requests in the last hour"
    assert by_kind["deployment.failed"]["detail"].endswith("Pay")
    await _check_failure_of_a_serving_environment(watched)
    assert by_kind["deployment.waiting"]["can_decide"] is False
    assert (await watched.api.read("/v1/overview", by="maintainer"))["attention"]["items"][-1]["can_decide"]
    assert [item["severity"] for item in items] == sorted(
        (item["severity"] for item in items), key=["critical", "warning", "info"].index
    )
    totals = overview["attention"]["totals"]
    assert totals == {
        "incidents": 0, "failed_deployments": 1, "waiting": 2, "failed_configuration_runs": 1, "heartbeats": 1,
        "queues": 1, "exceptions": 2, "services": 2,
    }  # fmt: skip
    shop, blog = overview["projects"]
    assert (shop["state"], shop["deployment"]["number"]) == ("critical", waiting.id)
    assert (shop["exceptions"], shop["requests"], shop["errors"], shop["heartbeats_failing"]) == (
        32,
        140,
        10,
        1,
    )
    assert blog["deployment"]["number"] > older.id and blog["state"] in ("ok", "warning")

    # An incident replaces the item of its heartbeat, and a decision ends the item of a group.
    async with watched.api.platform.sessions() as session, session.begin():
        await add_incident(session, acme, now, subject=str(acme.heartbeat.id))
        await add_incident(
            session, acme, now, subject=f"approval {waiting.id}", kind="deployment.awaiting_approval",
            environment_id=acme.environment("shop/staging").id, severity="info", facts="{}",
        )  # fmt: skip
        session.add(
            ExceptionStatus(
                environment_id=production, group_id=by_kind["exception.spike"]["target"]["id"],
                status="ignored", changed_at=now,
            )
        )  # fmt: skip
    kinds = [item["kind"] for item in (await watched.api.read("/v1/overview"))["attention"]["items"]]
    assert kinds.count("incident") == 1 and "deployment.waiting" in kinds
    assert {*kinds}.isdisjoint({"heartbeat.down", "exception.spike"})


async def test_overview_shows_what_the_caller_may_read(watched: Watched) -> None:
    acme, now = watched.api.platform.acme, datetime.now(UTC)
    async with watched.api.platform.sessions() as session, session.begin():
        for place in ("shop/production", "blog/production"):
            await add_deployment(session, acme, place, now, status="failed", finished_at=now)
        other = watched.api.platform.other
        await add_deployment(session, other, "shop/production", now, status="failed", finished_at=now)

    async def read(by: str, path: str = "/v1/overview", scopes: frozenset[str] = ALL_SCOPES) -> Any:
        return (await watched.api.call("GET", path, by=by, scopes=scopes)).data

    for person, projects in {"owner": ["Shop", "Blog"], "viewer": ["Shop"], "stranger": []}.items():
        overview = await read(person)
        assert [row["project"]["name"] for row in overview["projects"]] == projects
        assert overview["attention"]["totals"]["failed_deployments"] == len(projects)
        assert {item["project"]["name"] for item in overview["attention"]["items"]} <= {*projects}
        timeline = await read(person, "/v1/overview/timeline?since=1h")
        assert len([each for each in timeline["deployments"] if each["result"] == "failed"]) == len(projects)
        steps = await read(person, "/v1/getting-started")
        assert {each["project"]["name"] for each in steps["environments"]} == {*projects}
    for scope, total, series in (
        ("deploy:read", "failed_deployments", "deployments"),
        ("monitoring:read", "heartbeats", "heartbeat_failures"),
        ("notifications:read", "incidents", "incidents_started"),
        ("telemetry:read", None, "exceptions"),
        ("analytics:read", None, "visitors"),
    ):
        lacking = ALL_SCOPES - {scope}
        overview = await read("owner", scopes=lacking)
        assert total is None or overview["attention"]["totals"][total] is None
        timeline = await read("owner", "/v1/overview/timeline", lacking)
        assert [name for name, value in timeline.items() if value is None] == [
            name for name in timeline if name == series or _are_of_one_scope(name, series)
        ]


def _are_of_one_scope(name: str, series: str) -> bool:
    return {name, series} in ({"incidents_started", "incidents_resolved"}, {"visitors", "page_views"})


async def test_timeline_counts_in_buckets(watched: Watched) -> None:
    """A day in buckets of an hour: each event is in the bucket of its time, and events outside of the day are in
    none."""
    acme = watched.api.platform.acme
    # Long before the deployments of the platform, which was created up to an hour ago.
    end = _ago(hours=12).replace(minute=0, second=0, microsecond=0)
    begin = end - timedelta(hours=6)

    def at(hours: float) -> datetime:
        return begin + timedelta(hours=hours)

    assert acme.heartbeat is not None and acme.site is not None
    async with watched.api.platform.sessions() as session, session.begin():
        own = {"heartbeat_id": acme.heartbeat.id}
        for number, (hours, values) in enumerate(
            [
                (1.5, {"failed_ms": 1}),
                (1.6, {"timed_out_ms": 1}),
                (1.7, {"succeeded_ms": 1}),
                (6.5, {"failed_ms": 1}),
            ]
        ):
            session.add(HeartbeatRun(**own, run_id=str(number), first_ms=to_epoch_ms(at(hours)), **values))
        for number, (started, resolved) in enumerate([(0.5, 2.5), (3.0, None), (-1.0, 0.0)]):
            await add_incident(
                session, acme, at(started), subject=f"s{number}",
                resolved_at=None if resolved is None else at(resolved),
            )  # fmt: skip
        # An event without an end, such as a successful deployment, is not an incident.
        await add_incident(session, acme, at(0.6), subject="s9", state="info")
        live = await add_deployment(session, acme, "shop/production", at(4), finished_at=at(4.5))
        await add_deployment(session, acme, "shop/production", at(-2), finished_at=at(-1.9))
        session.add(
            RecordedDeployment(
                environment_id=acme.environment("shop/production").id, deployment_id=uuid.uuid4().hex,
                version="v7", service="api", deployed_at=at(5), recorded_at=at(5),
            )
        )  # fmt: skip
    since = datetime.now(UTC) - at(2.2)
    await watched.add_events("exception", 3, since, name="E", title="x", service="api")
    await watched.insert(
        "pageviews",
        [
            {
                "site_id": watched.site, "day": at(5).date().isoformat(), "visit_id": number, "id": str(uuid.uuid4()),
                "occurred_at": at(5.5).isoformat(), "received_at": at(5.5).isoformat(), "visitor": number // 2,
                "path": "/", "log": watched.environment, "log_offset": number,
            }
            for number in range(4)
        ],
    )  # fmt: skip
    query = f"from={begin:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}&buckets=6"
    path = f"/v1/overview/timeline?{query}&project={acme.projects['shop'].public_id}"
    timeline = await watched.api.read(path)
    assert timeline["step_seconds"] == 3600 and len(timeline["times"]) == 6
    assert timeline["times"][0].startswith(f"{begin:%Y-%m-%dT%H:%M:%S}")
    assert timeline["heartbeat_failures"] == [0, 2, 0, 0, 0, 0]
    assert timeline["incidents_started"] == [1, 0, 0, 1, 0, 0]
    assert timeline["incidents_resolved"] == [1, 0, 1, 0, 0, 0]
    assert timeline["exceptions"] == [0, 0, 3, 0, 0, 0]
    assert (timeline["page_views"][5], timeline["visitors"][5]) == (4, 2)
    marks = [(each["number"], each["version"], each["service"]) for each in timeline["deployments"]]
    assert marks == [(live.id, (live.revision or "")[:12], None), (None, "v7", "api")]
    marker_path = f"/v1/environments/{watched.environment}/deployment-markers"
    assert await watched.api.read(f"{marker_path}?{query.rpartition('&')[0]}") == timeline["deployments"]
    marker_path = f"/v1/projects/{acme.projects['shop'].public_id}/deployment-markers"
    assert await watched.api.read(f"{marker_path}?{query.rpartition('&')[0]}") == timeline["deployments"]
    # Deployments are retained longer than telemetry.
    assert len(await watched.api.read(f"{marker_path}?since=1000d")) > len(timeline["deployments"])
    refused = await watched.api.call("GET", f"{marker_path}?since=2000d")
    assert (refused.status, refused.fields) == (422, ["since"])
    blog = await watched.api.read(f"/v1/overview/timeline?{query}&project={acme.projects['blog'].public_id}")
    assert not blog["deployments"] and not any(blog["exceptions"] + blog["heartbeat_failures"])


async def test_first_steps_are_completed_by_received_data(watched: Watched) -> None:
    acme, now = watched.api.platform.acme, datetime.now(UTC)

    async def done() -> set[str]:
        document = await watched.api.read("/v1/getting-started")
        assert all((step["at"] is not None) == step["done"] for step in document["steps"])
        return {step["name"] for step in document["steps"] if step["done"]}

    # The platform of tests has a repository, a deployment of it, a channel, and six people.
    before = {"repository", "deployment", "channel", "second_person"}
    # Sites have the same numbers in all tests.
    assert (await done()) - {"page_view"} == before
    await watched.add_events("log", 1, timedelta(minutes=1))
    assert (await done()) - {"page_view"} == before | {"event"}
    span = {"EnvironmentId": watched.environment, "ReceivedAt": now.isoformat(), "Timestamp": now.isoformat()}
    await watched.insert("otel_traces", [{**span, "TraceId": uuid.uuid4().hex, "log": "of this test"}])
    async with watched.api.platform.sessions() as session, session.begin():
        made = await create_heartbeat(
            session, acme.environment("shop/production"), HeartbeatSettings("job", Schedule(60)), now
        )
        state = update(HeartbeatState).where(HeartbeatState.heartbeat_id == made.id)
        await session.execute(state.values(last_signal_ms=to_epoch_ms(now)))
    assert (await done()) - {"page_view"} == before | {"event", "otlp", "heartbeat"}
    document = await watched.api.read("/v1/getting-started")
    assert document["base_url"] == watched.api.platform.url
    first = document["environments"][0]
    assert first["type"] == "production" and len(first["ingest_keys"]) == 1
    assert acme.site is not None
    assert [site["tracker"] for site in document["sites"]] == [acme.site.public_id]


async def _check_failure_of_a_serving_environment(watched: Watched) -> None:
    """A failed deployment is a warning while the former release keeps its traffic."""
    acme = watched.api.platform.acme
    built = acme.deployments["production"]
    async with watched.api.platform.sessions() as session, session.begin():
        release = (
            await session.execute(select(Release.id).where(Release.deployment_id == built.id))
        ).scalar_one()
        live = LiveRelease(
            environment_id=acme.environment("shop/production").id, release_id=release, since=built.created_at
        )
        await session.merge(live)
    items = (await watched.api.read("/v1/overview"))["attention"]["items"]
    assert [each["severity"] for each in items if each["kind"] == "deployment.failed"] == ["warning"]
