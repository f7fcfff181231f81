"""The present states of monitors, on SQLite and on Postgres."""

import asyncio
import itertools
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import text

from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import apply_deadlines, apply_signal, update_state
from storage_backends.monitor_states import rows
from storage_backends.monitor_states.interface import (
    Change,
    Progress,
    SeenQueue,
    SeenWorker,
    Watched,
)
from tests.support.monitored import HOUR, MINUTE, T0, Monitored, open_states

# The consumers' adapters use different SQL for SQLite and Postgres.
pytestmark = pytest.mark.both_databases

TOPIC = "pharos.heartbeats"
_WAITING = """
SELECT count(*) AS waiting FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def taking(*signals: tuple[int, str, Any, int]) -> tuple[dict[int, set[str]], Change]:
    """Return the state to read for these signals (heartbeat, run, signal, time), and the change that applies them."""
    wanted: dict[int, set[str]] = {}
    for heartbeat, run_id, _, _ in signals:
        wanted.setdefault(heartbeat, set()).add(run_id)

    def change(watched: Mapping[int, Watched]) -> list[Watched]:
        for heartbeat, run_id, signal, at_ms in signals:
            if (found := watched.get(heartbeat)) is None:
                continue
            run = found.runs.setdefault(run_id, Run(run_id, at_ms))
            apply_signal(found.heartbeat, run, signal, at_ms)
            if run not in found.changed:
                found.changed.append(run)
            update_state(found.heartbeat, at_ms)
        return list(watched.values())

    return wanted, change


def passing(clock_ms: int) -> Change:
    def change(watched: Mapping[int, Watched]) -> list[Watched]:
        for one in watched.values():
            one.changed += apply_deadlines(one.heartbeat, list(one.runs.values()), clock_ms)
        return list(watched.values())

    return change


async def test_signals_become_a_run_and_a_state(monitored: Monitored) -> None:
    (heartbeat,) = await monitored.add_heartbeats(1)
    run = str(uuid.uuid4())
    await monitored.states.change(
        *taking((heartbeat, run, "start", T0), (heartbeat, run, "success", T0 + 5)), None
    )
    state = await monitored.state_of(heartbeat)
    assert (state["state"], state["due_ms"], state["deadline_ms"]) == ("up", T0 + 5 + HOUR, T0 + 5 + HOUR)
    assert (state["version"], state["open_runs"], state["last_success_ms"]) == (1, 0, T0 + 5)
    (row,) = await monitored.rows("SELECT * FROM heartbeat_runs")
    assert row == {
        "heartbeat_id": heartbeat,
        "run_id": run,
        "first_ms": T0,
        "started_ms": T0,
        "succeeded_ms": T0 + 5,
        "failed_ms": None,
        "timed_out_ms": None,
        "exit_status": None,
        "output": None,
    }


async def test_signals_in_any_order_give_the_same_state(monitored: Monitored) -> None:
    """The signals of two overlapping runs arrive in any order, each in its own transaction and then again. The result
    is always one state and two durations."""
    signals: list[tuple[str, Any, int]] = [
        ("a", "start", T0),
        ("b", "start", T0 + 10),
        ("a", "failure", T0 + 20),
        ("b", "success", T0 + 30),
    ]
    orders = list(itertools.permutations(signals))
    heartbeats = await monitored.add_heartbeats(len(orders))
    for step in range(len(signals)):
        for again in (0, 99):
            batch = [
                (heartbeat, run, signal, at_ms + again)
                for heartbeat, order in zip(heartbeats, orders, strict=True)
                for run, signal, at_ms in [order[step]]
            ]
            await monitored.states.change(*taking(*batch), None)
    sql = "SELECT DISTINCT state, failures_in_row, last_success_ms, last_end_ms, open_runs FROM heartbeat_states"
    assert [tuple(row.values()) for row in await monitored.rows(sql)] == [("up", 0, T0 + 30, T0 + 30, 0)]
    sql = "SELECT DISTINCT run_id, started_ms, succeeded_ms, failed_ms FROM heartbeat_runs ORDER BY run_id"
    assert [tuple(row.values()) for row in await monitored.rows(sql)] == [
        ("a", T0, None, T0 + 20),
        ("b", T0 + 10, T0 + 30, None),
    ]


async def test_ten_thousand_signals_at_once(monitored: Monitored) -> None:
    heartbeats = await monitored.add_heartbeats(10_000)
    batch = [(heartbeat, str(uuid.uuid4()), "success", T0) for heartbeat in heartbeats]
    await monitored.states.change(*taking(*batch), Progress(TOPIC, 0, T0))
    (row,) = await monitored.rows("SELECT count(*) AS up FROM heartbeat_states WHERE state = 'up'")
    assert row["up"] == 10_000
    await monitored.states.change(*taking(*batch), Progress(TOPIC, 0, T0))
    (row,) = await monitored.rows("SELECT count(*) AS runs FROM heartbeat_runs")
    assert row["runs"] == 10_000


async def test_failed_change_is_rolled_back(monitored: Monitored) -> None:
    (heartbeat,) = await monitored.add_heartbeats(1)

    def change(watched: Mapping[int, Watched]) -> list[Watched]:
        raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError):
        await monitored.states.change({heartbeat: ["a"]}, change, Progress(TOPIC, 0, T0))
    assert (await monitored.state_of(heartbeat))["version"] == 0
    assert await monitored.states.read_progress(TOPIC) == {}
    # The next change succeeds.
    await monitored.states.change(*taking((heartbeat, "a", "start", T0)), Progress(TOPIC, 0, T0))
    assert (await monitored.state_of(heartbeat))["state"] == "running"


async def test_signals_of_an_unknown_heartbeat_are_ignored(monitored: Monitored) -> None:
    await monitored.states.change(*taking((999, "a", "start", T0)), Progress(TOPIC, 0, T0))
    assert await monitored.rows("SELECT * FROM heartbeat_runs") == []
    assert await monitored.states.read_progress(TOPIC) == {0: T0}


async def test_due_heartbeats_are_read_by_deadline(monitored: Monitored) -> None:
    """Due heartbeats are returned in the order of their deadlines, in limited numbers, until none is left, with their
    open runs."""
    heartbeats = await monitored.add_heartbeats(5)
    batch: list[tuple[int, str, Any, int]] = [(h, "a", "success", T0 + n) for n, h in enumerate(heartbeats)]
    batch[0] = (heartbeats[0], "a", "start", T0)
    await monitored.states.change(*taking(*batch), None)
    assert await monitored.states.change_due(T0, 3, passing(T0)) == 0
    clock = T0 + HOUR + 2
    assert await monitored.states.change_due(clock, 3, passing(clock)) == 3
    assert await monitored.states.change_due(clock, 3, passing(clock)) == 0
    states = [(await monitored.state_of(heartbeat))["state"] for heartbeat in heartbeats]
    assert states == ["down", "late", "late", "up", "up"]
    (run,) = await monitored.rows("SELECT * FROM heartbeat_runs WHERE timed_out_ms IS NOT NULL")
    assert (run["heartbeat_id"], run["timed_out_ms"]) == (heartbeats[0], T0 + 30 * MINUTE)


async def test_concurrent_scans_change_each_heartbeat_once(monitored: Monitored, database_url: str) -> None:
    heartbeats = await monitored.add_heartbeats(200)
    await monitored.states.change(*taking(*[(h, "a", "success", T0) for h in heartbeats]), None)
    clock = T0 + HOUR
    other = await open_states(database_url)
    try:
        while sum(
            await asyncio.gather(
                *(states.change_due(clock, 50, passing(clock)) for states in (monitored.states, other) * 2)
            )
        ):
            pass
    finally:
        await other.close()
    sql = "SELECT DISTINCT state, version FROM heartbeat_states"
    assert [tuple(row.values()) for row in await monitored.rows(sql)] == [("late", 2)]


async def test_heartbeat_becomes_unknown_while_the_pipeline_is_late(monitored: Monitored) -> None:
    """A heartbeat becomes unknown once its deadline is between the pipeline's clock and the wall clock, unless it is
    down. The change happens once."""
    heartbeats = await monitored.add_heartbeats(3)
    signals: list[tuple[int, str, Any, int]] = [
        (heartbeats[0], "a", "success", T0),
        (heartbeats[1], "a", "success", T0 + 1000),
        (heartbeats[2], "a", "failure", T0),
    ]
    await monitored.states.change(*taking(*signals), None)
    assert await monitored.states.mark_unknown(T0 + HOUR - 1, T0 + HOUR, T0 + HOUR + 5) == 1
    assert await monitored.states.mark_unknown(T0 + HOUR - 1, T0 + HOUR, T0 + HOUR + 9) == 0
    states = [await monitored.state_of(heartbeat) for heartbeat in heartbeats]
    assert [state["state"] for state in states] == ["unknown", "up", "down"]
    assert states[0]["since_ms"] == T0 + HOUR + 5
    # A delayed signal ends the state, and so does the pipeline's clock once it has passed the deadline.
    await monitored.states.change(*taking((heartbeats[0], "b", "success", T0 + HOUR - 2)), None)
    assert (await monitored.state_of(heartbeats[0]))["state"] == "up"


async def test_progress_is_that_of_the_slowest_partition(monitored: Monitored) -> None:
    """The progress is that of the slowest partition, and no partition goes back."""
    states = monitored.states
    assert await states.read_progress(TOPIC) == {}
    for partition, through in ((0, T0 + 50), (1, T0 + 10), (1, T0 + 5), (0, T0 + 60)):
        await states.note_progress(Progress(TOPIC, partition, through))
    await states.note_progress(Progress("pharos.queues", 0, T0 - 99))
    await states.note_progress(Progress(TOPIC, 7, T0))
    assert await states.forget_progress(TOPIC, range(2)) == 1
    assert await states.read_progress(TOPIC) == {0: T0 + 60, 1: T0 + 10}


def _seen(monitored: Monitored, queue: int, number: int, observed: int, **changes: Any) -> SeenQueue:
    values: dict[str, Any] = {
        "queue_id": queue,
        "environment_id": monitored.environment_id,
        "snapshot_id": str(uuid.UUID(int=number)),
        "observed_us": observed,
        "received_ms": T0,
        "pending": number,
        "delayed": None,
        "reserved": 1,
        "failed": None,
        "oldest_wait_seconds": 7,
    }
    return SeenQueue(**{**values, **changes})


async def test_newest_snapshot_is_stored(monitored: Monitored) -> None:
    queue = await monitored.add_queue()
    for number, observed in ((1, 100), (3, 300), (2, 200), (3, 300), (4, 300)):
        await monitored.states.apply_queues(
            [_seen(monitored, queue, number, observed)], [], Progress("q", 0, T0)
        )
    (row,) = await monitored.rows("SELECT * FROM queue_states")
    # Of two snapshots with the same time, the greater ID is stored.
    assert (row["pending"], row["observed_us"], row["delayed"], row["reserved"]) == (4, 300, None, 1)


async def test_snapshots_of_one_batch_in_any_order(monitored: Monitored) -> None:
    queue = await monitored.add_queue()
    snapshots = [_seen(monitored, queue, n, observed) for n, observed in enumerate((5, 9, 1, 9, 3))]
    for order in itertools.permutations(snapshots):
        await monitored.states.apply_queues(order, [], Progress("q", 0, T0))
        (row,) = await monitored.rows("SELECT pending FROM queue_states")
        assert row["pending"] == 3


async def test_workers_by_sequence(monitored: Monitored) -> None:
    queue = await monitored.add_queue()
    worker, job = str(uuid.uuid4()), str(uuid.uuid4())
    for sequence, status, at in ((1, "idle", 10), (3, "busy", 30), (2, "idle", 40), (3, "stopped", 50)):
        update = SeenWorker(
            queue, monitored.environment_id, worker, sequence, status, job if status == "busy" else None, at
        )
        await monitored.states.apply_queues([], [update], Progress("q", 0, T0))
    (row,) = await monitored.rows("SELECT * FROM queue_workers")
    assert (row["sequence"], row["status"], row["job_id"], row["received_ms"]) == (3, "busy", job, 30)


async def test_snapshots_of_unknown_queues_are_ignored(monitored: Monitored) -> None:
    """Queues of another environment than the key's are treated as missing."""
    queue = await monitored.add_queue()
    worker = SeenWorker(queue, "env_other", str(uuid.uuid4()), 1, "idle", None, T0)
    snapshots = [_seen(monitored, 999, 1, 1), _seen(monitored, queue, 1, 1, environment_id="env_other")]
    await monitored.states.apply_queues(snapshots, [worker], Progress("q", 0, T0))
    assert await monitored.rows("SELECT * FROM queue_states") == []
    assert await monitored.rows("SELECT * FROM queue_workers") == []
    assert await monitored.states.read_progress("q") == {0: T0}


async def test_old_runs_are_pruned_except_open_ones(monitored: Monitored) -> None:
    (heartbeat,) = await monitored.add_heartbeats(1)
    signals: list[tuple[int, str, Any, int]] = [(heartbeat, f"r{n}", "success", T0 + n) for n in range(10)]
    await monitored.states.change(*taking(*signals, (heartbeat, "open", "start", T0)), None)
    assert await monitored.states.prune_runs(T0 + 5, 3) == 3
    assert await monitored.states.prune_runs(T0 + 5, 100) == 2
    rows = await monitored.rows("SELECT run_id FROM heartbeat_runs ORDER BY run_id")
    assert [row["run_id"] for row in rows] == ["open", "r5", "r6", "r7", "r8", "r9"]


async def test_pruned_failures_stay_counted(monitored: Monitored) -> None:
    """The row keeps the count of pruned failures. The newest success, from which failures are counted, is not
    pruned."""
    states = monitored.states
    (heartbeat,) = await monitored.add_heartbeats(1, failures_before_down=3)
    before: list[tuple[int, str, Any, int]] = [
        (heartbeat, "old", "failure", T0),
        (heartbeat, "s", "success", T0 + 1),
    ]
    failed: list[tuple[int, str, Any, int]] = [(heartbeat, f"f{n}", "failure", T0 + 2 + n) for n in range(3)]
    await states.change(*taking(*before, *failed), None)
    assert await states.prune_runs(T0 + HOUR, 2) == 2
    assert await states.prune_runs(T0 + HOUR, 100) == 2
    assert [row["run_id"] for row in await monitored.rows("SELECT run_id FROM heartbeat_runs")] == ["s"]
    # The counts are computed again after a success is withdrawn.
    await states.change(*taking((heartbeat, "g", "success", T0 + 20)), None)
    assert (await monitored.state_of(heartbeat))["state"] == "up"
    await states.change(*taking((heartbeat, "g", "failure", T0 + 21)), None)
    state = await monitored.state_of(heartbeat)
    assert (state["state"], state["failures_in_row"], state["last_success_ms"]) == ("down", 4, T0 + 1)


async def test_scans_that_prune_at_once_keep_each_failure_once(monitored: Monitored) -> None:
    (heartbeat,) = await monitored.add_heartbeats(1, failures_before_down=9)
    await monitored.states.change(*taking((heartbeat, "f", "failure", T0)), None)
    async with monitored.engine.connect() as other, asyncio.TaskGroup() as scans:
        if is_postgres := other.dialect.name == "postgresql":
            # Both scans have found the run before one of them may continue.
            await other.execute(text("SELECT FROM heartbeat_states FOR UPDATE"))
        pruning = [scans.create_task(monitored.states.prune_runs(T0 + HOUR, 9)) for _ in range(2)]
        while is_postgres and (await monitored.rows(_WAITING))[0]["waiting"] < len(pruning):
            assert not any(scan.done() for scan in pruning)
        await other.rollback()
    assert sum(scan.result() for scan in pruning) == 1
    assert (await monitored.state_of(heartbeat))["missed_ms"] == f"[{T0}]"


async def test_a_queue_has_a_limited_number_of_workers(
    monitored: Monitored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller with the queue's key can report any number of new workers. The workers that reported last are kept."""
    monkeypatch.setattr(rows, "MAX_WORKERS", 3)
    queue = await monitored.add_queue()

    async def report(*workers: tuple[str, int, int]) -> list[str]:
        updates = [
            SeenWorker(queue, monitored.environment_id, w, s, "idle", None, at) for w, s, at in workers
        ]
        await monitored.states.apply_queues([], updates, Progress("q", 0, T0))
        found = await monitored.rows("SELECT worker_id FROM queue_workers ORDER BY worker_id")
        return [row["worker_id"] for row in found]

    assert await report(("w1", 1, 10), ("w2", 1, 20), ("w3", 1, 30)) == ["w1", "w2", "w3"]
    assert await report(("w1", 2, 40), ("w4", 1, 40)) == ["w1", "w3", "w4"]
    assert await report(*((f"x{n}", 1, 50) for n in range(10))) == ["x7", "x8", "x9"]
    assert await report(("w1", 3, 60)) == ["w1", "x8", "x9"]
