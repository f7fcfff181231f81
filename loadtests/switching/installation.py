"""Runs a real `pharos up` on an empty folder, and uses it through its API."""

import asyncio
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
from tests.support.engines import free_port
from tests.support.platform_process import PlatformProcess

STAGING = "staging.my-project.localhost"
PRODUCTION = "production.my-project.localhost"
_FINAL = ("succeeded", "failed", "rejected", "canceled")
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment that has ended."""

    id: int
    status: str
    finished_at: datetime


class Installation:
    """A running platform. It has a project with a repository, and the environments staging and
    production."""

    def __init__(
        self, process: PlatformProcess, http: aiohttp.ClientSession, port: int, repository: Repository
    ) -> None:
        self.process = process
        self.port = port
        """The port that receives requests for applications."""
        self.repository = repository
        self._http = http
        self.environments: dict[str, str] = {}
        """The IDs of the environments, by host name."""

    async def prepare(self) -> None:
        """Connect the repository, and create the environment staging next to production, which exists
        already."""
        credentials = self.process.credentials
        project = f"/api/v1/projects/{credentials['project_id']}"
        await self.call("POST", f"{project}/repository", {"url": str(self.repository.bare)})
        staging = await self.call("POST", f"{project}/environments", {"name": "Staging", "type": "staging"})
        path = f"/api/v1/environments/{staging['id']}"
        await self.call("PATCH", path, {"wake_on_request": True})
        self.environments = {STAGING: staging["id"], PRODUCTION: credentials["environment_id"]}

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request to the API. Return the response. Raises `SwitchingFailed` if the API refuses the
        request."""
        async with self._http.request(method, path, json=body) as answer:
            found = await answer.json(content_type=None)
            if answer.status >= 300:
                raise SwitchingFailed(f"{method} {path}: {answer.status} {found}")
            return found["data"]

    async def deploy(self, host: str) -> Deployment:
        """Deploy the newest version, and wait for the result."""
        return await self.finish("POST", f"/api/v1/environments/{self.environments[host]}/deploy")

    async def finish(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Deployment:
        """Request a deployment, and poll until its status is final."""
        deployment = await self.call(method, path, body)

        async def is_final() -> bool:
            nonlocal deployment
            deployment = await self.call("GET", f"/api/v1/deployments/{deployment['id']}")
            return deployment["status"] in _FINAL

        await wait_for(is_final, f"deployment {deployment['id']} to be final")
        finished_at = datetime.fromisoformat(deployment["finished_at"])
        return Deployment(deployment["id"], deployment["status"], finished_at)

    async def log_of(self, deployment: Deployment) -> str:
        """Return the last line of the deployment's log, which has the reason of a failure."""
        found = await self.call("GET", f"/api/v1/deployments/{deployment.id}/log")
        return str(found["lines"][-1]["text"])

    async def runtime(self, host: str) -> Any:
        """Return the processes of the environment, as its deployer reports them."""
        return await self.call("GET", f"/api/v1/environments/{self.environments[host]}/processes")

    async def scale(self, host: str, count: int) -> None:
        """Scale to `count` replicas, and wait until they run."""
        path = f"/api/v1/environments/{self.environments[host]}/scale"
        await self.call("PATCH", path, {"replicas": count})
        await self.wait_for_replicas(host, count)

    async def wait_for_replicas(self, host: str, count: int) -> None:
        """Wait until exactly this many processes run."""

        async def are_there() -> bool:
            found = await self.runtime(host)
            return bool(found["running"] == count == len(found["instances"]))

        await wait_for(are_there, f"{count} replicas of {host}")


async def wait_for(holds: Callable[[], Any], what: str) -> None:
    """Poll until the condition holds. Raises `SwitchingFailed` after a time limit."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _PATIENCE_SECONDS
    while not await holds():
        if loop.time() > ends_at:
            raise SwitchingFailed(f"Waited {_PATIENCE_SECONDS:.0f} s for {what}.")
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def installation(front: Front) -> AsyncIterator[Installation]:
    """Run everything on free ports and in a temporary folder, within the context. Stop it before the folder
    is removed."""
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
