"""Fixtures: the control plane over HTTP on both databases, a copy of a prepared one for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import KINDS, make_database
from tests.support.deploy_platform import Platform, Prepared, open_platform, prepare
from tests.support.once import Once


@pytest.fixture(scope="module", params=KINDS)
async def prepared(
    request: pytest.FixtureRequest, once: Once, tmp_path_factory: pytest.TempPathFactory
) -> Prepared:
    async def make() -> Prepared:
        return await prepare(await make_database(request.param, request, tmp_path_factory.mktemp("prepared")))

    return await once(("prepared", request.param), make)


@pytest.fixture
async def platform(prepared: Prepared, tmp_path: Path) -> AsyncIterator[Platform]:
    """One of its own for each test."""
    async with open_platform(prepared, tmp_path) as opened:
        yield opened
