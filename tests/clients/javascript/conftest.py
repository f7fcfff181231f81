"""The built client, and one running platform that the tests of this folder share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import skip_if_missing
from tests.support.javascript_client import JavascriptClient, javascript_client
from tests.support.platform_process import PlatformProcess, platform_process


@pytest.fixture(scope="session")
def client() -> JavascriptClient:
    with skip_if_missing():
        return javascript_client()


@pytest.fixture(scope="session")
def platform(client: JavascriptClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    # `client` comes first: without Node.js, no platform needs to start.
    with platform_process(tmp_path_factory.mktemp("clients") / "data") as running:
        yield running


@pytest.fixture
def app(client: JavascriptClient, tmp_path: Path) -> Path:
    """Return the folder of an application that has the client installed."""
    folder = tmp_path / "app"
    client.write_app(folder, {})
    return folder
