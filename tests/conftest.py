"""What all tests share: the one embedded ClickHouse of the run, and the rule that nothing is left out unseen."""

import os
from collections.abc import AsyncIterator

import pytest

from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb


@pytest.fixture(scope="session")
async def column_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChdbColumnStore]:
    """chDB with the schema. A process has one data path: tests keep apart by environment and log names."""
    store = await open_chdb(tmp_path_factory.mktemp("clickhouse"))
    await apply_schema(store)
    yield store
    await store.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("PHAROS_TEST_NO_SKIP"):
        terminalreporter.write_line(f"{len(skipped)} tests were left out, and PHAROS_TEST_NO_SKIP is set")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("PHAROS_TEST_NO_SKIP") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
