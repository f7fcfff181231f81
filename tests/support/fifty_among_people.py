"""The project of the fifty operations among people: over HTTP, by an operator's actions, and with its worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from control_domain.database.engine import Sessions
from control_workers.configuration_runs import ConfigurationRunWorker, Step, running_configuration_worker
from operator_actions.actions.engines import Engines
from operator_actions.door import ACTIONS
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.cheap_engines import build_control_app
from tests.support.databases import copied_database
from tests.support.deploy_platform import RECEIPT_KEY
from tests.support.fifty_operations import AFTER, BINDINGS, DELETED, Fifty, opened, until_ended
from tests.support.operated import NOW
from tests.support.serve_control import VARIABLE_KEYS, serving_control

WISH = {"document": AFTER + DELETED, "bindings": BINDINGS}
"""What is planned and reviewed."""
_SECONDS = 120


@dataclass(slots=True)
class Shop:
    """The project over HTTP and by an operator's actions, and the worker that carries the application out."""

    fifty: Fifty
    sessions: Sessions
    engines: Engines
    http: aiohttp.ClientSession
    url: str = ""
    worker: ConfigurationRunWorker = field(init=False)
    people: dict[tuple[Step, str], Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """What they do, once, at this step of the operation on this resource."""
    resources: list[str] = field(default_factory=list)
    """Of the operations, by position. Read once: they do not change."""

    def __post_init__(self) -> None:
        self.worker = ConfigurationRunWorker(
            self.sessions, self.engines.directory, VARIABLE_KEYS, on_step=self._meet
        )

    async def _meet(self, step: Step, position: int) -> None:
        if self.people:
            if not self.resources:
                self.resources = [one["resource"] for one in (await self.application())["operations"]]
            if do := self.people.pop((step, self.resources[position]), None):
                await do()

    def working(self) -> AbstractAsyncContextManager[Any]:
        """The worker at work."""
        return running_configuration_worker(self.worker, is_alone=True)

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and document. No call may end in a fault here."""
        headers = {"Authorization": f"Bearer {self.fifty.api_token}"}
        address = f"{self.url}/api/v1/{path}"
        async with self.http.request(method, address, json=body, headers=headers) as answer:
            told = await answer.json(content_type=None)
        assert answer.status < 500, told
        return answer.status, told

    async def configure(self, method: str, path: str, body: Any = None) -> Any:
        """What a good answer wraps."""
        status, told = await self.call(method, f"{self.configuration}/{path}", body)
        assert status < 300, told
        return told["data"]

    async def act(self, action: str, **wanted: Any) -> Any:
        """What an operator does."""
        return await ACTIONS[action](self.engines, {"operator": "kim", **wanted}, NOW)

    async def shown(self, environment: str) -> Any:
        return await self.act("environments/show", id=environment)

    async def scale(self, environment: str, replicas: int) -> None:
        number = (await self.shown(environment))["number"]
        status, told = await self.call("PATCH", f"environments/{number}/scale", {"replicas": replicas})
        assert status == 202, told

    async def application(self, number: int | None = None) -> Any:
        return await self.configure("GET", f"applications/{number or self.fifty.application_id}")

    async def ended(self, number: int | None = None) -> Any:
        """The application at its end."""
        async with asyncio.timeout(_SECONDS):
            await until_ended(self.sessions)
        return await self.application(number)

    @property
    def configuration(self) -> str:
        return f"projects/{self.fifty.project_id}/configuration"

    async def ask(self, operation: Any, wish: str) -> tuple[int, Any]:
        """Cancel an operation of the application, or have it tried again, if that may be."""
        of = f"applications/{self.fifty.application_id}"
        return await self.call("POST", f"{self.configuration}/{of}/operations/{operation['id']}/{wish}")

    async def operate(self, operation: Any, wish: str) -> None:
        status, told = await self.ask(operation, wish)
        assert status == 200, told

    async def apply_anew(self) -> Any:
        """A new review of the same document, applied; the application at its end."""
        review = await self.configure("POST", "reviews", WISH)
        application = await self.configure("POST", f"reviews/{review['id']}/apply")
        return await self.ended(application["id"])

    async def check_as_wanted(self) -> None:
        assert (await self.configure("POST", "plan", WISH))["actions"] == []


@contextlib.asynccontextmanager
async def open_shop(fifty: Fifty, folder: Path) -> AsyncIterator[Shop]:
    """On a copy of the database; nobody carries anything out yet."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(copied_database(fifty.url, folder))
        sessions = await stack.enter_async_context(opened(url))
        engines = Engines(sessions, InProcessKeyDirectory(), variable_keys=VARIABLE_KEYS)
        made = Shop(fifty, sessions, engines, await stack.enter_async_context(aiohttp.ClientSession()))
        store: Any = None
        app = build_control_app(
            sessions, store, RECEIPT_KEY, VARIABLE_KEYS, wake_configuration_runs=made.worker.wake
        )
        made.url = await stack.enter_async_context(serving_control(app))
        yield made
