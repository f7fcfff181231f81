"""A browser, pages on one origin and a platform on another, shared by the tests of the tracker."""

from collections.abc import AsyncIterator

import pytest

from tests.support.chromium import Chromium
from tests.support.demo_pages import DemoPages, demo_pages
from tests.support.engines import free_port
from tests.support.tracked_visit import Visit, chromium_or_skip, open_visit
from tests.support.watched_platform import WatchedPlatform, watched_platform


@pytest.fixture(scope="package")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    async with chromium_or_skip(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="package")
def pages_port() -> int:
    return free_port()


@pytest.fixture(scope="package")
async def collector(
    pages_port: int, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[WatchedPlatform]:
    folder = tmp_path_factory.mktemp("watched")
    async with watched_platform(folder, f"http://127.0.0.1:{pages_port}") as running:
        yield running


@pytest.fixture(scope="package")
async def pages(pages_port: int, collector: WatchedPlatform) -> AsyncIterator[DemoPages]:
    async with demo_pages(pages_port, collector.base_url, collector.tracker_id) as running:
        yield running


@pytest.fixture
async def visit(browser: Chromium, collector: WatchedPlatform, pages: DemoPages) -> AsyncIterator[Visit]:
    async with open_visit(browser, collector, pages) as begun:
        yield begun
