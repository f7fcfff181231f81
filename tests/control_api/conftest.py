"""Tests of the control plane run on both of its databases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import KINDS, empty_database


@pytest.fixture(params=KINDS)
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """An empty database of its own for each test."""
    async with empty_database(request.param, request, tmp_path) as url:
        yield url


@pytest.fixture
async def second_database_url(
    request: pytest.FixtureRequest, tmp_path: Path, database_url: str
) -> AsyncIterator[str]:
    """Another one of the same kind."""
    kind = "sqlite" if database_url.startswith("sqlite") else "postgres"
    async with empty_database(kind, request, tmp_path) as url:
        yield url
