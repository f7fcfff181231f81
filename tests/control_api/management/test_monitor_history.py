"""Lists and series of the history of heartbeats and queues, and of the next runs of schedules."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_domain.monitors import next_runs
from control_domain.tables.monitors import HeartbeatRun
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.control_api.management.conftest import Api

HEARTBEATS, QUEUES = "/v1/monitors/heartbeats", "/v1/monitors/queues"
RUN = "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e{:02x}"


@pytest.mark.both_databases
async def test_recent_runs(monitored: Api) -> None:
    production = monitored.platform.acme.environment("shop/production").public_id
    acme = monitored.platform.acme.heartbeat
    assert acme is not None
    body = {"name": "Other 100%", "period_seconds": 60}
    other = await monitored.call("POST", f"/v1/environments/{production}/heartbeats", body)
    # The last two runs of the first heartbeat began in the same millisecond.
    times = [(acme.id, 5), (acme.id, 4), (acme.id, 3), (acme.id, 3), (other.data["id"], 9)]
    async with monitored.platform.sessions() as session, session.begin():
        session.add_all(
            HeartbeatRun(heartbeat_id=number, run_id=RUN.format(n), first_ms=at, succeeded_ms=at)
            for n, (number, at) in enumerate(times)
        )

    async def runs(query: str) -> list[list[str] | None]:
        listed = await monitored.read(f"{HEARTBEATS}?{query}")
        return [each["recent_runs"] and [run["run_id"] for run in each["recent_runs"]] for each in listed]

    first = [RUN.format(n) for n in range(4)]
    assert await runs("recent_runs=3") == [[RUN.format(4)], first[:3]]
    assert await runs("recent_runs=9") == [[RUN.format(4)], first]
    assert await runs("limit=10") == [None, None]
    assert await runs("recent_runs=2&search=NIGHT") == [first[:2]]
    # Wildcards of LIKE match only themselves.
    assert await runs("recent_runs=2&search=100%25") == [[RUN.format(4)]]
    assert await runs("recent_runs=2&search=%25%25") == []
    assert (await monitored.call("GET", f"{HEARTBEATS}?recent_runs=61")).fields == ["recent_runs"]


async def test_next_runs(shared_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/v1/monitors/next-runs"
    # The clock of Oslo skips 02:00 to 03:00 on 29 March 2026.
    before = to_epoch_ms(datetime(2026, 3, 28, 12, tzinfo=UTC))
    monkeypatch.setattr(next_runs, "to_epoch_ms", lambda _: before)
    found = await shared_api.read(f"{path}?cron=30%202%20*%20*%20*&timezone=Europe/Oslo&count=2", by="viewer")
    assert found["runs"] == ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
    for query, field in (
        ("cron=61%20*%20*%20*%20*", "cron"),
        ("cron=0%200%2030%202%20*", "cron"),
        ("cron=0%203%20*%20*%20*&timezone=Mars", "timezone"),
        ("cron=0%203%20*%20*%20*&count=0", "count"),
    ):
        refused = await shared_api.call("GET", f"{path}?{query}")
        assert (refused.status, refused.fields) == (422, [field]), query


async def _insert(
    store: ChdbColumnStore, table: str, rows: list[dict[str, Any]], own: dict[str, Any]
) -> None:
    lines = [json.dumps({**own, "log": "history", "log_offset": n, **row}) for n, row in enumerate(rows)]
    text = "".join(line + "\n" for line in lines).encode()
    await store.insert(table, text, len(lines), uuid.uuid4().hex)


async def test_history_of_a_queue(
    monitored: Api, column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = monitored.platform.acme.environment("shop/production").public_id
    made = await monitored.call("POST", f"/v1/environments/{environment}/queues", {"name": "import"})
    queue = made.data["id"]
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)

    def at(minutes: float) -> str:
        return (hour + timedelta(minutes=minutes)).isoformat()

    def snapshot(number: int, minutes: float, pending: int, **more: int) -> dict[str, Any]:
        return {"snapshot_id": RUN.format(number), "observed_at": at(minutes), "pending": pending, **more}

    def update(worker: int, minutes: float, status: str, job: int | None) -> dict[str, Any]:
        job_id = None if job is None else RUN.format(job)
        return {"worker_id": RUN.format(worker), "sequence": 1, "status": status, "job_id": job_id} | {
            "received_at": at(minutes)
        }

    own = {"environment_id": environment, "queue_id": queue}
    snapshots = [
        snapshot(1, 1, 4, oldest_wait_seconds=20, failed=1),
        # Sent again.
        snapshot(1, 1, 4, oldest_wait_seconds=20, failed=1),
        snapshot(2, 2, 8, oldest_wait_seconds=90, failed=3, delayed=2),
        snapshot(3, 17, 0),
    ]
    await _insert(column_store, "pharos.queue_snapshots", snapshots, {**own, "received_at": at(20)})
    other = {"environment_id": "env_of_another_account", "queue_id": queue, "received_at": at(20)}
    await _insert(column_store, "pharos.queue_snapshots", [snapshot(9, 3, 99)], other)
    updates = [
        # A job before the range, a job that is reported twice, and a job in another step.
        update(1, -20, "busy", 40),
        update(1, 1, "busy", 40),
        update(1, 2, "busy", 41),
        update(2, 2, "busy", 42),
        update(2, 16, "busy", 42),
        update(2, 17, "busy", 43),
        update(2, 18, "stopped", None),
    ]
    await _insert(column_store, "pharos.queue_worker_updates", updates, own)
    query = f"from={at(0)}&to={at(60)}&step=15m".replace("+", "%2B")
    series = await monitored.read(f"{QUEUES}/{queue}/series?{query}", by="viewer")
    assert series["step_seconds"] == 900
    begun, second = series["points"]
    expected = {"pending": 6, "most_pending": 8, "delayed": 2, "reserved": None, "failed": 3}
    assert begun.items() >= {**expected, "oldest_wait_seconds": 90, "jobs_started": 2, "workers": 2}.items()
    expected = {"pending": 0, "most_pending": 0, "failed": None, "oldest_wait_seconds": None}
    assert second.items() >= {**expected, "jobs_started": 1, "workers": 1}.items()
    assert [datetime.fromisoformat(each["at"]) for each in series["points"]] == [
        hour,
        hour + timedelta(minutes=15),
    ]
    listed = {each["id"]: each["trend"] for each in await monitored.read(f"{QUEUES}?trend=3h")}
    assert sum(point["jobs_started"] for point in listed[queue]) == 4
    assert max(point["oldest_wait_seconds"] or 0 for point in listed[queue]) == 90
    assert all(each["trend"] is None for each in await monitored.read(QUEUES))

    async def fail(*_: object) -> None:
        raise StorageUnavailable("down")

    monkeypatch.setattr(column_store, "query", fail)
    assert [each["trend"] for each in await monitored.read(f"{QUEUES}?trend=3h&search=import")] == [None]
