"""Heartbeats, queues and their keys as an operator handles them, on both databases."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.monitors.operations import find_heartbeats, live_monitor_keys
from control_domain.projects.operations import create_environment, create_project
from control_domain.published_keys import publish_keys
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    MonitorProgress,
    Queue,
    QueueState,
    QueueWorker,
)
from operator_actions.actions import choose_monitor as choose
from operator_actions.actions import monitors as actions
from operator_actions.actions.ingest_keys import create_key
from operator_actions.door import ACTIONS, Engines
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.accounts import make_acme
from tests.support.engines import or_skip
from tests.support.redis_server import running_redis

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass(slots=True)
class Control:
    """The database, what the edges look into, and the public IDs of account, project and environment."""

    sessions: Sessions
    directory: InProcessKeyDirectory
    account: str
    project: str
    environment: str

    async def add_heartbeat(self, name: str = "backup", **wanted: Any) -> dict[str, Any]:
        schedule = {} if "cron" in wanted else {"period_seconds": 3600}
        return await actions.add_heartbeat(
            self.sessions, self.directory, {"name": name, **schedule, **wanted}, NOW
        )

    async def add_queue(self, name: str = "mail", **wanted: Any) -> dict[str, Any]:
        return await actions.add_queue(self.sessions, self.directory, {"name": name, **wanted}, NOW)

    async def opens(self, key: str) -> str | None:
        """What a key opens at the edges."""
        entry = await self.directory.find(digest_credential(key))
        return None if entry is None else entry.monitor

    async def add(self, *rows: Any) -> None:
        async with self.sessions() as session, session.begin():
            session.add_all(rows)

    async def state_of(self, heartbeat: int) -> HeartbeatState:
        async with self.sessions() as session:
            return await session.get_one(HeartbeatState, heartbeat)

    async def count(self, table: Any) -> int:
        async with self.sessions() as session:
            return (await session.execute(select(func.count()).select_from(table))).scalar_one()


@pytest.fixture
async def control(sessions: Sessions) -> AsyncIterator[Control]:
    async with sessions() as session, session.begin():
        account, project, environment = await make_acme(session, NOW)
    yield Control(
        sessions, InProcessKeyDirectory(), account.public_id, project.public_id, environment.public_id
    )


async def test_a_heartbeat_is_made_with_its_state_and_its_key(control: Control) -> None:
    told = await control.add_heartbeat(" backup ")
    assert is_well_formed(told["key"], CredentialKind.MONITOR_KEY)
    shown = await actions.show_heartbeat(control.sessions, told["id"])
    assert shown == {
        "id": told["id"],
        "name": "backup",
        "environment_id": control.environment,
        "state": "new",
        "since": "2026-11-20T12:00:00.000Z",
        "period_seconds": 3600,
        "cron": None,
        "timezone": "UTC",
        "grace_seconds": 300,
        "max_runtime_seconds": 3600,
        "failures_before_down": 1,
        "failures_in_row": 0,
        "open_runs": 0,
        "last_signal_at": None,
        "last_success_at": None,
        "due_at": None,
        "created_at": "2026-11-20T12:00:00.000Z",
        "runs": [],
        "keys": [{"id": told["key_id"], "state": "live"}],
    }
    state = await control.state_of(told["id"])
    assert (state.deadline_ms, state.version) == (None, 0)
    entry = await control.directory.find(digest_credential(told["key"]))
    assert entry is not None
    assert (entry.kind, entry.monitor) == (CredentialKind.MONITOR_KEY, f"heartbeat/{told['id']}")
    assert (entry.account_id, entry.project_id, entry.environment_id, entry.limit) == (
        control.account,
        control.project,
        control.environment,
        RateLimit(10, 20),
    )
    assert "warning" not in told


@pytest.mark.both_databases
async def test_a_heartbeat_by_cron_with_all_settings(control: Control) -> None:
    told = await control.add_heartbeat(
        cron="0 3 * * *",
        timezone="Europe/Oslo",
        grace_seconds=0,
        max_runtime_seconds=7200,
        failures_before_down=3,
    )
    (listed,) = await actions.list_heartbeats(control.sessions)
    names = ("period_seconds", "cron", "timezone", "grace_seconds", "max_runtime_seconds")
    assert [listed[name] for name in names] == [None, "0 3 * * *", "Europe/Oslo", 0, 7200]
    assert (listed["id"], listed["failures_before_down"]) == (told["id"], 3)


async def test_a_queue_is_made_with_its_key(control: Control) -> None:
    told = await control.add_queue()
    shown = await actions.show_queue(control.sessions, told["id"], NOW)
    empty = ("observed_at", "pending", "delayed", "reserved", "failed", "oldest_wait_seconds")
    assert shown == {
        "id": told["id"],
        "name": "mail",
        "environment_id": control.environment,
        **dict.fromkeys(empty),
        "workers": [],
        "created_at": "2026-11-20T12:00:00.000Z",
        "keys": [{"id": told["key_id"], "state": "live"}],
    }
    assert await control.opens(told["key"]) == f"queue/{told['id']}"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"period_seconds": None}, "Give either a period or a cron expression."),
        ({"cron": "* * * * *", "period_seconds": 60}, "Give either a period or a cron expression."),
        ({"cron": "61 * * * *"}, "'61 \\* \\* \\* \\*' is no cron expression"),
        ({"cron": "0 0 30 2 *"}, "is no cron expression|never comes"),
        ({"cron": "* * * * * *"}, "no cron expression of five fields"),
        ({"period_seconds": 0}, "A period lasts from 1 second to 366 days."),
        ({"timezone": "Mars"}, "'Mars' is no time zone"),
        ({"grace_seconds": -1}, "The grace time is 0 seconds to 366 days."),
        ({"max_runtime_seconds": 0}, "The longest run time is 1 second to 366 days."),
        ({"failures_before_down": 0}, "The number of failures before down is 1 to 1000."),
        ({"name": " "}, "A name has 1 to 100 printable characters."),
        ({"name": "x" * 101}, "A name has 1 to 100 printable characters."),
        ({"name": "a\x1b[31m"}, "A name has 1 to 100 printable characters."),
        ({"environment_id": "env_nobody"}, "There is no environment env_nobody."),
    ],
    ids=str,
)
async def test_invalid_heartbeats_are_refused(control: Control, wanted: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        await control.add_heartbeat(**wanted)
    assert [await control.count(table) for table in (Heartbeat, HeartbeatState, MonitorKey)] == [0, 0, 0]


@pytest.mark.both_databases
async def test_names_are_unique_in_an_environment(control: Control) -> None:
    await control.add_heartbeat()
    await control.add_queue()
    with pytest.raises(Refused, match="has one of the name 'backup' already"):
        await control.add_heartbeat()
    with pytest.raises(Refused, match="has one of the name 'mail' already"):
        await control.add_queue()
    # What was refused left nothing behind: no key, no state.
    assert [await control.count(table) for table in (HeartbeatState, Queue, MonitorKey)] == [1, 1, 2]
    async with control.sessions() as session, session.begin():
        account = (await session.execute(select(Account))).scalar_one()
        project = await create_project(session, account, "Blog", "blog", NOW)
        other = await create_environment(session, project, "Staging", "staging", "staging", NOW)
    with pytest.raises(Refused, match="There are several environments: name one."):
        await control.add_heartbeat()
    told = await control.add_heartbeat(environment_id=other.public_id)
    entry = await control.directory.find(digest_credential(told["key"]))
    assert entry is not None and entry.environment_id == other.public_id


@pytest.mark.both_databases
async def test_ten_concurrent_requests_with_one_name_create_one(control: Control) -> None:
    made = await asyncio.gather(*(control.add_heartbeat() for _ in range(10)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in made) == ["Refused"] * 9 + ["dict"]
    assert [await control.count(table) for table in (Heartbeat, HeartbeatState, MonitorKey)] == [1, 1, 1]


async def test_a_secret_is_returned_once_and_stored_as_its_digest(control: Control) -> None:
    told = await control.add_heartbeat()
    async with control.sessions() as session:
        (key,) = (await session.execute(select(MonitorKey))).scalars()
    assert key.digest == digest_credential(told["key"])
    listed = [*await actions.list_heartbeats(control.sessions)]
    assert told["key"] not in str([listed, await actions.show_heartbeat(control.sessions, told["id"])])


@pytest.mark.both_databases
async def test_several_keys_work_until_each_is_revoked(control: Control) -> None:
    first = await control.add_heartbeat()
    number, opened = first["id"], f"heartbeat/{first['id']}"
    second = await actions.add_key(control.sessions, control.directory, "heartbeat", number, NOW)
    assert [await control.opens(told["key"]) for told in (first, second)] == [opened, opened]
    revoke = (control.sessions, control.directory, "heartbeat", number, first["key_id"])
    assert await actions.revoke_monitor_key(*revoke, NOW) == {"id": first["key_id"], "revoked": True}
    assert [await control.opens(told["key"]) for told in (first, second)] == [None, opened]
    # Again, later: it was revoked when it was revoked.
    await actions.revoke_monitor_key(*revoke, NOW + MINUTE)
    async with control.sessions() as session:
        assert (await session.get_one(MonitorKey, first["key_id"])).revoked_at == NOW
    shown = await actions.show_heartbeat(control.sessions, number)
    assert [key["state"] for key in shown["keys"]] == ["revoked", "live"]


async def test_a_key_is_revoked_by_its_own_monitor_only(control: Control) -> None:
    """A heartbeat and a queue may have the same number."""
    heartbeat, queue = await control.add_heartbeat(), await control.add_queue()
    for kind, told in (("heartbeat", queue), ("queue", heartbeat)):
        with pytest.raises(Refused, match=f"{kind.title()} 1 has no key {told['key_id']}"):
            await actions.revoke_monitor_key(
                control.sessions, control.directory, kind, 1, told["key_id"], NOW
            )
    assert [await control.opens(told["key"]) for told in (heartbeat, queue)] == ["heartbeat/1", "queue/1"]


@pytest.mark.both_databases
async def test_every_live_key_is_published_at_a_start(control: Control) -> None:
    """Ingest keys and monitor keys; what has expired or was revoked is not among them."""
    heartbeat, queue = await control.add_heartbeat(), await control.add_queue()
    ingest = await create_key(control.sessions, control.directory, None, NOW)
    expiring = await actions.add_key(control.sessions, control.directory, "queue", queue["id"], NOW)
    gone = await actions.add_key(control.sessions, control.directory, "queue", queue["id"], NOW)
    await actions.revoke_monitor_key(
        control.sessions, control.directory, "queue", queue["id"], gone["key_id"], NOW
    )
    async with control.sessions() as session, session.begin():
        row = update(MonitorKey).where(MonitorKey.id == expiring["key_id"])
        await session.execute(row.values(expires_at=NOW + MINUTE))
    empty = InProcessKeyDirectory()
    assert await publish_keys(control.sessions, empty, NOW) == 4
    opened = {}
    for name, told in (("heartbeat", heartbeat), ("queue", queue), ("expiring", expiring), ("gone", gone)):
        opened[name] = await empty.find(digest_credential(told["key"]))
    assert opened["heartbeat"] is not None and opened["heartbeat"].monitor == f"heartbeat/{heartbeat['id']}"
    assert opened["queue"] is not None and opened["queue"].expires_ms is None
    assert opened["expiring"] is not None and opened["expiring"].expires_ms == to_epoch_ms(NOW + MINUTE)
    assert opened["gone"] is None
    of_ingest = await empty.find(digest_credential(ingest["ingest_key"]))
    assert of_ingest is not None and of_ingest.monitor is None
    async with control.sessions() as session:
        later = await live_monitor_keys(session, NOW + MINUTE)
    assert digest_credential(expiring["key"]) not in {entry.digest for entry in later}


async def test_an_unreachable_key_directory_is_a_warning(
    control: Control, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The monitor and its key are made all the same, and published later."""
    with or_skip(running_redis(tmp_path_factory.mktemp("away"))) as server:
        directory = await open_redis_key_directory(server.url, follow=False)
        server.stop()
        wanted = {"name": "backup", "period_seconds": 60}
        told = await actions.add_heartbeat(control.sessions, directory, wanted, NOW)
        assert "The edges could not be informed" in told["warning"]
        key = (control.sessions, directory, "heartbeat", told["id"])
        assert "The edges could not be informed" in (await actions.add_key(*key, NOW))["warning"]
        revoked = await actions.revoke_monitor_key(*key, told["key_id"], NOW)
        assert "The edges could not be informed" in revoked["warning"]
        await directory.close()
    await publish_keys(control.sessions, control.directory, NOW)
    async with control.sessions() as session:
        (entry,) = await live_monitor_keys(session, NOW)
    assert entry.monitor == f"heartbeat/{told['id']}"
    assert await control.opens(told["key"]) is None


async def test_a_pause_and_its_end(control: Control) -> None:
    """Each bumps the version, so that no scan overwrites it; the second of the same changes nothing."""
    number = (await control.add_heartbeat())["id"]
    async with control.sessions() as session, session.begin():
        await session.execute(
            update(HeartbeatState).values(
                state="down", due_ms=1, deadline_ms=2, failures_in_row=3, last_signal_ms=5, version=7
            )
        )
    for paused, state, version in ((True, "paused", 8), (True, "paused", 8), (False, "new", 9)):
        told = await actions.pause_heartbeat(control.sessions, number, paused, NOW + version * MINUTE)
        row = await control.state_of(number)
        assert told["state"] == row.state == state
        assert (row.version, row.since_ms) == (version, to_epoch_ms(NOW + version * MINUTE))
        assert (row.due_ms, row.deadline_ms, row.failures_in_row, row.last_signal_ms) == (None, None, 0, 5)
        async with control.sessions() as session:
            assert (await session.get_one(Heartbeat, number)).paused is paused


async def test_the_newest_twenty_runs_of_a_heartbeat(control: Control) -> None:
    number = (await control.add_heartbeat())["id"]
    other = (await control.add_heartbeat("other"))["id"]
    start = to_epoch_ms(NOW)

    def run(heartbeat: int, n: int, **ends: int) -> HeartbeatRun:
        begun = {} if n % 10 == 9 else {"started_ms": start + n}
        return HeartbeatRun(
            heartbeat_id=heartbeat, run_id=str(uuid.UUID(int=n)), first_ms=start + n, **begun, **ends
        )

    ends = [{}, {"succeeded_ms": start + 90_500}, {"failed_ms": start + 900}, {"timed_out_ms": start + 9000}]
    await control.add(*(run(number, n, **ends[n % 4]) for n in range(25)), run(other, 99))
    runs = (await actions.show_heartbeat(control.sessions, number))["runs"]
    assert [uuid.UUID(of["run_id"]).int for of in runs] == list(range(24, 4, -1))
    assert [of["outcome"] for of in runs[:4]] == ["open", "timed out", "failed", "succeeded"]
    assert [of["duration_seconds"] for of in runs[:4]] == [None, 8.977, 0.878, 90.479]
    assert runs[3]["ended_at"] == "2026-11-20T12:01:30.500Z"
    # 19 and 9 said how they ended and never that they began.
    assert (runs[5]["started_at"], runs[5]["duration_seconds"]) == (None, None)


@pytest.mark.both_databases
async def test_a_queues_newest_snapshot_and_its_workers(control: Control) -> None:
    number = (await control.add_queue())["id"]
    heard = {"busy": 0.0, "idle": 4.99, "lost": 5.0, "stopped": 60.0}
    workers = {
        name: QueueWorker(
            queue_id=number,
            worker_id=str(uuid.UUID(int=n)),
            sequence=n + 1,
            status="idle" if name == "lost" else name,
            job_id=str(uuid.UUID(int=77)) if name == "busy" else None,
            received_ms=to_epoch_ms(NOW - minutes * MINUTE),
        )
        for n, (name, minutes) in enumerate(heard.items())
    }
    snapshot = QueueState(
        queue_id=number,
        snapshot_id=str(uuid.uuid4()),
        observed_us=to_epoch_ms(NOW) * 1000 + 123_456,
        received_ms=to_epoch_ms(NOW),
        pending=7,
        failed=0,
        oldest_wait_seconds=30,
    )
    await control.add(snapshot, *workers.values())
    await control.add_queue("other")
    shown = await actions.show_queue(control.sessions, number, NOW)
    assert [worker["status"] for worker in shown["workers"]] == list(heard)
    assert shown["workers"][0]["job_id"] == str(uuid.UUID(int=77))
    counts = ("pending", "delayed", "reserved", "failed", "oldest_wait_seconds")
    assert [shown[name] for name in counts] == [7, None, None, 0, 30]
    assert shown["observed_at"] == "2026-11-20T12:00:00.123Z"
    listed = await actions.list_queues(control.sessions, NOW)
    assert [(queue["name"], len(queue["workers"])) for queue in listed] == [("mail", 4), ("other", 0)]


@pytest.mark.both_databases
async def test_a_backlog_of_the_consumers_makes_no_worker_lost(control: Control) -> None:
    """Silence counts as far as the slowest partition of reports is worked off."""
    number = (await control.add_queue())["id"]
    received_ms = to_epoch_ms(NOW - 60 * MINUTE)

    async def status(*applied: timedelta) -> str:
        async with control.sessions() as session, session.begin():
            for partition, behind in enumerate(applied):
                progress = MonitorProgress(
                    topic=topics.QUEUES, partition=partition, applied_through_ms=to_epoch_ms(NOW - behind)
                )
                await session.merge(progress)
        (worker,) = (await actions.show_queue(control.sessions, number, NOW))["workers"]
        told: str = worker["status"]
        return told

    await control.add(
        QueueWorker(queue_id=number, worker_id="w", sequence=1, status="busy", received_ms=received_ms),
        # Another topic's is no word about queues.
        MonitorProgress(topic=topics.HEARTBEATS, partition=0, applied_through_ms=received_ms),
    )
    assert await status() == "lost"
    assert await status(0 * MINUTE, 56 * MINUTE) == "busy"
    assert await status(0 * MINUTE, 55 * MINUTE) == "lost"
    assert await status(-60 * MINUTE, -60 * MINUTE) == "lost"


async def test_an_unknown_monitor_is_refused(control: Control) -> None:
    for kind in ("heartbeat", "queue"):
        told = f"There is no {kind} 9; `pharos {kind} list` shows all."
        with pytest.raises(Refused, match=told):
            await actions.add_key(control.sessions, control.directory, kind, 9, NOW)
    with pytest.raises(Refused, match="There is no heartbeat 9"):
        await actions.show_heartbeat(control.sessions, 9)
    with pytest.raises(Refused, match="There is no heartbeat 9"):
        await actions.pause_heartbeat(control.sessions, 9, True, NOW)
    with pytest.raises(Refused, match="There is no queue 9"):
        await actions.show_queue(control.sessions, 9, NOW)


@pytest.mark.both_databases
async def test_a_pause_while_a_consumer_writes(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal is applied between the pause's look and its change: nothing of it wakes the heartbeat up again."""
    number = (await control.add_heartbeat())["id"]

    async def find_and_be_overtaken(session: AsyncSession, *args: Any) -> Any:
        found = await find_heartbeats(session, *args)
        async with control.sessions() as other, other.begin():
            signal = {"state": "up", "due_ms": 5, "deadline_ms": 5, "failures_in_row": 1, "version": 1}
            await other.execute(update(HeartbeatState).values(**signal))
        return found

    monkeypatch.setattr(choose, "find_heartbeats", find_and_be_overtaken)
    told = await actions.pause_heartbeat(control.sessions, number, True, NOW)
    row = await control.state_of(number)
    assert told["state"] == row.state == "paused"
    assert (row.due_ms, row.deadline_ms, row.failures_in_row, row.version) == (None, None, 0, 2)


async def test_ids_beyond_the_column_are_refused(control: Control) -> None:
    engines = Engines(control.sessions, control.directory)
    for number in (0, -1, 2**31, 2**63, 10**30):
        wanted = {"id": number, "key_id": number, "kind": "queue", "paused": True}
        for name in ("heartbeats/show", "heartbeats/pause", "heartbeats/set", "heartbeats/remove", "queues/show",
                     "queues/remove", "monitor-keys/create", "monitor-keys/revoke", "keys/revoke"):  # fmt: skip
            with pytest.raises(Refused, match=f"{number} is no ID."):
                await ACTIONS[name](engines, wanted, NOW)
