"""Fixtures: a project with people and a repository, in a copy of a prepared database for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from control_domain.database.engine import Sessions
from tests.support.changed_project import PreparedProject, prepare_project
from tests.support.databases import KINDS, copied_database, prepare_once
from tests.support.managed_project import ManagedProject


@pytest.fixture(scope="module", params=KINDS)
async def prepared_project(request: pytest.FixtureRequest) -> PreparedProject:
    return await prepare_once(request.param, request, prepare_project)


@pytest.fixture
async def database_url(prepared_project: PreparedProject, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of this test's copy, which the fixture `sessions` opens."""
    async with copied_database(prepared_project.url, tmp_path) as url:
        yield url


@pytest.fixture
def managed(prepared_project: PreparedProject, sessions: Sessions) -> ManagedProject:
    """The account "Acme" with people of every role, a project with one environment, and a repository."""
    return prepared_project.managed.on(sessions)
