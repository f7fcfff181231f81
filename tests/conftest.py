"""Engines of the run, each started once, the choice of tests, and a report of skipped tests."""

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb
from tests.support import cpu_times, suites
from tests.support.databases import KINDS, Once, migrated_database
from tests.support.engines import or_skip
from tests.support.monitored import Monitored, open_monitored
from tests.support.reaper import Reaper, remove_old_folders
from tests.support.redis_server import patient_redis
from tests.support.store_template import copy_store_template

# Without written bytecode, every process of the run would compile Pharos and the tests again, for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Collections during import scan objects that all stay; `pytest_collection_finish` enables the collector again.
gc.disable()

# The time of an example, or of drawing it, is meaningless on a busy machine.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=30)


@pytest.fixture(scope="session")
async def column_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChdbColumnStore]:
    """Yield chDB with the schema. A process has one data path, so tests use new environments and log names."""
    folder = tmp_path_factory.mktemp("chdb") / "clickhouse"
    copy_store_template(folder)
    store = await open_chdb(folder)
    yield store
    await store.close()


@pytest.fixture(scope="session", autouse=True)
def patient_clients_of_redis() -> Iterator[None]:
    """Raise the call timeout of Redis clients: the product's quarter of a second is too short on a loaded machine."""
    with patient_redis():
        yield


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of the run's Redis. Tests use new accounts and keys."""
    from tests.support.redis_server import running_redis

    with or_skip(running_redis(tmp_path_factory.mktemp("redis"))) as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of the run's Postgres, `postgresql://…`, for a role that may create databases."""
    from tests.support.postgres_server import running_postgres

    with or_skip(running_postgres(tmp_path_factory.mktemp("postgres"))) as server:
        yield server.url


@pytest.fixture(scope="session")
def clickhouse_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a ClickHouse HTTP interface: `PHAROS_TEST_CLICKHOUSE_URL`, or else the front over chDB."""
    if url := os.environ.get("PHAROS_TEST_CLICKHOUSE_URL"):
        yield url
        return
    from tests.support.clickhouse_front import running_clickhouse_front

    with or_skip(running_clickhouse_front(tmp_path_factory.mktemp("clickhouse-front"))) as server:
        yield server.url


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the run's Kafka broker. Tests use new topics and groups."""
    from tests.support.kafka_broker import running_kafka

    with or_skip(running_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def once() -> Once:
    """Return the cache of values that are made once per run."""
    return Once()


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of a migrated database without rows for each test, on SQLite and on Postgres."""
    async with migrated_database(request.param, request, tmp_path) as url:
        yield url


@pytest.fixture
async def monitored(database_url: str) -> AsyncIterator[Monitored]:
    """Yield monitor states in a migrated database."""
    async with open_monitored(database_url) as opened:
        yield opened


class _FailuresAtOnce:
    """Prints each failure when it happens, so that an interrupted run has reported its failures too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\n{report.when} failed: {report.nodeid}")


_reaper = pytest.StashKey[Reaper]()
_failed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    suites.add_options(parser)
    cpu_times.add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for mark in suites.MARKS:
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(_FailuresAtOnce(config))
    cpu_times.register(config)
    settings.load_profile("full" if suites.is_thorough(config) else "quick")
    # A shell starts background commands with SIGINT ignored; every program under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_worker = hasattr(config, "workerinput")
    if not is_worker and config.getoption("numprocesses", None):
        # The controller of xdist collects no tests itself.
        gc.enable()
    if not is_worker and not config.option.collectonly and not config.option.help:
        # Before the workers start, so that they inherit its mark; pytest's folders of the run lie in its folder.
        remove_old_folders()
        config.stash[_reaper] = Reaper()
        if config.option.basetemp is None:
            config.option.basetemp = str(config.stash[_reaper].folder / "t")


def pytest_unconfigure(config: pytest.Config) -> None:
    if (reaper := config.stash.get(_reaper, None)) is not None:
        reaper.close(failed=config.stash.get(_failed, False))


def pytest_collection_finish() -> None:
    # Ten thousand tests and all imports live until the end: later collections need not scan them.
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    suites.select(config, items)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if exitstatus != pytest.ExitCode.OK and (reaper := config.stash.get(_reaper, None)) is not None:
        terminalreporter.write_line(f"Files of this run: {reaper.folder} (the next run removes them)")
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("PHAROS_TEST_NO_SKIP"):
        terminalreporter.write_line(f"{len(skipped)} tests were skipped, and PHAROS_TEST_NO_SKIP is set")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("PHAROS_TEST_NO_SKIP") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    session.config.stash[_failed] = session.exitstatus != pytest.ExitCode.OK
