"""A real `pharos up` on a fresh folder, asked as people ask it: over its API, and as its operator."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from loadtests.switching.fronts import Front, SwitchingFailed
from loadtests.switching.repository import Repository
from operator_cli.failure import NotReached
from operator_cli.operator_client import ask_operator
from tests.support.engines import free_port
from tests.support.platform_process import PlatformProcess

STAGING = "staging.my-project.localhost"
PRODUCTION = "production.my-project.localhost"
_FINAL = ("succeeded", "failed", "rejected", "canceled")
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment that is finished."""

    id: int
    status: str
    finished_at: datetime


class Installation:
    """The platform with a project, its repository, and the environments staging and production."""

    def __init__(
        self, process: PlatformProcess, http: aiohttp.ClientSession, port: int, repository: Repository
    ) -> None:
        self.process = process
        self.port = port
        """Where the applications answer."""
        self.repository = repository
        self._http = http
        self.environments: dict[str, str] = {}
        """IDs by host."""

    async def prepare(self) -> None:
        """Connect the repository, and make staging beside the production that is there."""
        # The operator is served last of all.
        await wait_for(self._has_operator, "the operator's socket")
        await self.act("repositories/connect", {"url": str(self.repository.bare)})
        wanted = {"name": "Staging", "type": "staging"}
        staging = await self.act("environments/create", wanted)
        await self.act("environments/set", {"id": staging["id"], "wake_on_request": True})
        self.environments = {
            STAGING: staging["id"],
            PRODUCTION: self.process.credentials["environment_id"],
        }

    async def _has_operator(self) -> bool:
        try:
            await self.act("repositories/list", {})
        except NotReached:
            return False
        return True

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What the API answers. Raises `SwitchingFailed` where it says no."""
        async with self._http.request(method, path, json=body) as answer:
            told = await answer.json(content_type=None)
            if answer.status >= 300:
                raise SwitchingFailed(f"{method} {path}: {answer.status} {told}")
            return told["data"]

    async def act(self, name: str, wanted: Mapping[str, Any]) -> Any:
        """What the operator's commands do, without a process for each."""
        told = await ask_operator(self.process.data, "POST", f"/actions/{name}", body=json.dumps({**wanted}))
        return json.loads(told)

    async def deploy(self, host: str) -> Deployment:
        """Deploy the newest version to its end."""
        return await self.finish("POST", f"/api/v1/environments/{self.environments[host]}/deploy")

    async def finish(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Deployment:
        """Ask for a deployment, and poll until it is final."""
        deployment = await self.ask(method, path, body)

        async def is_final() -> bool:
            nonlocal deployment
            deployment = await self.ask("GET", f"/api/v1/deployments/{deployment['id']}")
            return deployment["status"] in _FINAL

        await wait_for(is_final, f"deployment {deployment['id']} to be final")
        finished_at = datetime.fromisoformat(deployment["finished_at"])
        return Deployment(deployment["id"], deployment["status"], finished_at)

    async def log_of(self, deployment: Deployment) -> str:
        """The last line of its log, which says why it failed."""
        told = await self.ask("GET", f"/api/v1/deployments/{deployment.id}/log")
        return str(told["lines"][-1]["text"])

    async def runtime(self, host: str) -> Any:
        """What runs of the environment, as its deployer tells it."""
        (told,) = await self.act("runtime/list", {"environment_id": self.environments[host]})
        return told

    async def scale(self, host: str, count: int) -> None:
        """Want so many replicas, and wait until they run."""
        path = f"/api/v1/environments/{self.environments[host]}/scale"
        await self.ask("PATCH", path, {"replicas": count})
        await self.wait_for_replicas(host, count)

    async def wait_for_replicas(self, host: str, count: int) -> None:
        """Until exactly so many processes run, and nothing else is there."""

        async def are_there() -> bool:
            told = await self.runtime(host)
            return bool(told["running"] == count == len(told["instances"]))

        await wait_for(are_there, f"{count} replicas of {host}")


async def wait_for(holds: Callable[[], Any], what: str) -> None:
    """Look until it holds. Raises `SwitchingFailed` when that takes too long."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _PATIENCE_SECONDS
    while not await holds():
        if loop.time() > ends_at:
            raise SwitchingFailed(f"Waited {_PATIENCE_SECONDS:.0f} s for {what}.")
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def installation(front: Front) -> AsyncIterator[Installation]:
    """Everything on free ports and in a folder that is gone at the end; what runs is stopped before."""
    with tempfile.TemporaryDirectory(prefix="pharos-switching-") as made:
        folder = Path(made)
        apps_port = front.apps_port or free_port()
        process = PlatformProcess(folder / "data", env=front.settings)
        try:
            await asyncio.to_thread(process.start, "--apps-port", str(apps_port))
            credentials = process.credentials
            headers = {"Authorization": f"Bearer {credentials['api_token']}"}
            root = credentials["base_url"].removesuffix("/api")
            async with aiohttp.ClientSession(root, headers=headers) as http:
                made_one = Installation(process, http, front.port or apps_port, Repository(folder))
                await made_one.prepare()
                yield made_one
        finally:
            await asyncio.to_thread(process.stop)
