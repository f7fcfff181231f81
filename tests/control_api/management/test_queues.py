"""Queues and their workers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from control_domain.monitors import limits
from control_domain.tables.monitors import MonitorProgress, QueueState, QueueWorker
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.times import to_epoch_ms
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import add_monitors

QUEUES = "/v1/monitors/queues"
WORKER = "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e{:02x}"
MINUTE = 60_000


@pytest.fixture
async def api(api: Api) -> Api:
    """Return a platform with monitors, for this test alone."""
    await add_monitors(api.platform)
    return api


def environment_of(api: Api, name: str = "shop/staging") -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}"


def mail(api: Api) -> str:
    """Return the path of the queue of `add_monitors`."""
    assert api.platform.acme.queue is not None
    return f"{QUEUES}/{api.platform.acme.queue.id}"


async def add(api: Api, *rows: Any) -> None:
    async with api.platform.sessions() as session, session.begin():
        session.add_all(rows)


async def test_create_rename_remove(api: Api) -> None:
    made = await api.call("POST", f"{environment_of(api)}/queues", {"name": " import "}, by="deployer")
    assert made.status == 201
    queue = made.data
    key = queue.pop("key")
    assert is_well_formed(key["key"], CredentialKind.MONITOR_KEY)
    entry = await api.platform.directory.find(digest_credential(key["key"]))
    assert entry is not None
    assert (entry.kind, entry.monitor) == (CredentialKind.MONITOR_KEY, f"queue/{queue['id']}")
    path = f"{QUEUES}/{queue['id']}"
    assert await api.read(path, by="viewer") == queue
    assert queue == {
        "id": queue["id"],
        "name": "import",
        "project": queue["project"],
        "environment": queue["environment"],
        "observed_at": None,
        "pending": None,
        "delayed": None,
        "reserved": None,
        "failed": None,
        "oldest_wait_seconds": None,
        "workers": {"idle": 0, "busy": 0, "stopped": 0, "lost": 0},
        "created_at": queue["created_at"],
    }
    renamed = await api.call("PATCH", path, {"name": "export"}, by="deployer")
    assert renamed.data == {**queue, "name": "export"}
    assert (await api.call("DELETE", path, by="deployer")).data == {
        "id": queue["id"],
        "name": "export",
        "keys": 1,
    }
    assert await api.platform.directory.find(digest_credential(key["key"])) is None
    assert (await api.call("GET", path)).problem == (404, "not-found")
    subject = f"queue {queue['id']}"
    assert await api.audit(4) == [
        ("queue.remove", subject),
        ("queue.set", subject),
        ("monitor-key.create", f"monitor-key {key['id']}"),
        ("queue.create", subject),
    ]


async def test_names(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    production = f"{environment_of(api, 'shop/production')}/queues"
    await api.expect((409, "name-taken"), "POST", production, {"name": "mail"})
    for name in ("", " ", "a\tb", "a" * 101):
        refused = await api.expect((422, "validation-failed"), "POST", production, {"name": name})
        assert refused.fields == ["name"]
        refused = await api.expect((422, "validation-failed"), "PATCH", mail(api), {"name": name})
        assert refused.fields == ["name"]
    other = await api.call("POST", production, {"name": "other"})
    await api.expect((409, "name-taken"), "PATCH", f"{QUEUES}/{other.data['id']}", {"name": "mail"})
    seen = await api.call("GET", mail(api))
    etag = {"If-Match": seen.headers["ETag"]}
    assert (await api.call("PATCH", mail(api), {"name": "post"}, headers=etag)).status == 200
    await api.expect((412, "precondition-failed"), "PATCH", mail(api), {"name": "x"}, headers=etag)
    monkeypatch.setattr(limits, "MAX_MONITORS", 2)
    await api.expect((409, "conflict"), "POST", production, {"name": "third"})


async def test_list(api: Api) -> None:
    for n in range(3):
        await api.call("POST", f"{environment_of(api)}/queues", {"name": f"queue {n}"})
    await api.call("POST", f"{environment_of(api, 'blog/staging')}/queues", {"name": "hidden"})
    everything = ["hidden", "queue 2", "queue 1", "queue 0", "mail"]
    assert [each["name"] for each in await api.read_all(QUEUES)] == everything
    assert [each["name"] for each in await api.read(QUEUES, by="viewer")] == everything[1:]
    assert await api.read(QUEUES, by="stranger") == []
    staging = api.platform.acme.environment("shop/staging").id
    found = await api.read(f"{QUEUES}?environment={staging}&name=queue%201")
    assert [each["name"] for each in found] == ["queue 1"]
    assert (await api.call("GET", f"{QUEUES}?state=new")).fields == ["state"]


@pytest.mark.both_databases
async def test_snapshot_and_workers(api: Api) -> None:
    assert api.platform.acme.queue is not None
    number = api.platform.acme.queue.id
    now_ms = to_epoch_ms(datetime.now(UTC))
    statuses = [("idle", 0), ("busy", 0), ("busy", 6 * MINUTE), ("stopped", 6 * MINUTE), ("idle", MINUTE)]
    await add(
        api,
        QueueState(
            queue_id=number,
            snapshot_id=WORKER.format(0),
            observed_us=1_774_432_800_000_123,
            received_ms=now_ms,
            pending=7,
            failed=0,
        ),
        *(
            QueueWorker(
                queue_id=number,
                worker_id=WORKER.format(n),
                sequence=n + 1,
                status=status,
                job_id=WORKER.format(99) if status == "busy" else None,
                received_ms=now_ms - age_ms,
            )
            for n, (status, age_ms) in enumerate(statuses)
        ),
    )
    for queue in (await api.read(mail(api), by="viewer"), (await api.read(QUEUES))[0]):
        assert queue["workers"] == {"idle": 2, "busy": 1, "stopped": 1, "lost": 1}
        assert (queue["observed_at"], queue["pending"], queue["delayed"], queue["failed"]) == (
            "2026-03-25T10:00:00.000Z",
            7,
            None,
            0,
        )
    workers = await api.read_all(f"{mail(api)}/workers")
    assert [worker["worker_id"] for worker in workers] == [WORKER.format(n) for n in range(5)]
    assert [worker["status"] for worker in workers] == ["idle", "busy", "lost", "stopped", "idle"]
    assert (workers[1]["job_id"], workers[1]["sequence"]) == (WORKER.format(99), 2)
    assert (await api.call("DELETE", mail(api))).status == 200


@pytest.mark.both_databases
async def test_a_backlog_of_the_pipeline_makes_no_worker_lost(api: Api) -> None:
    """A worker's silence is measured up to the progress of the slowest partition of reports."""
    assert api.platform.acme.queue is not None
    received_ms = to_epoch_ms(datetime.now(UTC)) - 60 * MINUTE
    await add(
        api,
        QueueWorker(
            queue_id=api.platform.acme.queue.id,
            worker_id=WORKER.format(0),
            sequence=1,
            status="busy",
            received_ms=received_ms,
        ),
        # The progress of another topic does not count for queues.
        MonitorProgress(topic=topics.HEARTBEATS, partition=0, applied_through_ms=received_ms),
    )

    async def status(*silence_ms: int) -> str:
        """Return the status if each partition is applied until this long after the report."""
        async with api.platform.sessions() as session, session.begin():
            for partition, ms in enumerate(silence_ms):
                progress = MonitorProgress(
                    topic=topics.QUEUES, partition=partition, applied_through_ms=received_ms + ms
                )
                await session.merge(progress)
        (worker,) = await api.read(f"{mail(api)}/workers")
        lost = (await api.read(mail(api)))["workers"]["lost"]
        assert lost == (worker["status"] == "lost")
        return str(worker["status"])

    assert await status() == "lost"
    assert await status(60 * MINUTE, 5 * MINUTE - 1) == "busy"
    assert await status(60 * MINUTE, 5 * MINUTE) == "lost"
