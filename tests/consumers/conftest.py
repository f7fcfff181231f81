"""Databases with monitors, of both kinds."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import KINDS, empty_database
from tests.support.monitored import Monitored, open_monitored


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """An empty database of its own."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


@pytest.fixture
async def monitored(database_url: str) -> AsyncIterator[Monitored]:
    """A migrated one, with the states that the consumers write."""
    async with open_monitored(database_url) as opened:
        yield opened
