"""Queries in threads: a cancelled call leaves no thread behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.engine_threads import run_shielded


async def test_a_cancelled_call_returns_when_its_thread_has_ended_and_at_once_if_it_has_not_begun() -> None:
    pool, go_on, begun, ran = ThreadPoolExecutor(1), threading.Event(), threading.Event(), []

    def hold(name: str) -> str:
        begun.set()
        assert go_on.wait(60)
        ran.append(name)
        return name

    running = asyncio.create_task(run_shielded(pool, lambda: hold("running")))
    queued = asyncio.create_task(run_shielded(pool, lambda: hold("queued")))
    last = asyncio.create_task(run_shielded(pool, lambda: hold("last")))
    async with asyncio.timeout(60):
        await asyncio.to_thread(begun.wait, 60)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        # Cancel again, as the end of an event loop does.
        for _ in range(3):
            running.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        assert not running.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ran[0] == "running"
        assert await last == "last"
    pool.shutdown()
    assert ran == ["running", "last"]


async def test_a_fault_is_raised_and_none_is_logged_for_a_cancelled_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool, go_on = ThreadPoolExecutor(1), threading.Event()

    def fail() -> None:
        assert go_on.wait(60)
        raise OSError("no disk")

    cancelled = asyncio.create_task(run_shielded(pool, fail))
    await asyncio.sleep(0)
    cancelled.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    with pytest.raises(OSError, match="no disk"):
        await run_shielded(pool, fail)
    pool.shutdown()
    assert not caplog.records


async def test_queries_on_handles_of_their_own_end_after_a_minute(column_store: ChdbColumnStore) -> None:
    reports = await column_store.own_handles(readers=2)
    limit = "SELECT getSetting('max_execution_time')"
    found = await asyncio.gather(*(reports.query(limit) for _ in range(4)))
    assert [one.rows for one in found] == [[[60.0]]] * 4
    await column_store._others.pop().close()
