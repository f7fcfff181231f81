"""A local driver and its proxy in this process, for applications that are one Python file each."""

import random
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from control_domain.workflows.read_workflow import read_workflow
from deployer.drivers.interface import InstanceStatus, Run, Stream, Tenancy
from deployer.drivers.local.driver import LocalDriver
from deployer.identity import Identity
from deployer.listeners.owners import ListenerOwners
from deployer.processes.confinement import Limits
from deployer.processes.marks import end_marked
from deployer.traffic.proxy.streaming import StreamingProxy
from pipeline_contracts.deploy_states import DeploymentStep
from tests.deployer.processes.sandbox import PYTHON

_USERS_PER_DRIVER = 1000
_FIRST_USERS = range(2_000_000_000, 2_100_000_000, _USERS_PER_DRIVER)


class RecordedLog:
    """A `LogSink` that keeps its lines in memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.lines)

    async def write(self, stream: Stream, data: bytes) -> None:
        self.lines.append(data.decode())

    async def write_line(self, text: str) -> None:
        self.lines.append(f"» {text}\n")

    async def begin_step(self, step: DeploymentStep, commit: tuple[str, str] | None = None) -> None:
        """Record nothing."""


@dataclass
class DriverUnderTest:
    """The driver, its proxy, and the instance statuses that it has reported by environment."""

    driver: LocalDriver
    proxy: StreamingProxy
    port: int
    folder: Path
    first_uid: int
    session: aiohttp.ClientSession
    listeners: ListenerOwners
    instances: dict[int, list[InstanceStatus]]
    runs: dict[int, Run]

    def tenancy(self, environment_id: int) -> Tenancy:
        name = f"app{environment_id}"
        return Tenancy(environment_id, environment_id, f"env_{name}", (f"{name}.localhost",), name)

    def write_run(
        self,
        deployment_id: int,
        program: str,
        *,
        health: str = "",
        command: str = f"exec {PYTHON} app.py",
        variables: Mapping[str, str] | None = None,
    ) -> Run:
        """Write a built release whose `app.py` is this program; return the arguments to start it."""
        folder = self.folder / "artefacts" / str(deployment_id)
        folder.mkdir(parents=True)
        (folder / "app.py").write_text(program)
        for each in (folder.parent, folder, folder / "app.py"):
            each.chmod(0o755)
        text = f"version: 1\nprocesses:\n  web:\n    command: {command}\n"
        if health:
            text += f"    health: {{{health}}}\n"
        run = Run(deployment_id, str(deployment_id), read_workflow(text), variables or {})
        self.runs[deployment_id] = run
        return run

    def victim_variables(self, environment_id: int) -> dict[str, str]:
        """Variables for `takeover_apps.ATTACKER`, which does not affect other programs of the machine."""
        return {"VICTIM_UID": str(self.runner_uid(environment_id))}

    def runner_uid(self, environment_id: int) -> int:
        """Return the user of an environment's applications."""
        return self.first_uid + 2 * environment_id + 1

    async def start_and_switch(self, environment_id: int, run: Run, replicas: int = 1) -> None:
        """Start a release and switch the environment's requests to it."""
        tenancy = self.tenancy(environment_id)
        await self.driver.start(tenancy, run, replicas, RecordedLog())
        await self.driver.switch(tenancy, run)

    async def fetch(self, environment_id: int, path: str = "/", **headers: str) -> tuple[int, str]:
        """Send a GET request to an application; return status and body."""
        host = self.tenancy(environment_id).hosts[0]
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.get(url, headers={"Host": host, **headers}) as response:
            return response.status, await response.text()

    def first_status(self, environment_id: int) -> InstanceStatus:
        """Return the status of the environment's first instance."""
        return self.instances[environment_id][0]


@asynccontextmanager
async def driver_under_test(
    owners: ListenerOwners | None = None, hold_seconds: float = 30.0
) -> AsyncIterator[DriverUnderTest]:
    """Yield a driver; its applications are stopped at the end."""
    owners = owners or ListenerOwners.of_this_machine()
    # Not pytest's folder: without namespaces, the users of applications cannot enter that folder.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        first_uid = random.SystemRandom().choice(_FIRST_USERS)
        identity = Identity(f"dpl_{secrets.token_hex(8)}", "here", first_uid, folder)
        proxy = StreamingProxy(lambda number: None, hold_seconds, grace_seconds=0.2, listeners=owners)
        instances: dict[int, list[InstanceStatus]] = {}
        driver = LocalDriver(
            identity,
            proxy,
            lambda number, facts: instances.__setitem__(number, list(facts)),
            hidden=(),
            limits=Limits(memory_bytes=2**30),
            drain_seconds=1.0,
            listeners=owners,
        )
        sock = _bind()
        await proxy.serve(sock)
        connector = aiohttp.TCPConnector(force_close=True)
        try:
            async with aiohttp.ClientSession(connector=connector) as session:
                yield DriverUnderTest(
                    driver, proxy, sock.getsockname()[1], folder, first_uid, session, owners, instances, {}
                )
        finally:
            await driver.close(stops=True)
            await proxy.close()
            owners.close()
            left = await end_marked(f"{identity.id}/")
        assert left == 0, "processes were left behind"


def _bind() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock
