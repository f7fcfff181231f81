"""What the control plane says of addresses and methods that it does not have."""

from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from control_api.app import build_control
from control_api.database import open_engine, open_sessions
from tests.support.serve_control import serving_control

_NOTHING = cast(Any, None)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    # Nothing reads from the database: whoever has no token is refused before.
    app = build_control(open_sessions(open_engine("sqlite+aiosqlite://")), _NOTHING, b"receipts", _NOTHING)
    async with serving_control(app) as url, aiohttp.ClientSession(f"{url}/api/v1/") as session:
        yield session


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "deployments", "GET, POST"),
        ("OPTIONS", "deployments", "GET, POST"),
        ("POST", "account", "GET"),
        ("GET", "environments/1/scale", "PATCH"),
        ("HEAD", "projects/1", "GET"),
    ],
)
async def test_a_wrong_method_is_told_all_that_the_address_takes(
    method: str, path: str, allowed: str, http: aiohttp.ClientSession
) -> None:
    async with http.request(method, path) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == allowed
        assert answer.content_type == "application/problem+json"


async def test_a_slash_too_much_is_another_address(http: aiohttp.ClientSession) -> None:
    async with http.get("account/", allow_redirects=False) as answer:
        assert answer.status == 404
        assert (await answer.json(content_type=None))["type"] == "/problems/not-found"


async def test_the_longest_filters_of_a_report_are_read(http: aiohttp.ClientSession) -> None:
    longest = {"path": 2048, "source": 255, "campaign": 255}
    query = {name: "\N{MUSICAL SYMBOL G CLEF}" * characters for name, characters in longest.items()}
    async with http.get("analytics/sites/1/report", params=query) as answer:
        assert answer.status == 401
