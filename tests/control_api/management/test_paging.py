"""Lists of the management API, paged while rows are inserted: no earlier row is repeated or omitted."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_origin

from control_api.management.all_operations import ROUTERS
from control_api.operations.pages import PageOf
from control_api.operations.router import Operation
from control_domain.accounts.operations import create_person
from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.plan import Action
from control_domain.projects.operations import grant_role
from control_domain.tables.monitors import HeartbeatLogEntry, HeartbeatRun, QueueWorker
from control_domain.tables.notifications import NotificationChannel
from pipeline_contracts.deploy_states import StepStatus
from pipeline_contracts.times import format_time
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import add_deployment, add_monitors, add_succeeded
from tests.support.notification_rows import add_incident, add_notification, add_notifications
from tests.support.reviews import add_run
from tests.support.serve_control import VARIABLE_KEYS

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ELSEWHERE = {
    # Lists of the column store.
    *("list_events", "list_logs", "list_services", "list_exceptions", "list_exception_events"),
    *("list_traces", "list_metrics"),
    # One row for each environment, which a newer push replaces.
    "list_waiting",
    # Rows of webhooks.
    "list_repository_deliveries",
    # Two kinds of rows.
    "list_approvals",
    # Of several projects.
    "list_all_environments",
}
"""Lists that the test files of their operations cover."""

Insert = Callable[[int], Awaitable[object]]


async def test_pages_while_rows_are_inserted(api: Api) -> None:
    await add_monitors(api.platform)
    await add_notifications(api.platform)
    inserts = _inserts(api)
    lists = [
        operation
        for router in ROUTERS
        for operation in router.operations
        if get_origin(operation.answer) is PageOf and operation.id not in ELSEWHERE
    ]
    assert {operation.id for operation in lists} == inserts.keys()
    for operation in lists:
        await _check_pages(api, operation, inserts[operation.id])


async def _check_pages(api: Api, operation: Operation, insert: Insert) -> None:
    acme = api.platform.acme
    assert acme.heartbeat is not None and acme.queue is not None and acme.site is not None
    assert acme.repository is not None
    path = operation.path.format(
        project=acme.projects["shop"].public_id,
        environment=acme.environment("shop/production").public_id,
        heartbeat=acme.heartbeat.id,
        queue=acme.queue.id,
        site=acme.site.id,
    )
    for number in range(5):
        await insert(number)
    before = list(map(str, await api.read(f"{path}?limit=100")))
    assert len(before) >= 5, operation.id
    seen: list[str] = []
    cursor, number = "", 5
    while True:
        page = (await api.call("GET", f"{path}?limit=2{cursor}")).json()
        seen += map(str, page["data"])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        # More inserts would make the list of environments, which has the newest last, endless.
        if number < 8:
            await insert(number)
            number += 1
    assert len(seen) == len(set(seen)), operation.id
    assert [row for row in seen if row in before] == before, operation.id


def _make_threshold(number: int) -> dict[str, Any]:
    return {"name": f"T{number}", "kind": "queue.size", "target": "mail", "threshold": 100}


def _inserts(api: Api) -> dict[str, Insert]:
    """Return for each list a function that inserts a row. Its argument is a new number each time."""
    platform, acme = api.platform, api.platform.acme
    shop, production = acme.projects["shop"], acme.environment("shop/production").public_id
    assert acme.site is not None

    def post(path: str, make_body: Callable[[int], dict[str, Any]] = lambda _: {}) -> Insert:
        async def insert(number: int) -> None:
            answer = await api.call("POST", path, make_body(number))
            assert answer.status in (200, 201, 202), (path, answer.body)

        return insert

    def add(insert_row: Callable[[Any, int], Awaitable[object]]) -> Insert:
        async def insert(number: int) -> None:
            async with platform.sessions() as session, session.begin():
                await insert_row(session, number)

        return insert

    async def add_person(session: Any, number: int) -> Any:
        account = await session.merge(acme.account)
        return await create_person(session, account, f"P{number}", f"p{number}@x.example", "member", NOW)

    async def add_member(session: Any, number: int) -> None:
        await grant_role(session, shop, await add_person(session, number + 100), "viewer")

    async def add_repository(number: int) -> None:
        project = (await api.call("POST", "/v1/projects", {"name": f"R{number}"})).data["id"]
        url = {"url": f"https://git.example/{number}.git"}
        assert (await api.call("POST", f"/v1/projects/{project}/repository", url)).status == 201

    async def add_run_of_heartbeat(session: Any, number: int) -> None:
        assert acme.heartbeat is not None
        session.add(HeartbeatRun(heartbeat_id=acme.heartbeat.id, run_id=f"{number:036}", first_ms=number))

    async def add_log_entry(session: Any, number: int) -> None:
        assert acme.heartbeat is not None
        entry = HeartbeatLogEntry(
            heartbeat_id=acme.heartbeat.id, entry_id=f"{number:036}", received_ms=number
        )
        session.add(entry)

    async def add_worker(session: Any, number: int) -> None:
        assert acme.queue is not None
        session.add(
            QueueWorker(
                queue_id=acme.queue.id,
                worker_id=f"{number:036}",
                sequence=1,
                status="idle",
                received_ms=number,
            )
        )

    async def add_one_notification(session: Any, number: int) -> None:
        incident = await add_incident(session, acme, NOW, subject=f"notified {number}")
        channel = await session.get_one(NotificationChannel, acme.notified["channel"])
        await add_notification(session, acme, incident, channel, NOW)

    in_an_hour = datetime.now(UTC) + timedelta(hours=1)

    def key(kind: str, number: int | None) -> str:
        return f"/v1/monitors/{kind}/{number}"

    heartbeat = key("heartbeats", acme.heartbeat.id if acme.heartbeat else None)
    queue = key("queues", acme.queue.id if acme.queue else None)
    environments = f"/v1/projects/{shop.public_id}"
    return {
        "list_people": add(add_person),
        "list_invitations": post("/v1/invitations", lambda n: {"email": f"i{n}@x.example"}),
        "list_tokens": post("/v1/tokens", lambda n: {"name": f"T{n}", "scopes": ["deploy:read"]}),
        "list_audit": post("/v1/projects", lambda n: {"name": f"A{n}"}),
        "list_members": add(add_member),
        "list_project_environments": post(
            f"{environments}/environments", lambda n: {"name": f"E{n}", "type": "staging"}
        ),
        "list_deployments_of_project": add(
            lambda session, _: add_deployment(session, acme, "shop/production", NOW, status="failed")
        ),
        "list_deployments_of_environment": add(
            lambda session, _: add_deployment(session, acme, "shop/production", NOW, status="failed")
        ),
        "list_releases_of_environment": add(
            lambda session, _: add_succeeded(session, acme, "shop/production", NOW)
        ),
        "list_repositories": add_repository,
        "list_project_previews": post(f"{environments}/previews", lambda n: {"branch": f"b{n}"}),
        "list_applications": add(
            lambda session, _: add_run(
                session, VARIABLE_KEYS, shop, [Action("update", PROJECT, ())], [StepStatus.FAILED], NOW
            )
        ),
        "list_configuration_reviews": post(
            f"{environments}/configuration/reviews", lambda _: {"document": "version: 2", "bindings": {}}
        ),
        "list_heartbeats": post(
            f"/v1/environments/{production}/heartbeats", lambda n: {"name": f"H{n}", "period_seconds": 60}
        ),
        "list_heartbeat_runs": add(add_run_of_heartbeat),
        "list_heartbeat_log": add(add_log_entry),
        "list_queues": post(f"/v1/environments/{production}/queues", lambda n: {"name": f"Q{n}"}),
        "list_queue_workers": add(add_worker),
        "list_heartbeat_keys": post(f"{heartbeat}/keys"),
        "list_queue_keys": post(f"{queue}/keys"),
        "list_ping_keys": post(f"{heartbeat}/ping-keys"),
        "list_ingest_keys": post(f"/v1/environments/{production}/ingest-keys"),
        "list_environment_ping_keys": post(f"/v1/environments/{production}/ping-keys"),
        "list_notification_channels": post(
            "/v1/notification-channels",
            lambda n: {"name": f"C{n}", "type": "email", "settings": {"address": f"c{n}@x.example"}},
        ),
        "list_notification_rules": post(
            "/v1/notification-rules", lambda n: {"name": f"R{n}", "recipients": []}
        ),
        "list_thresholds": post(f"/v1/environments/{production}/thresholds", _make_threshold),
        "list_environment_thresholds": post(
            f"/v1/environments/{production}/thresholds", lambda n: _make_threshold(n + 100)
        ),
        "list_silences": post("/v1/silences", lambda n: {"ends_at": format_time(in_an_hour)}),
        "list_incidents": add(
            lambda session, number: add_incident(session, acme, NOW, subject=f"paged {number}")
        ),
        "list_notifications": add(add_one_notification),
        "list_goals": post(f"/v1/analytics/sites/{acme.site.id}/goals", lambda n: {"event": f"g{n}"}),
        "list_report_shares": post(f"/v1/analytics/sites/{acme.site.id}/shares", lambda n: {"name": f"S{n}"}),
    }
