"""Fixtures of the API client."""

from collections.abc import Iterator

import pytest

from operator_cli.api.client import Api
from tests.support.fake_api import FakeApi, running_fake_api


@pytest.fixture
def server() -> Iterator[FakeApi]:
    with running_fake_api() as running:
        yield running


@pytest.fixture
def api(server: FakeApi) -> Iterator[Api]:
    with Api(server.target) as opened:
        yield opened


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of the waits of the client, in seconds, which take no time in tests."""
    recorded: list[float] = []
    monkeypatch.setattr("time.sleep", recorded.append)
    return recorded
