"""Databases of the control plane, which runs on both kinds."""

from collections.abc import AsyncIterator

import pytest

from control_api.database import Sessions, open_sessions
from tests.support.accounts import migrated


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Sessions]:
    """What opens sessions of a migrated database."""
    async with migrated(database_url) as engine:
        yield open_sessions(engine)
