"""Polls of an unchanged database are skipped, and a change makes the next poll due."""

import asyncio
import logging
from pathlib import Path

import pytest
from sqlalchemy import text

from control_domain.database import changes as module
from control_domain.database.changes import Changes
from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.run_periodically import run_periodically


async def test_a_poll_is_due_after_each_committed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'control.db'}")
    sessions = open_sessions(engine)
    try:
        async with sessions() as session, session.begin():
            await session.execute(text("CREATE TABLE rows (id INTEGER PRIMARY KEY)"))
        changes, others = Changes(sessions), Changes(sessions)
        assert [changes.is_due(), changes.is_due(), others.is_due()] == [True, False, True]
        async with sessions() as session:
            await session.execute(text("SELECT count(*) FROM rows"))
        assert not changes.is_due()
        async with sessions() as session, session.begin():
            await session.execute(text("INSERT INTO rows VALUES (1)"))
            # The write is not committed yet: a poll would not see it, and must follow the commit.
            assert not changes.is_due()
        assert [changes.is_due(), changes.is_due(), others.is_due()] == [True, False, True]
        changes.repeat()
        assert changes.is_due()
        monkeypatch.setattr(module, "_UNCHANGED_SECONDS", 0.0)
        assert changes.is_due()
    finally:
        await engine.dispose()


async def test_every_poll_of_postgres_is_due() -> None:
    engine = open_engine("postgresql://nobody@127.0.0.1:1/none")
    changes = Changes(open_sessions(engine))
    assert [changes.is_due(), changes.is_due()] == [True, True]
    await engine.dispose()


async def test_failed_iteration_is_repeated_and_idle_one_is_skipped(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'control.db'}")
    changes = Changes(open_sessions(engine))
    stop, wake = asyncio.Event(), asyncio.Event()
    began: list[int] = []

    async def iterate() -> None:
        began.append(len(began))
        if len(began) == 1:
            raise ValueError("a bad row")
        if len(began) == 3:
            stop.set()
            wake.set()

    async def run() -> None:
        await run_periodically(
            iterate,
            stop,
            every=0.001,
            logger=logging.getLogger(__name__),
            outage="away",
            fault="failed",
            wake=wake,
            changes=changes,
        )

    running = asyncio.create_task(run())
    while len(began) < 2:
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert len(began) == 2
    wake.set()
    await asyncio.wait_for(running, 10)
    assert len(began) == 3
    await engine.dispose()
