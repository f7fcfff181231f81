"""The user, the files and the neighbours of release steps."""

import asyncio
import json
import os
import random
import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from control_domain.workflows.read_workflow import read_workflow
from deployer.drivers.interface import DeployFailed, Run, Tenancy
from deployer.drivers.local.driver import LocalDriver
from deployer.identity import Identity
from deployer.listeners.owners import ListenerOwners
from deployer.processes.confinement import Limits
from deployer.processes.marks import end_marked
from deployer.traffic.interface import Route, Target
from tests.deployer.processes.sandbox import PYTHON, wait_until

_MAKE_TABLE = "import os, sqlite3; sqlite3.connect(os.path.expanduser('~/db')).execute('create table t(x)')"
_MIGRATE = f'{PYTHON} -c "{_MAKE_TABLE}"'


class _Traffic:
    async def set_routes(self, routes: Mapping[int, Route]) -> None: ...

    async def set_route(self, environment_id: int, route: Route) -> None: ...

    async def remove_route(self, environment_id: int) -> None: ...

    async def count_in_flight(self, environment_id: int, target: Target) -> int:
        return 0

    async def end_streams(self, environment_id: int, target: Target) -> None: ...

    async def close(self) -> None: ...


class _Log:
    def __init__(self) -> None:
        self.data = b""

    async def write(self, stream: str, data: bytes) -> None:
        self.data += data

    async def write_line(self, text: str) -> None: ...

    async def begin_step(self, step: Any, commit: Any = None) -> None: ...


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[LocalDriver]:
    # Users that no other test has, because a driver ends all processes of its users.
    first_uid = 2_120_000_000 + random.SystemRandom().randrange(1_000) * 1_000
    identity = Identity(
        f"dpl_{random.SystemRandom().randrange(10**12)}", "here", first_uid, tmp_path / "folder"
    )
    (tmp_path / "folder" / "artefacts" / "1").mkdir(parents=True)
    listeners = ListenerOwners.of_this_machine()
    made = LocalDriver(
        identity,
        _Traffic(),
        lambda number, facts: None,
        hidden=(),
        limits=Limits(),
        drain_seconds=0,
        listeners=listeners,
    )
    yield made
    await made.close(stops=True)
    listeners.close()
    assert await end_marked(f"{identity.id}/") == 0


_TENANCY = Tenancy(3, 1, "env_public", ("shop.localhost",), "http://shop.localhost")


def _run(step: str, worker: str = "exec sleep 600") -> Run:
    release = f"release: {{steps: [{json.dumps(step)}]}}"
    text = f"version: 1\n{release}\nprocesses:\n  worker: {{command: {json.dumps(worker)}}}\n"
    return Run(1, "1", read_workflow(text), {})


async def test_the_application_finds_the_file_that_a_migration_wrote(
    driver: LocalDriver, tmp_path: Path
) -> None:
    """An application without a database server stores files in its HOME."""
    log = _Log()
    await driver.run_release_steps(_TENANCY, _run(f"{_MIGRATE}; id -u; ! touch /srv/app/x 2>/dev/null"), log)
    home = tmp_path / "folder" / "homes" / "env_public" / "run"
    assert sqlite3.connect(home / "db").execute("select name from sqlite_master").fetchall() == [("t",)]
    if os.geteuid() == 0:
        assert (home / "db").stat().st_uid == int(log.data)
    run = _run("true", "test -w ~/db && touch ~/seen && exec sleep 600")
    await driver.start(_TENANCY, run, 1, log)
    assert (home / "seen").exists()
    await driver.reconcile(_TENANCY, None, 0)


async def test_a_release_step_does_not_end_running_instances_of_the_same_user(driver: LocalDriver) -> None:
    log = _Log()
    live = _run("true")
    await driver.start(_TENANCY, live, 1, log)
    fleet = driver._fleets[_TENANCY.environment_id]
    pid = fleet.instances[0].supervised.pid
    with pytest.raises(DeployFailed, match="status 4"):
        await driver.run_release_steps(_TENANCY, _run("exit 4"), log)
    assert (fleet.instances[0].supervised.pid, fleet.instances[0].supervised.restarts) == (pid, 0)
    await driver.reconcile(_TENANCY, None, 0)


async def test_ending_all_instances_does_not_end_a_release_step(driver: LocalDriver, tmp_path: Path) -> None:
    """A hibernated environment, or one that was never live, is reconciled while its first release is prepared."""
    home = tmp_path / "folder" / "homes" / "env_public" / "run"
    step = "touch ~/begun; until [ -e ~/go ]; do sleep 0.02; done"
    releasing = asyncio.ensure_future(driver.run_release_steps(_TENANCY, _run(step), _Log()))
    await wait_until(lambda: (home / "begun").exists() or releasing.done())
    await driver.reconcile(_TENANCY, None, 0)
    assert not releasing.done()
    (home / "go").touch()
    await releasing
