"""Fixtures: the control plane over HTTP on both databases, a copy of a prepared one for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import KINDS, empty_database
from tests.support.deploy_platform import Platform, Prepared, open_platform, prepare


@pytest.fixture(scope="session", params=KINDS)
async def prepared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prepared]:
    async with empty_database(request.param, request, tmp_path_factory.mktemp("prepared")) as url:
        yield await prepare(url)


@pytest.fixture
async def platform(prepared: Prepared, tmp_path: Path) -> AsyncIterator[Platform]:
    """One of its own for each test."""
    async with open_platform(prepared, tmp_path) as opened:
        yield opened
