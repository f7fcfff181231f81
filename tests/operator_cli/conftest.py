"""Two kinds of installation for commands: a running `pharos up` (`on_socket`) and the engines of separate processes
with a control plane (`on_engines`). Each module has its own engines, and most have their own platform."""

import asyncio
import contextlib
import functools
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from control_domain.database.engine import open_engine, open_sessions
from control_domain.published_keys import publish_keys
from pipeline_contracts.read_settings import read_settings
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support import fork_server
from tests.support.accounts import make_acme
from tests.support.command_deployments import ChangeRows, StartCommand, WriteRows
from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, command_runner
from tests.support.control_thread import ControlAccess, serving_control_in_thread
from tests.support.databases import migrated_database
from tests.support.engines import or_skip
from tests.support.platform_process import PHAROS, PlatformProcess, platform_process
from tests.support.redis_server import running_redis

# Tests of these files create new projects, so they share one platform. Tests of other files change or list data of the
# whole installation.
_ON_A_SHARED_PLATFORM = frozenset(
    f"test_{name}"
    for name in (
        "backup_commands",
        "config_commands",
        "config_apply",
        "deploy_commands",
        "deployment_commands",
        "logs_commands",
        "preview_commands",
        "project_commands",
        "ps_commands",
        "site_commands",
        "workflow_commands",
    )
)


@pytest.fixture(scope="session")
def shared_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """A running `pharos up` of several files: each start takes more CPU than twenty commands."""
    with platform_process(tmp_path_factory.mktemp("commands") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def on_socket(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlatformProcess]:
    """A running `pharos up`."""
    if request.path.stem in _ON_A_SHARED_PLATFORM:
        yield request.getfixturevalue("shared_platform")
        return
    with platform_process(tmp_path_factory.mktemp("commands") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def own_redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis with the keys of one installation only."""
    with or_skip(running_redis(tmp_path_factory.mktemp("commands-redis"))) as server:
        yield server.url


@pytest.fixture(scope="module")
def extra_settings() -> Mapping[str, str]:
    """Settings in addition to Postgres and Redis. A module that needs some overrides this fixture."""
    return {}


@pytest.fixture(scope="module")
async def own_database_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_redis_url: str
) -> AsyncIterator[str]:
    """A Postgres of that installation. The account "Acme" has one environment."""
    async with migrated_database("postgres", request, tmp_path_factory.mktemp("commands-database")) as url:
        engine = open_engine(url)
        now = datetime.now(UTC)
        async with open_sessions(engine)() as session, session.begin():
            await make_acme(session, now)
        directory = await open_redis_key_directory(own_redis_url, follow=False)
        # The control plane does this when it starts.
        await publish_keys(open_sessions(engine), directory, now)
        await directory.close()
        await engine.dispose()
        yield url


@pytest.fixture(scope="module")
def own_engines(
    own_database_url: str, own_redis_url: str, extra_settings: Mapping[str, str]
) -> Mapping[str, str]:
    """The settings of that installation."""
    return {
        "PHAROS_DATABASE_URL": own_database_url,
        "PHAROS_REDIS_URL": own_redis_url,
        "PHAROS_REPOSITORY_FOLDERS": "/srv",
        **extra_settings,
    }


@pytest.fixture(scope="module")
def own_control(own_engines: Mapping[str, str]) -> Iterator[ControlAccess]:
    """The control plane of that installation."""
    settings = read_settings(own_engines, lambda path: Path(path).read_text())
    with serving_control_in_thread(settings) as access:
        yield access


@pytest.fixture(scope="module")
def on_engines(
    tmp_path_factory: pytest.TempPathFactory, own_engines: Mapping[str, str], own_control: ControlAccess
) -> RunCommand:
    """Commands with Postgres and Redis set, and with the URL and a token of the API. No deployer and no worker runs."""
    return command_runner(
        tmp_path_factory.mktemp("nothing-here"),
        {
            **CLEAN_ENVIRONMENT,
            **own_engines,
            "PHAROS_URL": own_control.url,
            "PHAROS_TOKEN": own_control.token,
        },
    )


# Each command of these files passes one request to an action that tests of the control API cover on both databases;
# the tests of the other files cover how a command opens the engines.
_SOCKET_ONLY = frozenset(
    f"test_{name}_commands"
    for name in (
        "account",
        "config",
        "deploy",
        "deployment",
        "environment",
        "logs",
        "monitor",
        "ping_key",
        "preview",
        "project",
        "ps",
        "repository",
        "site",
        "variables",
        "webhooks",
        "workflow",
    )
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of `pharos` on a running `pharos up`; those of most files also on engines, which is for `--full`.

    `make test` covers commands on engines with the tests that use `on_engines`, and those that choose "engines"
    themselves.
    """
    chosen = any(mark.args[0] == "pharos" for mark in metafunc.definition.iter_markers("parametrize"))
    if "pharos" in metafunc.fixturenames and not chosen:
        is_one = metafunc.module.__name__.rpartition(".")[2] in _SOCKET_ONLY
        engines = [] if is_one else [pytest.param("engines", marks=pytest.mark.full)]
        metafunc.parametrize("pharos", ["socket", *engines], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder a longer timeout: some run thirty commands, each of which can take ten seconds on
    a busy machine."""
    _check_file_names()
    folder = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.timeout(900))


def _check_file_names() -> None:
    """Raise `AssertionError` if a list above names a file that is not here: its tests would run like those of other
    files."""
    here = Path(__file__).parent
    missing = [
        f"{name}.py" for name in _ON_A_SHARED_PLATFORM | _SOCKET_ONLY if not (here / f"{name}.py").exists()
    ]
    assert not missing, (
        f"{here}/conftest.py names files that do not exist: {sorted(missing)}. Correct its lists."
    )


@pytest.fixture
def pharos(request: pytest.FixtureRequest) -> RunCommand:
    """Run commands on a running `pharos up` or on engines, with empty standard input."""
    if request.param == "engines":
        run: RunCommand = request.getfixturevalue("on_engines")
        return run
    platform: PlatformProcess = request.getfixturevalue("on_socket")
    return functools.partial(platform.run, stdin="")


@pytest.fixture
def write(own_database_url: str) -> WriteRows:
    """Return a function that runs a deployer's writes in the database of `on_engines`."""

    async def run_work(work: ChangeRows) -> Any:
        engine = open_engine(own_database_url)
        async with open_sessions(engine)() as session, session.begin():
            done = await work(session, datetime.now(UTC))
        await engine.dispose()
        return done

    return lambda work: asyncio.run(run_work(work))


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartCommand]:
    """Return a function that starts a command on `on_engines`, or with `socket` on `on_socket`, without waiting for it.

    At the end of the test the commands are killed.
    """
    with contextlib.ExitStack() as stack:

        def begin(*arguments: str, socket: bool = False, **options: Any) -> "subprocess.Popen[str]":
            environment = {**CLEAN_ENVIRONMENT, "PYTHONUNBUFFERED": "1"}
            if socket:
                arguments += ("--data", str(request.getfixturevalue("on_socket").data))
            else:
                environment |= request.getfixturevalue("own_engines")
                control: ControlAccess = request.getfixturevalue("own_control")
                environment |= {"PHAROS_URL": control.url, "PHAROS_TOKEN": control.token}
            given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
            process = stack.enter_context(
                fork_server.popen(
                    [str(PHAROS), *arguments], text=True, cwd=tmp_path, env=environment, **given
                )
            )
            stack.callback(process.kill)
            return process

        yield begin
