"""A project whose configuration changes it, on both databases: a copy of a prepared one for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.changed_project import ChangedProject, PreparedProject, open_project
from tests.support.deploy_platform import Platform
from tests.support.eleven_operations import BEFORE
from tests.support.prepared_platform import platform, prepared
from tests.support.prepared_project import prepared_project
from tests.support.reviewed_project import ReviewedProject

__all__ = ["begun", "configured", "platform", "prepared", "prepared_project", "reviewed"]


@pytest.fixture
async def configured(prepared_project: PreparedProject, tmp_path: Path) -> AsyncIterator[ChangedProject]:
    """One of its own for each test."""
    async with open_project(prepared_project, tmp_path) as opened:
        yield opened


@pytest.fixture
def reviewed(platform: Platform) -> ReviewedProject:
    """A project on a control plane that is asked over HTTP."""
    return ReviewedProject(platform)


@pytest.fixture
async def begun(reviewed: ReviewedProject) -> ReviewedProject:
    """The same with what the eleven operations change and remove."""
    await reviewed.bring_about(BEFORE)
    return reviewed
