"""A deployer in this process with a fault injected at a chosen point, and checks of the state afterwards.

Points are each database statement and commit, and the beginning and end of each call of the driver, the proxy and the
log, while a deployment runs or an environment is reconciled. Builds write their files without Git.
"""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, event, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from control_domain.database.errors import DatabaseUnavailable
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.workflows.document import WorkflowDocument
from control_domain.workflows.read_workflow import read_workflow
from deployer import run_deployer, sweeper
from deployer.assemble import running_local_deployer
from deployer.deployments import run_deployment as run_deployment
from deployer.deployments.log import DeploymentLog
from deployer.drivers.local.build import Builder
from deployer.drivers.local.driver import LocalDriver
from deployer.drivers.local.fleet import Fleet
from deployer.environments import environment_worker
from deployer.environments.desired_states import read_retained
from deployer.identity import Identity, hold_identity
from deployer.processes import supervised_process
from deployer.processes.marks import end_marked, find_marked
from deployer.run_deployer import Deployer
from deployer.traffic.proxy.streaming import StreamingProxy
from pipeline_contracts.settings import Settings
from tests.support.deploy_scenario import DeployScenario, fetch_app
from tests.support.serve_control import VARIABLE_KEYS

Fault = Literal["away", "database", "defect", "stop"]
FAULTS: tuple[Fault, ...] = ("away", "database", "defect", "stop")
"""The database is unavailable for a moment; the database fails permanently; an unexpected exception; the deployer is
restarted."""

_APP = """
import http.server, json, os
version = open("built").read()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        status = {"mark": os.environ["PHAROS_INSTANCE"], "version": version}
        self.wfile.write(json.dumps(status).encode())
    def log_message(self, *arguments): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
_WORKFLOW = {
    "version": 1,
    "build": {"steps": []},
    "processes": {"web": {"command": "exec python3 -S app.py", "health": {"path": "/"}}},
    "retain": 2,
}
_WRAPPED: tuple[tuple[Any, str], ...] = (
    *((LocalDriver, name) for name in ("build", "run_release_steps", "start", "switch", "reconcile")),
    (Fleet, "_retire"),
    (StreamingProxy, "set_route"),
    (DeploymentLog, "write_line"),
)
_counts_points: ContextVar[bool] = ContextVar("_counts_points", default=False)


class Points:
    """Counts the points that the deployer passes, and injects the fault at one of them."""

    def __init__(self) -> None:
        self.passed = 0
        self.fails_at: int | None = None
        self.fault: Fault = "defect"
        self.stop: Callable[[], None] = lambda: None
        self.injected_at: str | None = None
        """The point at which the fault was injected."""

    def begin(self, fails_at: int | None, fault: Fault) -> None:
        """Reset the counter and set the next fault."""
        self.passed, self.fails_at, self.fault, self.injected_at = 0, fails_at, fault, None

    def reach(self, name: str) -> None:
        if not _counts_points.get():
            return
        self.passed += 1
        if self.passed != self.fails_at:
            return
        self.injected_at = name
        if self.fault == "stop":
            self.stop()
        elif self.fault == "away":
            raise DatabaseUnavailable("a moment without the database")
        elif self.fault == "database":
            raise SQLAlchemyError("the database has failed")
        else:
            raise RuntimeError("a defect")


def _wrap(real: Callable[..., Any], name: str, points: Points) -> Callable[..., Any]:
    async def wrapped(*arguments: Any, **named: Any) -> Any:
        points.reach(f"before {name}")
        result = await real(*arguments, **named)
        points.reach(f"after {name}")
        return result

    return wrapped


def _count_points_in(real: Callable[..., Any]) -> Callable[..., Any]:
    async def counted(*arguments: Any, **named: Any) -> Any:
        token = _counts_points.set(True)
        try:
            return await real(*arguments, **named)
        finally:
            _counts_points.reset(token)

    return counted


@contextmanager
def _watched(points: Points, patch: pytest.MonkeyPatch) -> Iterator[None]:
    for owner, name in _WRAPPED:
        patch.setattr(owner, name, _wrap(getattr(owner, name), f"{owner.__name__}.{name}", points))
    patch.setattr(environment_worker, "run_deployment", _count_points_in(run_deployment.run_deployment))
    patch.setattr(
        environment_worker.EnvironmentWorker,
        "_reconcile",
        _count_points_in(environment_worker.EnvironmentWorker._reconcile),
    )

    def at_statement(*given: Any, **_named: Any) -> None:
        points.reach(f"statement {str(given[2])[:60]}")

    def at_commit(_session: Session) -> None:
        points.reach("before commit")

    def after_commit(_session: Session) -> None:
        points.reach("after commit")

    listeners = (
        (Engine, "before_cursor_execute", at_statement),
        (Session, "before_commit", at_commit),
        (Session, "after_commit", after_commit),
    )
    for owner, name, listener in listeners:
        event.listen(owner, name, listener)
    try:
        yield
    finally:
        for owner, name, listener in listeners:
            event.remove(owner, name, listener)


class FaultyDeployer:
    """The deployer, its scenario, and the points that it passes."""

    def __init__(self, scenario: DeployScenario, folder: Path, points: Points) -> None:
        self.scenario = scenario
        self.points = points
        self.folder = folder
        self.identity: Identity
        self.deployer: Deployer
        self.port = 0
        self.sessions = scenario.sessions
        """Sessions that the deployer uses from its next start on; the same holds for `keys`."""
        self.keys = VARIABLE_KEYS
        self._stack = AsyncExitStack()
        self._stopping = asyncio.Event()
        points.stop = self._stopping.set

    async def start(self) -> None:
        server = socket.create_server(("127.0.0.1", self.port))
        self.port = server.getsockname()[1]
        self.identity = self._stack.enter_context(hold_identity(self.folder))
        self.deployer = await self._stack.enter_async_context(
            running_local_deployer(
                Settings(deploy_drain_seconds=0.1),
                self.identity,
                server,
                sessions=self.sessions,
                keys=self.keys,
                registry=CollectorRegistry(),
                hidden=(),
                stops=False,
            )
        )

    async def stop(self) -> None:
        await self._stack.aclose()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def finish(self, number: int) -> str:
        """Return the deployment's final status; restart the deployer if the fault has stopped it."""
        ending = asyncio.create_task(self.scenario.wait_final(number, 40))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await self.restart_if_stopped()
        return await ending

    async def restart_if_stopped(self) -> None:
        if self._stopping.is_set():
            self._stopping.clear()
            await self.restart()

    async def read_live(self, target: DeployTarget) -> tuple[int, str, str, int]:
        """Return the live deployment, its version, its artefact and the desired replicas."""
        async with self.scenario.sessions() as session:
            query = (
                select(LiveRelease.deployment_id, Release.revision, Release.artefact, Environment)
                .join(Release, Release.id == LiveRelease.release_id)
                .join(Environment, Environment.id == LiveRelease.environment_id)
                .where(LiveRelease.environment_id == target.environment.id)
            )
            number, revision, artefact, environment = (await session.execute(query)).one()
        return number, self.scenario.versions[revision], artefact, environment.desired_replicas

    async def wait_settled(self, target: DeployTarget) -> None:
        """Wait until the live release is served by the desired replicas and nothing else runs or is on disk; then kill
        its processes, and wait until it is served again."""
        number, version, artefact, replicas = await self.read_live(target)
        prefix = f"{self.identity.id}/{target.environment.id}/"
        marks = {f"{prefix}{number}/web/{replica}" for replica in range(1, replicas + 1)}
        host = f"{target.environment.slug}.{target.project.slug}.localhost"
        await self._wait_response(host, lambda response: response == (number, version))
        retained = (await read_retained(self.scenario.sessions)).artefacts

        async def present() -> tuple[set[str], set[str]]:
            found = await asyncio.to_thread(find_marked, prefix)
            return {mark.rpartition("/")[0] for mark in found}, set(os.listdir(self.folder / "artefacts"))

        for _ in range(400):
            # One check could miss a process in the moment in which it becomes another program.
            if (found := await present()) == (marks, retained):
                break
            await asyncio.sleep(0.05)
        assert found == (marks, retained), (found, marks, retained, self.points.injected_at)
        assert (self.folder / "artefacts" / artefact / "built").read_text() == version
        pids = await self.pids(target)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._wait_response(host, lambda response: response == (number, version))
        assert not pids & await self.pids(target)

    async def pids(self, target: DeployTarget) -> frozenset[int]:
        """Return the environment's process IDs in the machine's PID namespace; a process may see another one."""
        found = await asyncio.to_thread(find_marked, f"{self.identity.id}/{target.environment.id}/")
        return frozenset(each.pid for processes in found.values() for each in processes)

    async def _wait_response(self, host: str, is_expected: Callable[[tuple[int, str]], bool]) -> None:
        """Wait for an expected response: deployment and version."""
        found: Any = None
        for _ in range(400):
            # A process that was just killed may have sent part of a response.
            with suppress(ValueError):
                found = await asyncio.to_thread(fetch_app, self.port, host)
            if isinstance(found, dict):
                found = (int(found["mark"].split("/")[2]), found["version"])
                if is_expected(found):
                    return
            await asyncio.sleep(0.03)
        raise AssertionError((found, self.points.injected_at))


def _build_without_git(scenario: DeployScenario, release: str, patch: pytest.MonkeyPatch) -> None:
    workflow = json.dumps({**_WORKFLOW, "release": {"steps": [release]}})

    async def resolve(_url: str, _ref: str | None, **_named: Any) -> str:
        revision = f"{len(scenario.versions):040x}"
        scenario.versions.setdefault(revision, f"version {len(scenario.versions) + 1}")
        return revision

    async def build(
        self: Builder, tenancy: Any, source: Any, _variables: Any, _log: Any
    ) -> tuple[str, WorkflowDocument]:
        name = str(source.deployment_id)
        folder = await self._folders.create_artefact(name)
        (folder / "built").write_text(scenario.versions[source.revision])
        (folder / "app.py").write_text(_APP)
        owner = self._folders.builder(tenancy)
        await self._folders.hand_over(folder, owner)
        await self._folders.seal(folder, owner)
        return name, read_workflow(workflow)

    patch.setattr(run_deployment, "resolve_ref", resolve)
    patch.setattr(Builder, "build", build)


@asynccontextmanager
async def faulty_deployer(
    scenario: DeployScenario, folder: Path, release: str = "true"
) -> AsyncIterator[FaultyDeployer]:
    """Yield a running deployer with short pauses; stop its processes at the end. `release` is the release step."""
    points = Points()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment_worker, "_FIRST_PAUSE", 0.02)
        patch.setattr(run_deployment, "_FIRST_PAUSE", 0.02)
        patch.setattr(run_deployer, "_POLL_SECONDS", 0.1)
        patch.setattr(supervised_process, "compute_restart_delay", lambda _short_runs: 0.05)
        patch.setattr(sweeper, "_SWEEP_AGAIN_SECONDS", 0.1)
        _build_without_git(scenario, release, patch)
        with _watched(points, patch):
            faulty = FaultyDeployer(scenario, folder, points)
            try:
                await faulty.start()
                yield faulty
            finally:
                points.begin(None, "defect")
                await faulty.stop()
                await end_marked(f"{faulty.identity.id}/")
