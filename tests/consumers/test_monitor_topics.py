"""Signals and reports are applied to the database, and history goes to the column store."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.assemble import assemble_loop
from consumers.chunk import Chunk
from consumers.loop import ConsumerLoop
from consumers.scan_heartbeats import HeartbeatScan
from consumers.transforms.heartbeats_topic import HeartbeatsTopic
from consumers.transforms.queues_topic import QueuesTopic
from control_domain.database.engine import open_sessions
from control_domain.monitors.remove_monitors import remove_heartbeats
from control_domain.tables.monitors import Heartbeat
from pipeline_contracts import topics
from pipeline_contracts.blind_times import INTAKE_CLOCK
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.monitors import INTAKE_KEY, MonitorMeta, make_intake_record
from pipeline_contracts.records import Position
from pipeline_contracts.settings import Settings
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import ColumnStore, Lines
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from storage_backends.monitor_states.interface import NamedHeartbeat, Progress
from tests.support.monitored import HOUR, T0, Monitored
from wiring.embedded.dead_letters import list_dead_letters


class UnavailableColumnStore:
    """Every call fails, as with an unavailable server."""

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        raise StorageUnavailable("away")

    async def query(self, sql: str, parameters: Any = None) -> Any:
        raise StorageUnavailable("away")

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        raise StorageUnavailable("away")

    async def close(self) -> None:
        return None


class Pipeline:
    """A log with helpers that append to it as the edge does."""

    def __init__(self, log: SqliteEventLog, path: Path, monitored: Monitored) -> None:
        self.log = log
        self.path = path
        self.monitored = monitored

    async def append(self, kind: Any, monitor: int, body: Any, received_ms: int = T0) -> None:
        meta = MonitorMeta(kind, monitor, self.monitored.environment_id, received_ms)
        topic = topics.HEARTBEATS if kind in ("heartbeat", "ping", "named ping") else topics.QUEUES
        value = body if isinstance(body, bytes) else msgspec.json.encode(body)
        await self.log.append(topic, b"key", msgspec.msgpack.encode(meta), value)

    async def signal(self, heartbeat: int, run: uuid.UUID, signal: str, received_ms: int = T0) -> None:
        await self.append("heartbeat", heartbeat, {"run_id": str(run), "signal": signal}, received_ms)

    def loop(self, transform: Any, store: ColumnStore) -> ConsumerLoop:
        return assemble_loop(
            Settings(chunk_seconds=0.01),
            transform,
            consumer=SqliteLogConsumer(self.log, "group", transform.topic),
            log=self.log,
            store=store,
        )

    async def consume_all(self, transform: Any, store: ColumnStore) -> ConsumerLoop:
        """Process all records."""
        loop = self.loop(transform, store)
        loop.draining = True
        await asyncio.wait_for(loop.run(), 60)
        return loop


@pytest.fixture
async def pipeline(tmp_path: Path, monitored: Monitored) -> AsyncIterator[Pipeline]:
    path = tmp_path / "log.sqlite"
    log = await open_sqlite_log(path, 2**24)
    yield Pipeline(log, path, monitored)
    await log.close()


async def test_signals_are_applied_while_the_column_store_is_unavailable(pipeline: Pipeline) -> None:
    """Heartbeats need no column store; a signal that is read twice counts once."""
    first, second = await pipeline.monitored.add_heartbeats(2)
    first_run, second_run = uuid.uuid4(), uuid.uuid4()
    await pipeline.signal(first, first_run, "start", T0)
    await pipeline.signal(first, second_run, "start", T0 + 5)
    await pipeline.signal(second, first_run, "failure", T0 + 6)
    await pipeline.signal(first, first_run, "success", T0 + 10)
    await pipeline.signal(first, first_run, "success", T0 + 20)
    await pipeline.consume_all(HeartbeatsTopic(pipeline.monitored.states), UnavailableColumnStore())
    states = [await pipeline.monitored.state_of(heartbeat) for heartbeat in (first, second)]
    assert [state["state"] for state in states] == ["running", "down"]
    assert (states[0]["open_runs"], states[0]["oldest_start_ms"]) == (1, T0 + 5)


async def test_a_repeated_chunk_changes_nothing(pipeline: Pipeline) -> None:
    """A chunk is repeated after a crash before the commit."""
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    run = uuid.uuid4()
    await pipeline.signal(heartbeat, run, "start", T0)
    await pipeline.signal(heartbeat, run, "failure", T0 + 10)
    topic = HeartbeatsTopic(pipeline.monitored.states)
    consumer = SqliteLogConsumer(pipeline.log, "group", topics.HEARTBEATS)
    records = await consumer.read(0, 0, None, 10**6, 1)
    chunk = Chunk("log", 0, 2, records)
    await topic.update_state(chunk, 0)
    before = await pipeline.monitored.state_of(heartbeat)
    await topic.update_state(chunk, 0)
    assert await pipeline.monitored.state_of(heartbeat) == before
    assert (before["failures_in_row"], before["version"]) == (1, 1)


async def test_pings_are_paired_into_runs(pipeline: Pipeline) -> None:
    """Pings with and without run IDs are paired, once for any number of reads of a chunk, with the job's exit status
    and output."""
    alone, paired, named = await pipeline.monitored.add_heartbeats(3, failures_before_down=2)
    rid = str(uuid.uuid4())
    for at, (heartbeat, ping) in enumerate(
        [
            (alone, {"signal": "failure", "exit_status": 2, "output": "no space"}),
            (alone, {"signal": "failure", "exit_status": 2, "output": "no space"}),
            (paired, {"signal": "start"}),
            (paired, {"signal": "start"}),
            (named, {"signal": "start", "run_id": rid, "output": "begun"}),
            (paired, {"signal": "success", "output": "done"}),
            (paired, {"signal": "success", "output": "done"}),
            (named, {"signal": "failure", "run_id": rid, "exit_status": 1}),
        ]
    ):
        ping_id = str(uuid.UUID(int=at + 1))
        await pipeline.append("ping", heartbeat, {"ping_id": ping_id, **ping}, T0 + 1000 * at)
    consumer = SqliteLogConsumer(pipeline.log, "group", topics.HEARTBEATS)
    records = await consumer.read(0, 0, None, 10**6, 1)
    topic = HeartbeatsTopic(pipeline.monitored.states)
    sql = "SELECT heartbeat_id, run_id, started_ms, succeeded_ms, failed_ms, exit_status, output FROM heartbeat_runs"
    expected = [
        (alone, str(uuid.UUID(int=1)), None, None, T0, 2, "no space"),
        (paired, str(uuid.UUID(int=3)), T0 + 2000, T0 + 5000, None, None, "done"),
        (named, rid, T0 + 4000, None, T0 + 7000, 1, "begun"),
    ]
    # Read the records as one chunk, as two, and all of them again.
    for begin, end in ((0, 5), (4, 8), (0, 8)):
        await topic.update_state(Chunk("log", begin, end, records[begin:end]), 0)
        if end == 8:
            rows = await pipeline.monitored.rows(f"{sql} ORDER BY heartbeat_id")
            assert [tuple(row.values()) for row in rows] == expected
    states = [await pipeline.monitored.state_of(heartbeat) for heartbeat in (alone, paired, named)]
    found = [(state["state"], state["failures_in_row"], state["open_runs"]) for state in states]
    assert found == [("up", 1, 0), ("up", 0, 0), ("up", 1, 0)]
    # A repeated ping shows that the job is alive.
    assert [state["last_signal_ms"] - T0 for state in states] == [1000, 6000, 7000]


async def test_a_late_signal_corrects_a_missed_deadline(pipeline: Pipeline) -> None:
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    states = pipeline.monitored.states
    deadline = T0 + HOUR + 5 * 60_000
    await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    await states.note_progress(_progress(deadline + 30_000))
    await HeartbeatScan(states, asyncio.Event(), lambda: deadline + 30_000).scan_once()
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "down"
    await pipeline.signal(heartbeat, uuid.uuid4(), "start", deadline - 1)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    state = await pipeline.monitored.state_of(heartbeat)
    assert (state["state"], state["failures_in_row"], state["missed_ms"]) == ("running", 0, None)


async def test_unreadable_records_become_dead_letters(pipeline: Pipeline) -> None:
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    await pipeline.append("heartbeat", heartbeat, b"{")
    await pipeline.log.append(topics.HEARTBEATS, b"key", b"\xff", b"{}")
    await pipeline.signal(heartbeat, uuid.uuid4(), "success")
    loop = await pipeline.consume_all(HeartbeatsTopic(pipeline.monitored.states), UnavailableColumnStore())
    assert loop.metrics.dead_letters == 2
    letters = list_dead_letters(pipeline.path, topics.HEARTBEATS)
    assert all("cannot be read" in letter.reason for letter in letters)
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "up"


async def test_queue_reports_update_the_current_state_and_the_history(
    pipeline: Pipeline, column_store: ChdbColumnStore
) -> None:
    """The newest report by `observed_at` is the current state; all reports join the history."""
    queue = await pipeline.monitored.add_queue()
    worker, job = str(uuid.uuid4()), str(uuid.uuid4())
    for number, second in ((1, 10), (3, 30), (2, 20)):
        snapshot = {
            "snapshot_id": str(uuid.UUID(int=number)),
            "observed_at": f"2026-11-20T12:00:{second}.123456Z",
            "pending": number,
            "failed": None,
            "oldest_wait_seconds": 4,
        }
        await pipeline.append("snapshot", queue, snapshot)
    for sequence, status in ((2, "busy"), (1, "idle"), (3, "stopped")):
        update = {"worker_id": worker, "sequence": sequence, "status": status}
        await pipeline.append("worker", queue, {**update, "job_id": job} if status == "busy" else update)
    await pipeline.append("snapshot", queue, b"[]")
    loop = await pipeline.consume_all(QueuesTopic(pipeline.monitored.states), column_store)
    assert loop.metrics.dead_letters == 1

    (state,) = await pipeline.monitored.rows("SELECT pending, observed_us FROM queue_states")
    assert tuple(state.values()) == (3, 1_795_176_030_123_456)
    (row,) = await pipeline.monitored.rows("SELECT sequence, status, job_id FROM queue_workers")
    assert tuple(row.values()) == (3, "stopped", None)

    where = "WHERE environment_id = {e:String} ORDER BY log_offset"
    bound = {"e": pipeline.monitored.environment_id}
    sql = f"SELECT pending, failed, oldest_wait_seconds, observed_at FROM pharos.queue_snapshots {where}"
    history = (await column_store.query(sql, bound)).rows
    assert [tuple(row[:3]) for row in history] == [(1, None, 4), (3, None, 4), (2, None, 4)]
    assert history[0][3].isoformat() == "2026-11-20T12:00:10.123456+00:00"
    sql = f"SELECT sequence, status, job_id FROM pharos.queue_worker_updates {where}"
    updates = (await column_store.query(sql, bound)).rows
    assert [(sequence, status) for sequence, status, _ in updates] == [
        (2, "busy"),
        (1, "idle"),
        (3, "stopped"),
    ]
    assert [None if found is None else str(found) for _, _, found in updates] == [job, None, None]


async def test_an_idle_partition_advances_the_clock(pipeline: Pipeline) -> None:
    """Deadlines are found although no signal arrives."""
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1, period_seconds=1, grace_seconds=1)
    import time

    await pipeline.signal(heartbeat, uuid.uuid4(), "success", time.time_ns() // 10**6 - 5000)
    loop = pipeline.loop(HeartbeatsTopic(pipeline.monitored.states), UnavailableColumnStore())
    stop = asyncio.Event()
    scan = HeartbeatScan(pipeline.monitored.states, stop)
    tasks = [asyncio.create_task(loop.run()), asyncio.create_task(scan.run())]
    try:
        async with asyncio.timeout(60):
            while (await pipeline.monitored.state_of(heartbeat))["state"] != "down":
                await asyncio.sleep(0.1)
    finally:
        stop.set()
        loop.stop.set()
        await asyncio.gather(*tasks)


class UnavailableLog(SqliteLogConsumer):
    """A log whose brokers became unavailable after they accepted records: reads are empty."""

    async def read(self, *arguments: Any) -> Any:
        await asyncio.sleep(0.01)
        return []

    async def end(self, partition: int) -> int:
        raise StorageUnavailable("away")


async def test_an_empty_read_of_an_unavailable_log_does_not_advance_the_clock(pipeline: Pipeline) -> None:
    """The log has unread records: an advancing clock would call the job late."""
    topic = HeartbeatsTopic(pipeline.monitored.states)
    loop = pipeline.loop(topic, UnavailableColumnStore())
    loop.consumer = UnavailableLog(pipeline.log, "group", topics.HEARTBEATS)
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(1.5)
    loop.stop.set()
    await running
    assert await pipeline.monitored.states.read_progress(topics.HEARTBEATS) == {}


async def test_a_backlog_raises_no_false_alarm(pipeline: Pipeline) -> None:
    """The job reports in time, but the pipeline is an hour late: the heartbeat is unknown meanwhile, and up after the
    backlog."""
    good, bad = await pipeline.monitored.add_heartbeats(2)
    states = pipeline.monitored.states
    for heartbeat in (good, bad):
        await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    await states.note_progress(_progress(T0 + 1000))
    wall = T0 + HOUR + 20 * 60_000
    scan = HeartbeatScan(states, asyncio.Event(), lambda: wall)
    # In the log, but not read yet.
    await pipeline.signal(good, uuid.uuid4(), "success", T0 + HOUR - 1000)
    await scan.scan_once()
    assert [(await pipeline.monitored.state_of(h))["state"] for h in (good, bad)] == ["unknown", "unknown"]
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    await states.note_progress(_progress(wall))
    await scan.scan_once()
    judged = [await pipeline.monitored.state_of(h) for h in (good, bad)]
    assert [state["state"] for state in judged] == ["up", "down"]
    assert judged[1]["since_ms"] == T0 + HOUR + 5 * 60_000
    metrics = {sample.labels.get("state"): sample.value for m in scan.collect() for sample in m.samples}
    assert (metrics["unknown"], metrics["down"]) == (2, 1)


async def test_a_restart_after_an_outage_of_pharos_raises_no_false_alarm(pipeline: Pipeline) -> None:
    """Pharos is down for an hour in which runs were due. Their signals were lost, so the heartbeats are unknown until
    the next one, or until the moved deadline; and a signal that was in the log before the outage counts."""
    silent, lost, logged = await pipeline.monitored.add_heartbeats(3)
    states = pipeline.monitored.states
    for heartbeat in (silent, lost, logged):
        await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    down_at = T0 + HOUR - 60_000
    await states.note_progress(_progress(down_at))
    await HeartbeatScan(states, asyncio.Event(), lambda: down_at).scan_once()
    await pipeline.signal(logged, uuid.uuid4(), "success", down_at - 1000)

    wall = up_at = down_at + HOUR
    scan = HeartbeatScan(states, asyncio.Event(), lambda: wall)
    await scan.keep_clock(wall)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    await states.note_progress(_progress(wall))
    await scan.scan_once()
    heartbeats = (silent, lost, logged)
    assert [(await pipeline.monitored.state_of(h))["state"] for h in heartbeats] == [
        "unknown",
        "unknown",
        "up",
    ]
    for wall in range(up_at, up_at + 4 * HOUR, 30_000):
        if wall == up_at + 60_000:
            await pipeline.signal(lost, uuid.uuid4(), "success", wall)
            await pipeline.signal(logged, uuid.uuid4(), "success", wall)
            await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
        await states.note_progress(_progress(wall))
        await scan.scan_once()
    rows = await pipeline.monitored.rows("SELECT kind, subject, at_ms FROM alert_events ORDER BY id")
    events = [(row["kind"], row["subject"]) for row in rows]
    assert events[0] == ("platform.blind", "blind")
    assert [kind for kind, subject in events if subject == str(silent)] == [
        "heartbeat.late",
        "heartbeat.down",
    ]
    assert all(row["at_ms"] >= up_at + 5 * 60_000 for row in rows[1:])
    assert sum(kind == "platform.blind" for kind, _ in events) == 1


async def test_an_outage_of_the_edges_raises_no_false_alarm(pipeline: Pipeline) -> None:
    """The consumers run, but no edge accepts signals for an hour: no deadline is evaluated meanwhile, and deadlines
    move."""
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    states = pipeline.monitored.states
    topic = HeartbeatsTopic(states)

    async def report(at_ms: int) -> None:
        meta, value = make_intake_record(at_ms)
        await pipeline.log.append(topics.HEARTBEATS, INTAKE_KEY, meta, value)
        loop = await pipeline.consume_all(topic, UnavailableColumnStore())
        assert loop.metrics.dead_letters == 0

    async def judge(at_ms: int) -> str:
        await states.note_progress(_progress(at_ms))
        await HeartbeatScan(states, asyncio.Event(), lambda: at_ms).scan_once()
        state: str = (await pipeline.monitored.state_of(heartbeat))["state"]
        return state

    down_at = T0 + HOUR - 10_000
    await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    for at_ms in range(T0, down_at, 30_000):
        await report(at_ms)
    # The scan runs all the time.
    judged = {await judge(at_ms) for at_ms in range(down_at, down_at + HOUR, 30_000)}
    assert judged == {"up", "unknown"}
    up_at = down_at + HOUR
    await report(up_at)
    assert await judge(up_at) == "unknown"
    (blind,) = await pipeline.monitored.rows("SELECT kind, facts FROM alert_events")
    assert (blind["kind"], msgspec.json.decode(blind["facts"])["to_ms"]) == ("platform.blind", up_at)


async def test_a_signal_that_is_applied_before_the_first_report_of_an_edge(pipeline: Pipeline) -> None:
    """No edge ran for an hour, and the report that ends this gap is in the partition of another consumer. The run that
    began since then must not raise an alert for the earlier one."""
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    states, down_at, run = pipeline.monitored.states, T0 + HOUR, uuid.uuid4()
    up_at = down_at + HOUR
    await states.keep_clock(INTAKE_CLOCK, down_at)
    await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    topic = HeartbeatsTopic(states)
    await pipeline.consume_all(topic, UnavailableColumnStore())
    await pipeline.signal(heartbeat, run, "start", up_at)
    await pipeline.consume_all(topic, UnavailableColumnStore())
    await states.keep_clock(INTAKE_CLOCK, up_at)
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "running"
    assert await pipeline.monitored.rows("SELECT kind FROM alert_events WHERE kind <> 'platform.blind'") == []
    # After two hours in which edges reported.
    later = up_at + 2 * HOUR
    await pipeline.monitored.execute(
        f"UPDATE monitor_progress SET applied_through_ms = {later - 1000} WHERE topic = 'intake'"
    )
    await pipeline.signal(heartbeat, run, "success", up_at + 1000)
    await pipeline.signal(heartbeat, uuid.uuid4(), "start", later)
    await pipeline.consume_all(topic, UnavailableColumnStore())
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "down"


async def test_the_slowest_partition_determines_the_clock(pipeline: Pipeline) -> None:
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    states = pipeline.monitored.states
    await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    wall = T0 + HOUR + 4000
    scan = HeartbeatScan(states, asyncio.Event(), lambda: wall)
    await states.note_progress(_progress(wall))
    await states.note_progress(_progress(T0, partition=1))
    await scan.scan_once()
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "up"
    await states.note_progress(_progress(wall, partition=1))
    await scan.scan_once()
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "late"


async def test_only_existing_partitions_determine_the_clock(pipeline: Pipeline) -> None:
    """A deleted partition must not stop the clock forever, and a new partition may contain unread signals."""
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    states = pipeline.monitored.states
    await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())
    wall = T0 + HOUR + 5000

    async def state(*partitions: int) -> str:
        async def list_partitions(_: str) -> tuple[int, ...]:
            return partitions

        await HeartbeatScan(states, asyncio.Event(), lambda: wall, list_partitions).scan_once()
        judged: str = (await pipeline.monitored.state_of(heartbeat))["state"]
        return judged

    await states.note_progress(_progress(wall))
    for topic in (topics.HEARTBEATS, topics.QUEUES):
        await states.note_progress(Progress(topic, 7, T0))
    assert await state(0, 1) == "up"
    assert await state(0) == "late"
    assert await states.read_progress(topics.HEARTBEATS) == {0: wall}
    # The same kind of clock decides that the workers of queues are lost.
    assert await states.read_progress(topics.QUEUES) == {}


async def test_progress_is_kept_while_the_partitions_cannot_be_listed(pipeline: Pipeline) -> None:
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    states = pipeline.monitored.states
    await pipeline.signal(heartbeat, uuid.uuid4(), "success", T0)
    await pipeline.consume_all(HeartbeatsTopic(states), UnavailableColumnStore())

    async def away(_: str) -> tuple[int, ...]:
        raise StorageUnavailable("away")

    await HeartbeatScan(states, asyncio.Event(), lambda: T0 + 2 * HOUR, away).scan_once()
    assert (await pipeline.monitored.state_of(heartbeat))["state"] == "unknown"


async def test_a_ping_by_name_creates_its_heartbeat_and_counts(pipeline: Pipeline) -> None:
    """This holds even if the chunk is read again, as after a crash between the creation and its ping, or before the
    commit."""
    (known,) = await pipeline.monitored.add_heartbeats(1)
    for at, (name, ping) in enumerate(
        [
            ("backup", {"signal": "start", "may_create": True}),
            ("renamed", {"signal": "failure"}),
            ("job 0", {"signal": "failure", "exit_status": 3}),
            ("backup", {"signal": "log", "output": "half"}),
            ("backup", {"signal": "success", "output": "done"}),
        ]
    ):
        body = {"ping_id": str(uuid.UUID(int=at + 1)), "name": name, **ping}
        await pipeline.append("named ping", 0, body, T0 + 1000 * at)
    topic = HeartbeatsTopic(pipeline.monitored.states)
    consumer = SqliteLogConsumer(pipeline.log, "group", topics.HEARTBEATS)
    chunk = Chunk("log", 0, 5, await consumer.read(0, 0, None, 10**6, 1))
    await pipeline.monitored.states.find_or_create(
        [NamedHeartbeat(pipeline.monitored.environment_id, "backup", T0, str(uuid.UUID(int=1)))]
    )
    for _ in range(2):
        await topic.update_state(chunk, 0)
        (made,) = await pipeline.monitored.rows("SELECT id FROM heartbeats WHERE name = 'backup'")
        runs = await pipeline.monitored.rows("SELECT * FROM heartbeat_runs ORDER BY first_ms")
        assert [
            (run["heartbeat_id"], run["started_ms"], run["succeeded_ms"], run["output"]) for run in runs
        ] == [
            (made["id"], T0, T0 + 4000, "done"),
            (known, None, None, None),
        ]
        assert (await pipeline.monitored.state_of(made["id"]))["state"] == "up"
        assert (await pipeline.monitored.state_of(known))["state"] == "down"
        # A ping that creates nothing does not bring back a heartbeat that was renamed.
        assert await pipeline.monitored.rows("SELECT id FROM heartbeats WHERE name = 'renamed'") == []
        (entry,) = await pipeline.monitored.rows("SELECT * FROM heartbeat_log_entries")
        assert (entry["heartbeat_id"], entry["run_id"], entry["text"]) == (made["id"], None, "half")
    # The ping does not move the clock of any edge.
    assert await pipeline.monitored.states.read_progress(INTAKE_CLOCK) == {}


@pytest.mark.both_databases
async def test_a_ping_that_is_applied_again_creates_no_second_heartbeat(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position cannot be committed, and meanwhile the created heartbeats get other names or are removed."""
    monitored = pipeline.monitored
    pings = [("backup", "log"), ("backup", "failure"), ("clean", "success"), ("backup", "success")]
    for at, (name, signal) in enumerate(pings):
        body = {"ping_id": str(uuid.UUID(int=at + 1)), "name": name, "signal": signal, "may_create": at < 3}
        await pipeline.append("named ping", 0, body, T0 + 1000 * at)
    loop = pipeline.loop(HeartbeatsTopic(monitored.states), UnavailableColumnStore())
    loop.draining = True
    commit, failures = loop.consumer.commit, 0
    states: list[dict[str, Any]] = []

    async def commit_late(partition: int, position: Position) -> None:
        nonlocal failures
        if position.plan_end is None and failures < 2:
            failures += 1
            if failures == 1:
                await monitored.execute("UPDATE heartbeats SET name = 'nightly' WHERE name = 'backup'")
                async with open_sessions(monitored.engine)() as session, session.begin():
                    await remove_heartbeats(session, Heartbeat.name == "clean", datetime.now(UTC))
            else:
                # Another heartbeat with the name gets nothing from the first one.
                await monitored.add_heartbeats(1)
                await monitored.execute("UPDATE heartbeats SET name = 'backup' WHERE name = 'job 0'")
            raise StorageUnavailable("the coordinator does not answer")
        await commit(partition, position)
        sql = "SELECT h.name, s.state, s.failures_in_row FROM heartbeats h JOIN heartbeat_states s"
        states[:] = await monitored.rows(f"{sql} ON s.heartbeat_id = h.id ORDER BY h.id")

    monkeypatch.setattr(loop.consumer, "commit", commit_late)
    monkeypatch.setattr("consumers.loop._FIRST_PAUSE", 0.01)
    await asyncio.wait_for(loop.run(), 60)
    assert failures == 2
    assert [tuple(row.values()) for row in states] == [("nightly", "up", 0), ("backup", "new", 0)]
    sql = "SELECT r.failed_ms, r.succeeded_ms FROM heartbeat_runs r ORDER BY first_ms"
    assert len(await monitored.rows(sql)) == 2
    assert len(await monitored.rows("SELECT * FROM heartbeat_log_entries")) == 1


async def test_a_logged_text_changes_no_state(pipeline: Pipeline) -> None:
    (heartbeat,) = await pipeline.monitored.add_heartbeats(1)
    before = await pipeline.monitored.state_of(heartbeat)
    run = str(uuid.uuid4())
    for at, rid in enumerate((None, run)):
        body = {"ping_id": str(uuid.UUID(int=at + 1)), "signal": "log", "run_id": rid, "output": f"line {at}"}
        await pipeline.append("ping", heartbeat, body, T0 + at)
    await pipeline.consume_all(HeartbeatsTopic(pipeline.monitored.states), UnavailableColumnStore())
    assert await pipeline.monitored.state_of(heartbeat) == before
    assert await pipeline.monitored.rows("SELECT * FROM heartbeat_runs") == []
    sql = "SELECT run_id, received_ms, text FROM heartbeat_log_entries ORDER BY received_ms"
    assert [tuple(row.values()) for row in await pipeline.monitored.rows(sql)] == [
        (None, T0, "line 0"),
        (run, T0 + 1, "line 1"),
    ]
    # The progress up to here counts for the scan.
    assert (await pipeline.monitored.states.read_progress(topics.HEARTBEATS))[0] >= T0 + 1


async def test_no_heartbeat_changes_before_the_first_signal_is_applied(pipeline: Pipeline) -> None:
    await pipeline.monitored.add_heartbeats(1)
    await HeartbeatScan(pipeline.monitored.states, asyncio.Event(), lambda: T0 + 9 * HOUR).scan_once()
    (state,) = await pipeline.monitored.rows("SELECT state FROM heartbeat_states")
    assert state["state"] == "new"


def _progress(through_ms: int, partition: int = 0) -> Progress:
    return Progress(topics.HEARTBEATS, partition, through_ms)


@pytest.mark.parametrize(
    "reported",
    [
        "0001-01-01T00:00:00Z",
        "1899-12-31T23:59:59.999999Z",
        "2099-01-01T00:00:00Z",
        "2300-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    ],
)
async def test_a_snapshot_with_an_implausible_time_gets_the_time_of_receipt(
    pipeline: Pipeline, column_store: ChdbColumnStore, reported: str
) -> None:
    """Such a snapshot would become a dead letter in ClickHouse, or stay the current one forever."""
    assert await _observed(pipeline, column_store, reported) == [T0 * 1000]


@pytest.mark.parametrize(
    "reported", ["1900-01-01T00:00:00.000001Z", "1970-01-01T00:00:00Z", "2001-01-01T00:00:00Z"]
)
async def test_an_old_snapshot_keeps_its_time(
    pipeline: Pipeline, column_store: ChdbColumnStore, reported: str
) -> None:
    moment = datetime.fromisoformat(reported)
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert await _observed(pipeline, column_store, reported) == [expected]


async def _observed(pipeline: Pipeline, store: ChdbColumnStore, reported: str) -> list[int]:
    """Return the time of the only snapshot in the history, in microseconds; the current state has the same."""
    queue = await pipeline.monitored.add_queue()
    snapshot = str(uuid.uuid4())
    body = {"snapshot_id": snapshot, "observed_at": reported, "pending": 1}
    await pipeline.append("snapshot", queue, body)
    await pipeline.consume_all(QueuesTopic(pipeline.monitored.states), store)
    (state,) = await pipeline.monitored.rows("SELECT observed_us FROM queue_states")
    sql = f"SELECT toUnixTimestamp64Micro(observed_at) FROM pharos.queue_snapshots WHERE snapshot_id = '{snapshot}'"
    stored = [row[0] for row in (await store.query(sql)).rows]
    assert stored == [state["observed_us"]]
    return stored
