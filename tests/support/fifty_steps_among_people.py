"""The project of the fifty steps while people change it over HTTP, with its worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from control_api.app import build_control_app
from control_domain.database.engine import Sessions
from control_workers.configuration_runs import (
    Checkpoint,
    ConfigurationRunWorker,
    running_configuration_worker,
)
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory
from tests.support.databases import copied_database
from tests.support.deploy_platform import RECEIPT_KEY
from tests.support.fifty_steps import AFTER, BINDINGS, DELETED, Fifty, opened, until_ended
from tests.support.serve_control import VARIABLE_KEYS, serving_control

WISH = {"document": AFTER + DELETED, "bindings": BINDINGS}
"""The request body of plans and reviews."""
_SECONDS = 120


class RequestRefused(Exception):
    """The API refused a request, or there is no environment of that name."""


@dataclass(slots=True)
class Shop:
    """The project over HTTP, and the worker that executes its run."""

    fifty: Fifty
    sessions: Sessions
    directory: KeyDirectory
    http: aiohttp.ClientSession
    url: str = ""
    worker: ConfigurationRunWorker = field(init=False)
    people: dict[tuple[Checkpoint, str], Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """The changes that people make, once, at this checkpoint of the step of this resource."""
    resources: list[str] = field(default_factory=list)
    """Resources of the steps by position, read once."""

    def __post_init__(self) -> None:
        self.worker = ConfigurationRunWorker(
            self.sessions, self.directory, VARIABLE_KEYS, on_checkpoint=self._meet
        )

    async def _meet(self, checkpoint: Checkpoint, position: int) -> None:
        if self.people:
            if not self.resources:
                self.resources = [one["resource"] for one in (await self.read_run())["operations"]]
            if do := self.people.pop((checkpoint, self.resources[position]), None):
                await do()

    def working(self) -> AbstractAsyncContextManager[Any]:
        """Run the worker."""
        return running_configuration_worker(self.worker, is_alone=True)

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and JSON of the response. Server errors fail the test."""
        headers = {"Authorization": f"Bearer {self.fifty.api_token}"}
        address = f"{self.url}/api/v1/{path}"
        async with self.http.request(method, address, json=body, headers=headers) as answer:
            result = await answer.json(content_type=None)
        assert answer.status < 500, result
        return answer.status, result

    async def configure(self, method: str, path: str, body: Any = None) -> Any:
        """Return the data of a successful response."""
        status, result = await self.call(method, f"{self.configuration}/{path}", body)
        assert status < 300, result
        return result["data"]

    async def shown(self, environment: str) -> Any:
        """Return the environment of this slug. Raises `RequestRefused` if there is none."""
        status, result = await self.call("GET", f"projects/{self.fifty.project_id}/environments?limit=100")
        assert status == 200, result
        for found in result["data"]:
            if found["slug"] == environment:
                return found
        raise RequestRefused(f"There is no environment {environment}.")

    async def change(self, method: str, environment: str, path: str = "", body: Any = None) -> None:
        """Change the environment of this slug. Raises `RequestRefused`."""
        address = f"environments/{(await self.shown(environment))['id']}{path}"
        await self.request(method, address, body)

    async def request(self, method: str, path: str, body: Any = None) -> None:
        """Make a request. Raises `RequestRefused`."""
        status, result = await self.call(method, path, body)
        if status >= 400:
            raise RequestRefused(result)

    async def scale(self, environment: str, replicas: int) -> None:
        await self.change("PATCH", environment, "/scale", {"replicas": replicas})

    async def read_run(self, number: int | None = None) -> Any:
        return await self.configure("GET", f"applications/{number or self.fifty.run_id}")

    async def ended(self, number: int | None = None) -> Any:
        """Wait until the run is finished and return it."""
        async with asyncio.timeout(_SECONDS):
            await until_ended(self.sessions)
        return await self.read_run(number)

    @property
    def configuration(self) -> str:
        return f"projects/{self.fifty.project_id}/configuration"

    async def ask(self, step: Any, transition: str) -> tuple[int, Any]:
        """Request to cancel or retry a step of the run."""
        of = f"applications/{self.fifty.run_id}"
        return await self.call("POST", f"{self.configuration}/{of}/operations/{step['id']}/{transition}")

    async def move_step(self, step: Any, transition: str) -> None:
        status, result = await self.ask(step, transition)
        assert status == 200, result

    async def apply_anew(self) -> Any:
        """Review and apply the same document again; return the finished run."""
        review = await self.configure("POST", "reviews", WISH)
        run = await self.configure("POST", f"reviews/{review['id']}/apply")
        return await self.ended(run["id"])

    async def check_as_wanted(self) -> None:
        assert (await self.configure("POST", "plan", WISH))["actions"] == []


@contextlib.asynccontextmanager
async def open_shop(fifty: Fifty, folder: Path) -> AsyncIterator[Shop]:
    """Open the project on a copy of the database, without a running worker."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(copied_database(fifty.url, folder))
        sessions = await stack.enter_async_context(opened(url))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        made = Shop(fifty, sessions, InProcessKeyDirectory(), http)
        store: Any = None
        app = build_control_app(
            sessions,
            store,
            RECEIPT_KEY,
            VARIABLE_KEYS,
            directory=made.directory,
            wake_configuration_runs=made.worker.wake,
        )
        made.url = await stack.enter_async_context(serving_control(app))
        yield made
