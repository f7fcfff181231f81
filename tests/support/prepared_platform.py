"""Fixtures: the control plane over HTTP on both databases, with a copy of a prepared database for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import KINDS, prepare_once
from tests.support.deploy_platform import Platform, Prepared, open_platform, prepare


@pytest.fixture(scope="module", params=KINDS)
async def prepared(request: pytest.FixtureRequest) -> Prepared:
    return await prepare_once(request.param, request, prepare)


@pytest.fixture
async def platform(prepared: Prepared, tmp_path: Path) -> AsyncIterator[Platform]:
    """Yield a platform for this test alone."""
    async with open_platform(prepared, tmp_path) as opened:
        yield opened
