"""Databases of the control plane, which runs on both kinds."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control_api.database import Sessions, open_sessions
from tests.support.accounts import migrated
from tests.support.databases import empty_database


@pytest.fixture
async def second_database_url(
    request: pytest.FixtureRequest, tmp_path: Path, database_url: str
) -> AsyncIterator[str]:
    """Another one of the same kind."""
    kind = "sqlite" if database_url.startswith("sqlite") else "postgres"
    async with empty_database(kind, request, tmp_path) as url:
        yield url


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Sessions]:
    """What opens sessions of a migrated database."""
    async with migrated(database_url) as engine:
        yield open_sessions(engine)
