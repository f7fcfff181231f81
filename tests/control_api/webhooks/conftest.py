"""Webhooks of the three kinds of hosts, on both databases."""

from collections.abc import AsyncIterator

import pytest

from tests.support.deploy_platform import Platform, Prepared, open_platform
from tests.support.prepared_platform import platform, prepared
from tests.support.webhooks import KINDS, WebhookRepository, connect_webhook

__all__ = ["platform", "prepared", "webhook"]


@pytest.fixture(params=KINDS)
async def webhook(request: pytest.FixtureRequest, platform: Platform) -> WebhookRepository:
    """A connected repository of each kind, with a webhook."""
    return await connect_webhook(platform, request.param)


@pytest.fixture
async def github(platform: Platform) -> WebhookRepository:
    """A connected repository on GitHub."""
    return await connect_webhook(platform, "github")


@pytest.fixture(scope="module")
async def shared(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[WebhookRepository]:
    """One repository for all cases of a table."""
    async with open_platform(prepared, tmp_path_factory.mktemp("shared")) as opened:
        yield await connect_webhook(opened, "github")
