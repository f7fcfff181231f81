"""Requests do not depend on the shared threads of the event loop: these may all be busy."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator

import pytest

from deployer.listeners.owners import ExpectedInstance, ListenerOwners, Verdict
from deployer.traffic.proxy.watch import MemoryTrim, Watch

_MORE_THAN_THERE_ARE = 64


@pytest.fixture
async def busy_threads() -> AsyncIterator[None]:
    """All threads of the loop are busy until the test ends."""
    released = threading.Event()
    holding = [
        asyncio.ensure_future(asyncio.to_thread(released.wait, 300)) for _ in range(_MORE_THAN_THERE_ARE)
    ]
    await asyncio.sleep(0)
    yield
    released.set()
    await asyncio.gather(*holding)


@pytest.mark.usefixtures("busy_threads")
async def test_listeners_are_examined_while_all_threads_are_busy() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    owners = ListenerOwners.of_this_machine()
    owners.expect(port, ExpectedInstance(os.geteuid(), "test:none", os.getpid))
    try:
        async with asyncio.timeout(60):
            assert await owners.examine(port) is Verdict.OWN
    finally:
        owners.close()
        server.close()
        await server.wait_closed()


@pytest.mark.usefixtures("busy_threads")
async def test_the_proxy_sweeps_and_trims_while_all_threads_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryTrim, "is_due", lambda *_: True)
    watch, trimmed = Watch(0.01), []
    loop, twice = asyncio.get_running_loop(), asyncio.Event()

    def trim(pad: int) -> None:
        trimmed.append(pad)
        if len(trimmed) == 2:
            loop.call_soon_threadsafe(twice.set)

    monkeypatch.setattr(watch, "_trim", trim)
    running = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(60):
            await twice.wait()
    finally:
        running.cancel()


async def test_the_proxy_continues_to_sweep_if_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(MemoryTrim, "is_due", lambda *_: True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    watch, sweeps, twice = Watch(0.01), [], asyncio.Event()
    monkeypatch.setattr(watch, "_trim", lambda pad: None)

    def sweep() -> None:
        sweeps.append(None)
        if len(sweeps) == 2:
            twice.set()

    monkeypatch.setattr(watch, "sweep", sweep)
    running = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({running, asyncio.create_task(twice.wait())}, return_when="FIRST_COMPLETED")
        assert not running.done()
    finally:
        running.cancel()
