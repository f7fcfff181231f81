"""Fixtures: projects that configurations change, on both databases, each test on a separate copy."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.changed_project import ChangedProject, PreparedProject, open_project
from tests.support.deploy_platform import Platform, Prepared, open_platform, prepared_after
from tests.support.eleven_steps import BEFORE
from tests.support.prepared_platform import platform, prepared
from tests.support.prepared_project import prepared_project
from tests.support.reviewed_project import ReviewedProject

__all__ = ["begun", "configured", "platform", "prepared", "prepared_begun", "prepared_project", "reviewed"]


@pytest.fixture
async def configured(prepared_project: PreparedProject, tmp_path: Path) -> AsyncIterator[ChangedProject]:
    async with open_project(prepared_project, tmp_path) as opened:
        yield opened


@pytest.fixture
def reviewed(platform: Platform) -> ReviewedProject:
    """A project of a control plane with its HTTP API."""
    return ReviewedProject(platform)


@pytest.fixture(scope="module")
async def prepared_begun(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Prepared]:
    async def apply_document(platform: Platform) -> None:
        await ReviewedProject(platform).apply_document(BEFORE)

    async with prepared_after(prepared, tmp_path_factory.mktemp("begun"), apply_document) as made:
        yield made


@pytest.fixture
async def begun(prepared_begun: Prepared, tmp_path: Path) -> AsyncIterator[ReviewedProject]:
    """A project with the resources that the eleven steps change and remove."""
    async with open_platform(prepared_begun, tmp_path) as platform:
        yield ReviewedProject(platform)
