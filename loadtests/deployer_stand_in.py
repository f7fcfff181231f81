"""Stands in for the deployer under load: gives the project a repository, and calls off what waits in the queue.

Nothing carries deployments out yet; without it each environment would take one deploy and refuse all others.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from control_api.operator_actions import ACTIONS
from control_api.refusals import Refused
from operator_cli.failure import CommandFailed
from operator_cli.operator_client import ask_operator
from pipeline_contracts.settings import Settings
from service_processes.operator_engines import operator_engines

# What every run of the load begins the names of its branches with: nobody else's deployment is called off.
_REFS = "load-"
_REPOSITORY = "https://git.example.org/load/app.git"
_LOOK_SECONDS = 1.0
_Act = Callable[[str, dict[str, Any]], Awaitable[Any]]


@contextmanager
def standing_in(data: Path, credentials: Mapping[str, Any]) -> Iterator[None]:
    """A repository is connected, and deployments of the load end about a second after they were asked for.

    Raises `CommandFailed` where the installation cannot be asked from here.
    """
    asyncio.run(_prepare(data, credentials))
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_end_until(stop, data, credentials)))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def _prepare(data: Path, credentials: Mapping[str, Any]) -> None:
    async with _operator(data, credentials) as act:
        connected = await act("repositories/list", {})
        if all(repository["project"]["id"] != credentials["project_id"] for repository in connected):
            wanted = {"url": _REPOSITORY, "project_id": credentials["project_id"]}
            await act("repositories/connect", wanted)


async def _end_until(stop: threading.Event, data: Path, credentials: Mapping[str, Any]) -> None:
    async with _operator(data, credentials) as act:
        while not stop.is_set():
            wanted = {"environment_id": credentials["environment_id"], "limit": 20}
            for deployment in await act("deployments/list", wanted):
                if deployment["status"] == "queued" and (deployment["ref"] or "").startswith(_REFS):
                    # Refused: somebody else was faster.
                    with contextlib.suppress(Refused, CommandFailed):
                        await act("deployments/cancel", {"id": deployment["id"]})
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def _operator(data: Path, credentials: Mapping[str, Any]) -> AsyncIterator[_Act]:
    """Asks as the operator's commands do, without a process for each."""
    if "database_url" not in credentials:

        async def ask(name: str, wanted: dict[str, Any]) -> Any:
            return json.loads(await ask_operator(data, "POST", f"/actions/{name}", body=json.dumps(wanted)))

        yield ask
        return
    settings = Settings(database_url=credentials["database_url"], redis_url=credentials["redis_url"])
    async with operator_engines(settings) as engines:
        yield lambda name, wanted: ACTIONS[name](engines, wanted, datetime.now(UTC))
