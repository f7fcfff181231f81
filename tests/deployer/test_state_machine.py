"""Random walks through the states of deployments, with the real API, deployer and driver, and trivial steps."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from prometheus_client import CollectorRegistry
from sqlalchemy import func, select, text, update

from control_domain.tables.deployments import Deployment, LiveRelease
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from deployer.assemble import running_local_deployer
from deployer.identity import hold_identity
from deployer.processes.marks import end_marked, find_marked
from pipeline_contracts.deploy_states import (
    ACTIVE_STATUSES,
    FINAL_STATUSES,
    DeploymentStatus,
    ForbiddenTransition,
    check_transition,
)
from pipeline_contracts.settings import Settings
from tests.support.databases import migrated_database
from tests.support.deploy_platform import Prepared, environment_path, open_platform, prepare
from tests.support.serve_control import VARIABLE_KEYS

_SECONDS = 180.0
_APP = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["PHAROS_INSTANCE"].encode())
    def log_message(self, *given): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
_WORKFLOW = 'version: 1\nbuild: {steps: ["%s"]}\nprocesses: {web: {command: "%s", health: {path: /}}}\n'
_BRANCHES = {
    "main": _WORKFLOW % ("true", "exec python3 -S app.py"),
    "slow": _WORKFLOW % ("sleep 0.4", "exec python3 -S app.py"),
    "bad-build": _WORKFLOW % ("false", "exec python3 -S app.py"),
    "bad-start": _WORKFLOW % ("true", "exit 3"),
}
_PLACES = ("shop/development", "shop/staging", "shop/production")
_places = st.sampled_from(_PLACES)


def _make_repository(folder: Path) -> Path:
    def git(*arguments: str) -> None:
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch", "main")
    (folder / "app.py").write_text(_APP)
    for branch, workflow in _BRANCHES.items():
        git("checkout", "--quiet", "-B", branch)
        (folder / "pharos.yaml").write_text(workflow)
        git("add", "--all")
        git("commit", "--quiet", "--message", branch)
    return folder


@pytest.fixture(scope="module")
async def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    async with migrated_database("sqlite", request, tmp_path_factory.mktemp("states")) as url:
        return await prepare(url)


class _Walk(RuleBasedStateMachine):
    """One platform with operations that can be called in any order."""

    prepared: Prepared
    repository: Path

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="pharos-states-"))
        self.stack = AsyncExitStack()
        self.deployer = AsyncExitStack()

    def _run(self, work: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(_SECONDS):
                return await work

        return self.runner.run(bounded())

    @initialize()
    def begin(self) -> None:
        self._run(self._begin())

    async def _begin(self) -> None:
        self.platform = await self.stack.enter_async_context(open_platform(self.prepared, self.folder))
        async with self.platform.sessions() as session, session.begin():
            await session.execute(update(Repository).values(url=str(self.repository)))
            # Each change of a status is written down by the database itself.
            await session.execute(text("CREATE TABLE moves (id INTEGER, was TEXT, wanted TEXT)"))
            await session.execute(
                text(
                    "CREATE TRIGGER moved AFTER UPDATE OF status ON deployments WHEN OLD.status <> NEW.status "
                    "BEGIN INSERT INTO moves VALUES (NEW.id, OLD.status, NEW.status); END"
                )
            )
        await self._start_deployer()

    async def _start_deployer(self) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self.port = server.getsockname()[1]
        self.identity = self.deployer.enter_context(hold_identity(self.folder / "deployer"))
        await self.deployer.enter_async_context(
            running_local_deployer(
                Settings(deploy_drain_seconds=0.2),
                self.identity,
                server,
                sessions=self.platform.sessions,
                keys=VARIABLE_KEYS,
                registry=CollectorRegistry(),
                hidden=(),
                stops=False,
            )
        )

    def _post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        method: str = "POST",
        by: str = "owner",
    ) -> int:
        token = self.platform.acme.token(by)
        return int(self._run(self.platform.call(method, path, body, token=token)).status)

    @rule(name=_places, ref=st.sampled_from(sorted(_BRANCHES)))
    def deploy(self, name: str, ref: str) -> None:
        place = self.platform.acme.places[name]
        assert self._post(environment_path(place, "deploy"), {"ref": ref}) in (202, 409, 422)

    @rule(back=st.integers(0, 4))
    def roll_back(self, back: int) -> None:
        assert self._post(f"/v1/deployments/{self._newest() - back}/rollback") in (202, 404, 409, 422)

    @rule(back=st.integers(0, 4), name=_places)
    def promote(self, back: int, name: str) -> None:
        target = self.platform.acme.environment(name).public_id
        path = f"/v1/deployments/{self._newest() - back}/promote"
        assert self._post(path, {"target_environment_id": target}) in (202, 404, 409, 422)

    @rule(name=_places, replicas=st.integers(1, 3))
    def scale(self, name: str, replicas: int) -> None:
        place = self.platform.acme.places[name]
        assert self._post(environment_path(place, "scale"), {"replicas": replicas}, "PATCH") == 202

    @rule(name=_places, state=st.sampled_from(["running", "hibernated"]))
    def change_state(self, name: str, state: str) -> None:
        place = self.platform.acme.places[name]
        assert self._post(environment_path(place, "runtime"), {"state": state}, "PATCH") == 202

    @rule(name=_places, on=st.booleans())
    def want_approval(self, name: str, on: bool) -> None:
        # The API would require a second person to turn it off.
        self._run(self.platform.change(name, deploys_need_approval=on))

    @rule(back=st.integers(0, 3), action=st.sampled_from(["approve", "reject"]))
    def decide(self, back: int, action: str) -> None:
        body = {"reason": "because"} if action == "reject" else {}
        path = f"/v1/deployments/{self._newest() - back}/{action}"
        assert self._post(path, body, by="admin") in (200, 404, 409, 422)

    @rule(back=st.integers(0, 3))
    def cancel(self, back: int) -> None:
        assert self._post(f"/v1/deployments/{self._newest() - back}/cancel") in (200, 404, 409)

    @rule(name=_places, held=st.booleans())
    def lock(self, name: str, held: bool) -> None:
        path = environment_path(self.platform.acme.places[name], "lock")
        if held:
            assert self._post(path, {"reason": "because"}, "PUT") == 200
        else:
            assert self._post(path, method="DELETE") in (200, 404)

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0]))
    def wait(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))

    @rule()
    def restart_deployer(self) -> None:
        async def restart() -> None:
            await self.deployer.aclose()
            await self._start_deployer()

        self._run(restart())

    def _newest(self) -> int:
        return int(self._run(self._one(select(func.max(Deployment.id)))))

    async def _one(self, query: Any) -> Any:
        async with self.platform.sessions() as session:
            return (await session.execute(query)).scalar_one()

    async def _all(self, query: Any) -> list[Any]:
        async with self.platform.sessions() as session:
            return list(await session.execute(query))

    @invariant()
    def moves_are_allowed(self) -> None:
        for number, before, after in self._run(self._all(text("SELECT id, was, wanted FROM moves"))):
            try:
                check_transition(DeploymentStatus(before), DeploymentStatus(after))
            except ForbiddenTransition as error:
                raise AssertionError(f"deployment {number}: {error}") from error

    @invariant()
    def one_is_active_and_one_live(self) -> None:
        active = select(Deployment.environment_id).where(Deployment.status.in_(ACTIVE_STATUSES))
        for query in (active, select(LiveRelease.environment_id)):
            found = [row[0] for row in self._run(self._all(query))]
            assert len(found) == len(set(found))

    def teardown(self) -> None:
        try:
            if hasattr(self, "identity"):
                self._run(self._settle())
                self._run(self._check_instances())
        finally:
            self._run(self._end())
            self.runner.close()
            shutil.rmtree(self.folder)

    async def _settle(self) -> None:
        at_rest = [status.value for status in (*FINAL_STATUSES, DeploymentStatus.AWAITING_APPROVAL)]
        restless = select(func.count()).select_from(Deployment).where(Deployment.status.not_in(at_rest))
        while await self._one(restless):
            await asyncio.sleep(0.1)

    async def _check_instances(self) -> None:
        """Check that exactly the desired instances of the live release run in each environment."""
        query = (
            select(Environment.id, Environment.desired_replicas, LiveRelease.deployment_id)
            .join(LiveRelease, LiveRelease.environment_id == Environment.id)
            .where(Environment.state == "running")
        )
        expected = {
            f"{self.identity.id}/{environment}/{deployment}/web/{number}"
            for environment, replicas, deployment in await self._all(query)
            for number in range(1, replicas + 1)
        }
        found: set[str] = set()
        for _ in range(600):
            marks = await asyncio.to_thread(find_marked, self.identity.id)
            found = {mark.rpartition("/")[0] for mark in marks}
            if found == expected:
                return
            await asyncio.sleep(0.1)
        assert found == expected

    async def _end(self) -> None:
        await self.deployer.aclose()
        if hasattr(self, "identity"):
            await end_marked(self.identity.id)
        await self.stack.aclose()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("examples", [3, pytest.param(12, marks=pytest.mark.full)])
def test_random_operations_make_no_forbidden_move_and_at_most_one_live_release(
    prepared: Prepared, tmp_path: Path, examples: int
) -> None:
    _Walk.prepared = prepared
    _Walk.repository = _make_repository(tmp_path)
    walks = int(os.environ.get("PHAROS_TEST_WALKS", examples))
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        _Walk,
        settings=settings(
            max_examples=walks, stateful_step_count=20, deadline=None, suppress_health_check=checks
        ),
    )
