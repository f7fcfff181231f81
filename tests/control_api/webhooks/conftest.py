"""Webhooks of the three kinds of hosts, on both databases."""

from collections.abc import AsyncIterator

import pytest

from tests.support.deploy_platform import Platform, Prepared, open_platform
from tests.support.prepared_platform import platform, prepared
from tests.support.webhooks import KINDS, Hooked, hook

__all__ = ["hooked", "platform", "prepared"]


@pytest.fixture(params=KINDS)
async def hooked(request: pytest.FixtureRequest, platform: Platform) -> Hooked:
    """A connected repository of each kind, with a webhook."""
    return await hook(platform, request.param)


@pytest.fixture
async def github(platform: Platform) -> Hooked:
    """A connected repository on GitHub."""
    return await hook(platform, "github")


@pytest.fixture(scope="module")
async def shared(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hooked]:
    """One repository for all cases of a table."""
    async with open_platform(prepared, tmp_path_factory.mktemp("shared")) as opened:
        yield await hook(opened, "github")
