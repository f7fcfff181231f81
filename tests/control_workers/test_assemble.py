"""The background workers of a control plane."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import AsyncMock

import pytest

from control_domain.database.engine import Sessions
from control_domain.notifications.signed_links import IncidentLinks
from control_workers.assemble import ControlWorkers
from pipeline_contracts.settings import Settings
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.serve_control import VARIABLE_KEYS

_IS_HERE = ContextVar("started by the test of this module", default=False)
_ALWAYS = {
    "daily rollups",
    "idempotency keys",
    "old sessions",
    "old workers",
    "retention",
    "created heartbeats",
    "full accounts",
    "configuration runs",
    "waiting pushes",
    "commit statuses",
    "alert scan",
    "forgotten incidents",
    "incidents",
    "notification deliveries",
    "notification history",
}


@pytest.mark.parametrize(("is_alone", "names"), [(True, _ALWAYS), (False, _ALWAYS | {"publish keys"})])
async def test_all_workers_run_and_end(sessions: Sessions, is_alone: bool, names: set[str]) -> None:
    settings = Settings(github_token="token", github_api_url="http://127.0.0.1:9")
    links = IncidentLinks(b"receipt key", None)
    workers = ControlWorkers(settings, sessions, InProcessKeyDirectory(), AsyncMock(), VARIABLE_KEYS, links)
    with _started_here() as started:
        async with workers.running(is_alone=is_alone):
            running = {task.get_name() for task in started if not task.done()}
            # asyncpg connects in tasks without a name.
            assert {name for name in running if not name.startswith("Task-")} == names
        if ending := {task for task in started if not task.done()}:
            # A connection may still be closing. A worker that is not stopped would never end.
            await asyncio.wait(ending, timeout=10)
        assert [task.get_name() for task in started if not task.done()] == []


@contextmanager
def _started_here() -> Iterator[list["asyncio.Task[Any]"]]:
    """Yield the list of the tasks that this block and its tasks start: tests share a loop, in which a cancelled one may
    still be closing its connections."""
    loop, started = asyncio.get_running_loop(), list["asyncio.Task[Any]"]()
    former = loop.get_task_factory()

    def start(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(coroutine, loop=loop, **options)
        if _IS_HERE.get():
            started.append(task)
        return task

    token = _IS_HERE.set(True)
    loop.set_task_factory(start)
    try:
        yield started
    finally:
        loop.set_task_factory(former)
        _IS_HERE.reset(token)
