"""The deployer retries writes of its memory until they are on the disk, concurrently with other work."""

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deployer import database_memory
from deployer.database_memory import DatabaseMemory, Remembered
from deployer.drivers.local.folders import read_traces
from deployer.write_atomically import write_atomically


async def test_a_failed_write_is_repeated_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    memory = DatabaseMemory(tmp_path, partial(read_traces, tmp_path))
    monkeypatch.setattr(database_memory, "write_atomically", fail)
    for _ in range(3):
        memory.remember(Remembered("token", newest=1))
        await memory.close()
    assert DatabaseMemory(tmp_path, partial(read_traces, tmp_path)).known is None
    assert caplog.text.count("No space left on device") == 1
    monkeypatch.setattr(database_memory, "write_atomically", write_atomically)
    # The state has not changed, but the former write failed, so this call writes.
    memory.remember(Remembered("token", newest=1))
    await memory.close()
    assert DatabaseMemory(tmp_path, partial(read_traces, tmp_path)).known == Remembered("token", newest=1)


async def test_a_change_during_a_write_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, writing = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def write_late(*args: Any) -> None:
        loop.call_soon_threadsafe(writing.set)
        may_write.wait(30)
        write_atomically(*args)

    memory = DatabaseMemory(tmp_path, partial(read_traces, tmp_path))
    monkeypatch.setattr(database_memory, "write_atomically", write_late)
    memory.remember(Remembered("token", newest=1))
    await writing.wait()
    for newest in (2, 3):
        memory.remember(Remembered("token", newest=newest))
    may_write.set()
    await memory.close()
    assert DatabaseMemory(tmp_path, partial(read_traces, tmp_path)).known == Remembered("token", newest=3)
