"""Projects with repositories on disk, requests to deploy them, and the state that must result."""

import asyncio
import http.client
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select

from control_domain.accounts.operations import create_account
from control_domain.audit import Actor
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.deployments.decisions import cancel_deployment
from control_domain.deployments.operations import queue_promotion, queue_rollback
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, create_project
from control_domain.removals.remove_environment import remove_environment
from control_domain.repositories.operations import connect_repository
from control_domain.tables.accounts import Account
from control_domain.tables.deployments import Deployment, DeploymentLine, LiveRelease, Release
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import Instance
from pipeline_contracts.deploy_states import FINAL_STATUSES
from pipeline_contracts.rate_limits import RateLimit
from tests.support.accounts import migrated
from tests.support.deployer_process import DeployerProcess

ACTOR = Actor("a test")
_GIT_IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
# Each process starts another process that can be found only by its mark.
_DETACHED = "(sleep 600 >/dev/null 2>&1 &)"
BUILD = f"{_DETACHED}; cp version built; echo building; sleep 0.1"
RELEASE = f"{_DETACHED}; echo releasing; sleep 0.1"
WEB = f"{_DETACHED}; exec python3 -S app.py"
_APP = """
import http.server, json, os
version = open("built").read()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        status = {"mark": os.environ["PHAROS_INSTANCE"], "pid": os.getpid(), "version": version}
        self.wfile.write(json.dumps(status).encode())
    def log_message(self, *arguments): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


class State(NamedTuple):
    """Processes, artefacts and rows as one value to compare."""

    live: dict[str, int]
    """The live deployment by host of the environment."""
    answering: dict[str, tuple[int, str]]
    """By host: the deployment and the version that responded to all of a few requests."""
    marks: list[str]
    """Environment, deployment, process and number of each marked process that is the leader of its group."""
    instances: list[str]
    """The same from the rows of running instances."""
    ports: set[int]
    artefacts: Sequence[str]
    strays: list[str]


@dataclass
class DeployScenario:
    """An account in a database, and the folder of its repositories."""

    url: str
    folder: Path
    sessions: Sessions
    account: Account
    versions: dict[str, str] = field(default_factory=dict)
    """The version by commit."""

    def commit(self, slug: str, build: str = BUILD, release: str | None = RELEASE, web: str = WEB) -> str:
        """Commit and push a new version of a project; return the commit."""
        work = self.folder / slug
        version = f"{slug} {len(self.versions) + 1}"
        workflow = {
            "version": 1,
            "build": {"steps": [build]},
            "release": {"steps": [] if release is None else [release]},
            "processes": {"web": {"command": web, "health": {"path": "/", "timeout_seconds": 90}}},
            "retain": 2,
        }
        if not work.exists():
            subprocess.run(["git", "init", "--quiet", "--bare", f"{work}.git"], check=True)
            subprocess.run(
                ["git", "clone", "--quiet", f"{work}.git", work], check=True, stderr=subprocess.PIPE
            )
        (work / "app.py").write_text(_APP)
        (work / "version").write_text(version)
        (work / "pharos.yaml").write_text(json.dumps(workflow))
        self._git(work, "add", "--all")
        self._git(work, "commit", "--quiet", "--message", version)
        self._git(work, "push", "--quiet", "origin", "HEAD:main")
        revision = self._git(work, "rev-parse", "HEAD")
        self.versions[revision] = version
        return revision

    def _git(self, work: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *_GIT_IDENTITY, *arguments],
            cwd=work,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ,
        )
        return done.stdout.strip()

    async def add_project(self, slug: str, url: str | None = None) -> dict[str, DeployTarget]:
        """Create a project with the environments `staging` and `production`; return them."""
        now = datetime.now(UTC)
        async with self.sessions() as session, session.begin():
            project = await create_project(session, self.account, slug.title(), slug, now)
            address = url or f"{self.folder / slug}.git"
            await connect_repository(session, project.id, "git", address, "main", now)
            return {
                type_: DeployTarget(
                    await create_environment(session, project, type_.title(), type_, type_, now), project
                )
                for type_ in ("staging", "production")
            }

    async def deploy(self, deploy_target: DeployTarget) -> int:
        """Queue a deployment of the branch; return its number."""
        async with self.sessions() as session, session.begin():
            return (
                await queue_deployment(
                    session, deploy_target, DeploymentRequest("api"), ACTOR, datetime.now(UTC)
                )
            ).id

    async def roll_back(self, deploy_target: DeployTarget, to: int) -> int:
        async with self.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, to)
            return (await queue_rollback(session, deployment, deploy_target, ACTOR, datetime.now(UTC))).id

    async def promote(self, number: int, deploy_target: DeployTarget, to: DeployTarget) -> int:
        async with self.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            target = to.environment.public_id
            made, _ = await queue_promotion(
                session, deployment, deploy_target, target, None, ACTOR, datetime.now(UTC)
            )
            return made.id

    async def find_retained(self, deploy_target: DeployTarget) -> int:
        """Return the newest deployment that a rollback can restore: retained, and not live."""
        async with self.sessions() as session:
            live = select(LiveRelease.release_id)
            query = select(Release.deployment_id).where(
                Release.environment_id == deploy_target.environment.id,
                Release.removed_at.is_(None),
                Release.id.not_in(live),
            )
            # The next deployment's clean-up leaves the newest one.
            newest = query.order_by(Release.id.desc()).limit(1)
            return (await session.execute(newest)).scalar_one()

    async def remove(self, deploy_target: DeployTarget) -> None:
        async with self.sessions() as session, session.begin():
            merged = DeployTarget(
                await session.merge(deploy_target.environment), await session.merge(deploy_target.project)
            )
            await remove_environment(session, merged, ACTOR, datetime.now(UTC))

    async def cancel(self, number: int) -> None:
        async with self.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            await cancel_deployment(session, deployment, ACTOR, datetime.now(UTC))

    async def read(self, number: int) -> Deployment:
        async with self.sessions() as session:
            return await session.get_one(Deployment, number)

    async def lines(self, number: int) -> list[str]:
        async with self.sessions() as session:
            query = select(DeploymentLine.text).where(DeploymentLine.deployment_id == number)
            return list((await session.execute(query.order_by(DeploymentLine.id))).scalars())

    async def wait_final(self, number: int, seconds: float = 90) -> str:
        """Wait for the deployment's final status and return it."""
        ends_at = time.monotonic() + seconds
        while (status := (await self.read(number)).status) not in FINAL_STATUSES:
            assert time.monotonic() < ends_at, (status, await self.lines(number))
            await asyncio.sleep(0.03)
        return status

    async def desired_state(self) -> State:
        """Return the state that the rows of releases require."""
        async with self.sessions() as session:
            query = (
                select(LiveRelease, Release, Environment, Project.slug)
                .join(Release, Release.id == LiveRelease.release_id)
                .join(Environment, Environment.id == LiveRelease.environment_id)
                .join(Project, Project.id == Environment.project_id)
            )
            rows = (await session.execute(query)).all()
            kept = select(Release.artefact).where(Release.removed_at.is_(None)).distinct()
            artefacts = sorted((await session.execute(kept)).scalars())
        live = {
            f"{environment.slug}.{slug}.localhost": row.deployment_id for row, _, environment, slug in rows
        }
        answering = {
            f"{environment.slug}.{slug}.localhost": (row.deployment_id, self.versions[release.revision])
            for row, release, environment, slug in rows
        }
        marks = sorted(
            f"{environment.id}/{row.deployment_id}/web/{number}"
            for row, _, environment, _ in rows
            for number in range(1, environment.desired_replicas + 1)
        )
        return State(live, answering, marks, marks, set(), artefacts, [])

    async def actual_state(self, deployer: DeployerProcess, desired: State) -> State:
        """Return the actual state. `ports` has the ports that differ between marks and listeners."""
        marks = deployer.marked()
        leaders = [mark for mark, found in marks.items() for each in found if each.is_leader]
        async with self.sessions() as session:
            rows = (await session.execute(select(Instance))).scalars().all()
            live = dict(
                (await session.execute(select(LiveRelease.environment_id, LiveRelease.deployment_id))).all()
            )
        return State(
            desired.live if sorted(live.values()) == sorted(desired.live.values()) else {},
            {host: await asyncio.to_thread(_fetch_repeatedly, deployer.port, host) for host in desired.live},
            sorted(mark.partition("/")[2].rpartition("/")[0] for mark in leaders),
            sorted(
                f"{row.environment_id}/{row.deployment_id}/{row.process}/{row.number}"
                for row in rows
                if row.state == "running"
            ),
            {int(mark.rpartition("/")[2]) for mark in marks if mark.count("/") == 5} ^ deployer.listeners(),
            deployer.artefacts(),
            deployer.strays(),
        )

    async def wait_settled(self, deployer: DeployerProcess, seconds: float = 60) -> None:
        """Wait until the actual state is the desired one: no leftovers, and live releases respond."""
        ends_at = time.monotonic() + seconds
        while True:
            desired = await self.desired_state()
            actual = await self.actual_state(deployer, desired)
            if actual == desired or time.monotonic() > ends_at:
                break
            await asyncio.sleep(0.1)
        pairs = zip(State._fields, actual, desired, strict=True)
        differences = {name: (found, expected) for name, found, expected in pairs if found != expected}
        assert not differences, f"{differences}\n{deployer.log_tail()}"


def fetch_app(port: int, host: str) -> dict[str, Any] | int:
    """Return the JSON response of an application at this host, another status than 200, or 0 if the request fails."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/", headers={"Host": host})
        response = connection.getresponse()
        body = response.read()
        return json.loads(body) if response.status == 200 else response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _fetch_repeatedly(port: int, host: str) -> tuple[int, str] | list[Any]:
    """Return the deployment and version that respond to three requests, or the responses if they differ."""
    responses = [fetch_app(port, host) for _ in range(3)]
    found = {
        (int(response["mark"].split("/")[2]), response["version"]) if isinstance(response, dict) else response
        for response in responses
    }
    return found.pop() if len(found) == 1 else responses  # type: ignore[return-value]


@asynccontextmanager
async def open_scenario(url: str, folder: Path) -> AsyncIterator[DeployScenario]:
    """Yield a scenario in an empty database."""
    async with migrated(url):
        engine = open_engine(url)
        sessions = open_sessions(engine)
        try:
            async with sessions() as session, session.begin():
                account = await create_account(session, "Acme", "acme", RateLimit(10, 20), datetime.now(UTC))
            yield DeployScenario(url, folder, sessions, account)
        finally:
            await engine.dispose()
