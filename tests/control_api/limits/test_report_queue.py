"""The queue of reports: few at a time, fair between accounts, and limited in number and time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from analytics_queries.telemetry import limited_sql
from control_api.limits.fair_queue import FairQueue, QueueFull, QueueLimits, QueueTimeout
from control_api.limits.report_queue import report_limits, run_queued_report
from pipeline_contracts.errors import StorageUnavailable, TooManyRequests, Unavailable
from storage_backends.column_store.chdb_embedded import _Handles
from storage_backends.column_store.interface import QueryResult

_LIMITS = QueueLimits(
    max_running=2, max_running_per_key=1, max_waiting=4, max_waiting_per_key=3, max_wait_seconds=60.0
)


class Entries:
    """Entries of a queue under names like `a1`: the letter is the key."""

    def __init__(self, limits: QueueLimits = _LIMITS) -> None:
        self.queue = FairQueue(limits)
        self.started: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def enter(self, *names: str) -> None:
        """Acquire slots one after the other."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._run(name))
            await self.settle()

    async def leave(self, *names: str) -> None:
        """Release the slots of these entries."""
        for name in names:
            self.queue.release(name[0])
            await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        await self.queue.acquire(name[0])
        self.started.append(name)

    def refused(self) -> list[str]:
        return [
            n for n, task in self.tasks.items() if task.done() and isinstance(task.exception(), QueueFull)
        ]

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def test_slots_rotate_between_keys() -> None:
    entries = Entries()
    await entries.enter("a1", "a2", "a3", "b1", "b2", "c1")
    # One of each key runs, two in total. The third key waits although it has no running entry.
    assert entries.started == ["a1", "b1"]
    await entries.leave("a1")
    assert entries.started[2:] == ["a2"]
    await entries.leave("b1", "a2")
    assert entries.started[3:] == ["b2", "c1"]
    await entries.leave("b2", "c1", "a3")
    assert (entries.started[5:], entries.queue.running, entries.queue.waiting) == (["a3"], 0, 0)


async def test_full_queue_evicts_the_longest_key_for_another_key() -> None:
    entries = Entries()
    await entries.enter("a1", "a2", "a3", "a4", "a5", "b1", "b2")
    # At most three entries of a key wait.
    assert entries.refused() == ["a5"]
    assert entries.queue.waiting == 4
    # The queue is full, so the newest entry of the key with the most entries is evicted.
    await entries.enter("c1")
    assert entries.refused() == ["a4", "a5"]
    await entries.enter("d1")
    assert entries.refused() == ["a3", "a4", "a5"]
    # Each key has one entry now, and may not add a second one.
    await entries.enter("b3", "e1")
    assert entries.refused() == ["a3", "a4", "a5", "b3", "e1"]
    await entries.end()
    assert entries.queue.waiting == 0


async def test_cancelled_waiter_leaks_no_slot() -> None:
    entries = Entries()
    await entries.enter("a1", "a2", "a3")
    entries.tasks["a2"].cancel()
    await entries.settle()
    assert entries.queue.waiting == 1
    # Cancelled at the same moment at which the entry gets a slot.
    entries.queue.release("a")
    entries.tasks["a3"].cancel()
    await entries.settle()
    assert (entries.started, entries.queue.running, entries.queue.waiting) == (["a1"], 0, 0)


async def test_wait_time_is_limited() -> None:
    queue = FairQueue(QueueLimits(1, 1, 4, 4, 0.01))
    await queue.acquire("a")
    with pytest.raises(QueueTimeout):
        await queue.acquire("b")
    assert (queue.running, queue.waiting) == (1, 0)


async def test_reserve_is_for_keys_without_running_tasks() -> None:
    queue = FairQueue(QueueLimits(2, 2, 4, 4, 0.01, reserve=1))
    for key in ("a", "a", "b"):
        await queue.acquire(key)
    for key in ("b", "c"):
        with pytest.raises(QueueTimeout):
            await queue.acquire(key)
    queue.release("a")
    await queue.acquire("c")
    assert queue.running == 3


class Caller:
    """A request that only reports its disconnect."""

    def __init__(self, queue: FairQueue) -> None:
        self.app = SimpleNamespace(state=SimpleNamespace(report_queue=queue))
        self.left = asyncio.Event()
        self._told = False

    async def receive(self) -> dict[str, Any]:
        if not self._told:
            self._told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}


def _ask(caller: Caller, account_id: int, make: Callable[[], Awaitable[str]]) -> "asyncio.Task[str]":
    request: Any = caller
    return asyncio.create_task(run_queued_report(request, account_id, make))


async def _ready() -> str:
    return "a report"


async def test_report_is_returned_and_its_errors_are_raised() -> None:
    queue = FairQueue(report_limits(2))

    async def fail() -> str:
        raise OSError("no disk")

    assert await _ask(Caller(queue), 1, _ready) == "a report"
    with pytest.raises(OSError, match="no disk"):
        await _ask(Caller(queue), 1, fail)
    assert (queue.running, queue.waiting) == (0, 0)


async def test_limited_queries_of_a_report_share_25_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(limited_sql, "monotonic", lambda: now[0])
    asked: list[str] = []

    async def query(sql: str, parameters: Any = None) -> QueryResult:
        asked.append(sql)
        now[0] += 10.0
        return QueryResult((), [])

    store: Any = SimpleNamespace(query=query)

    async def make() -> str:
        while True:
            await limited_sql.query_limited(store, limited_sql.LIMITS, {})

    queue = FairQueue(report_limits(2))
    with pytest.raises(StorageUnavailable):
        await _ask(Caller(queue), 1, make)
    assert (len(asked), queue.running) == (3, 0)


async def test_disconnect_cancels_a_waiting_or_running_report() -> None:
    queue = FairQueue(report_limits(2))
    ended = []

    async def last() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "never"

    running, waiting = Caller(queue), Caller(queue)
    first, second = _ask(running, 1, last), _ask(waiting, 1, _ready)
    while not queue.waiting:
        await asyncio.sleep(0)
    waiting.left.set()
    with pytest.raises(ClientDisconnect):
        await second
    assert (queue.running, queue.waiting, ended) == (1, 0, [])
    running.left.set()
    with pytest.raises(ClientDisconnect):
        await first
    while queue.running:
        await asyncio.sleep(0)
    assert (queue.running, queue.waiting, ended) == (0, 0, ["cancelled"])


class HeldEngine:
    """Handles of a store in which every query runs until `go_on`, like a long query in chDB."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun: list[str] = []
        session = SimpleNamespace(query=self._query, close=lambda: None)
        self.store = _Handles([session] * 3)

    def _query(self, sql: str, **_options: Any) -> Any:
        self.begun.append(sql)
        if sql != "short":
            assert self.go_on.wait(60)
        return SimpleNamespace(column_names=["sql"], result_rows=[[sql]], column_types=())

    async def report(self, *queries: str) -> str:
        for sql in queries:
            await self.store.query(sql)
        return "a report"


async def test_cancelled_report_keeps_its_slot_until_the_query_has_ended() -> None:
    queue, engine = FairQueue(report_limits(2)), HeldEngine()
    callers = [Caller(queue) for _ in range(4)]
    async with asyncio.timeout(60):
        reports = []
        for number, caller in enumerate(callers):
            reports.append(_ask(caller, 1, lambda n=number: engine.report(f"first of {n}", "never")))
            while not (queue.waiting or engine.begun):
                await asyncio.sleep(0)
            caller.left.set()
            with pytest.raises(ClientDisconnect):
                await reports[-1]
        # The query of the first report runs, and no other query of the account has started.
        assert (engine.begun, queue.running, queue.waiting) == (["first of 0"], 1, 0)
        assert await _ask(Caller(queue), 2, lambda: engine.report("short")) == "a report"
        engine.go_on.set()
        while queue.running:
            await asyncio.sleep(0.001)
        assert engine.begun == ["first of 0", "short"]
        assert await _ask(Caller(queue), 1, _ready) == "a report"
    await engine.store.close()


async def test_query_that_has_not_started_is_dropped_on_disconnect() -> None:
    queue, engine = FairQueue(report_limits(4)), HeldEngine()
    async with asyncio.timeout(60):
        first = [_ask(Caller(queue), n, lambda: engine.report("long")) for n in (1, 2)]
        while len(engine.begun) < 2:
            await asyncio.sleep(0)
        caller = Caller(queue)
        third = _ask(caller, 3, lambda: engine.report("late"))
        while queue.running < 3:
            await asyncio.sleep(0)
        caller.left.set()
        with pytest.raises(ClientDisconnect):
            await third
        while queue.running > 2:
            await asyncio.sleep(0)
        engine.go_on.set()
        assert await asyncio.gather(*first) == ["a report"] * 2
    await engine.store.close()
    assert engine.begun == ["long", "long"]


async def test_too_many_reports_are_429_and_a_long_wait_is_503() -> None:
    queue = FairQueue(QueueLimits(1, 1, 4, 1, 0.05))
    go_on = asyncio.Event()

    async def slow() -> str:
        await go_on.wait()
        return "late"

    first, second = _ask(Caller(queue), 1, slow), _ask(Caller(queue), 1, _ready)
    while not queue.waiting:
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests) as refused:
        await _ask(Caller(queue), 1, _ready)
    assert refused.value.headers == {"Retry-After": "5"}
    with pytest.raises(Unavailable) as waited:
        await second
    assert waited.value.headers == {"Retry-After": "5"}
    go_on.set()
    assert await first == "late"
