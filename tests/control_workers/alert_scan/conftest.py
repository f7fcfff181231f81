"""A scan on SQLite and on the column store of the run."""

import pytest

from control_domain.database.engine import Sessions
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.alert_scans import ScanUnderTest, make_scan


@pytest.fixture
async def scan(sessions: Sessions, column_store: ChdbColumnStore) -> ScanUnderTest:
    """Yield a scan for a new account."""
    return await make_scan(sessions, column_store)
