"""Responses to unknown paths and methods, `HEAD`, long URLs and broken bodies."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from control_api.app import build_control_app
from control_domain.database.engine import open_engine, open_sessions
from tests.support.serve_control import serving_control

_NOTHING = cast(Any, None)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    # No request reads the database: callers without a token are refused earlier.
    app = build_control_app(
        open_sessions(open_engine("sqlite+aiosqlite://")), _NOTHING, b"receipts", _NOTHING, git_app_secret="s"
    )
    async with serving_control(app) as url, aiohttp.ClientSession(f"{url}/api/v1/") as session:
        yield session


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "deployments", "GET, HEAD, POST"),
        ("OPTIONS", "deployments", "GET, HEAD, POST"),
        ("TRACE", "deployments", "GET, HEAD, POST"),
        ("POST", "account", "GET, HEAD, PATCH"),
        ("GET", "environments/1/scale", "PATCH"),
        ("HEAD", "environments/1/scale", "PATCH"),
    ],
)
async def test_405_lists_all_methods_of_the_path(
    method: str, path: str, allowed: str, http: aiohttp.ClientSession
) -> None:
    async with http.request(method, path) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == allowed
        assert answer.content_type == "application/problem+json"
        # The command line knows a lacking operation by this text.
        assert method == "HEAD" or '"This address does not take the method."' in await answer.text()


async def test_trailing_slash_is_another_path(http: aiohttp.ClientSession) -> None:
    async with http.get("account/", allow_redirects=False) as answer:
        assert answer.status == 404
        problem = await answer.json(content_type=None)
        assert problem["type"] == "/problems/not-found"
        # The command line knows a lacking operation by this text.
        assert problem["detail"] == "There is nothing at this address."


async def test_longest_report_filters_are_accepted(http: aiohttp.ClientSession) -> None:
    longest = {"path": 2048, "source": 255, "campaign": 255}
    query = {name: "\N{MUSICAL SYMBOL G CLEF}" * characters for name, characters in longest.items()}
    async with http.get("analytics/sites/1/report", params=query) as answer:
        assert answer.status == 401


async def test_head_is_get_without_the_body(http: aiohttp.ClientSession) -> None:
    for path in ("schemas/workflow-1.json", "schemas/nothing.json", "v1/account", "v1/deployments/1/log"):
        heads = []
        for method in ("GET", "HEAD"):
            async with http.request(method, f"/api/{path}", headers={"X-Request-Id": "mine"}) as answer:
                headers = {name: value for name, value in answer.headers.items() if name != "Date"}
                heads.append((answer.status, headers))
                assert headers["Server"] == "pharos"
                assert (await answer.read() == b"") == (method == "HEAD")
        assert heads[0] == heads[1], path


async def test_expect_continue_and_broken_bodies_are_handled(
    http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    url = http._base_url
    assert url is not None
    head = "POST /api/git-app/webhook HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: push\r\n"
    for framing, body, statuses in (
        ("Expect: 100-continue\r\nContent-Length: 6000000\r\n", b"", [413]),
        ("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", b"zz\r\n", [100, 400]),
    ):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"{head}{framing}\r\n".encode())
        for status in statuses:
            answer = await reader.readuntil(b"\r\n\r\n")
            assert int(answer.split(b" ")[1]) == status
            if status == 100:
                writer.write(body)
        writer.close()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: 100\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1] == b"100"
    with caplog.at_level(logging.DEBUG):
        writer.write(b"half")
        writer.transport.abort()
        async with asyncio.timeout(60):
            while not any(record.getMessage() == "the caller has disconnected" for record in caplog.records):
                await asyncio.sleep(0.005)
    assert [record for record in caplog.records if record.exc_info] == []
