"""`/docs` of the control plane: without authentication, with ETags, and only the pages."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
from yarl import URL

from control_api.app import build_control_app
from tests.support.serve_control import VARIABLE_KEYS, serving_control


@dataclass(frozen=True, slots=True)
class Control:
    """The control plane without a database."""

    url: str
    http: aiohttp.ClientSession


@pytest.fixture
async def control() -> AsyncIterator[Control]:
    app = build_control_app(_no_sessions, None, b"a receipt key of the test suite, 32+", VARIABLE_KEYS)
    async with serving_control(app) as url, aiohttp.ClientSession() as http:
        yield Control(url, http)


def _no_sessions() -> None:
    raise AssertionError("the documentation queries the database")


@pytest.mark.parametrize(
    ("path", "content_type", "part"),
    [
        ("/docs", "text/html", '<h1 id="documentation">'),
        ("/docs/", "text/html", '<h1 id="documentation">'),
        ("/docs/quick-start", "text/html", "Quick start"),
        ("/docs/concepts/visits/", "text/html", "bounce"),
        ("/docs/architecture", "text/html", "ingest_edge"),
        ("/docs/decisions", "text/html", "Decisions"),
        ("/docs/decisions/0029-tables-of-the-exporter", "text/html", "otel_traces"),
        ("/docs/reference/http/webhooks", "text/html", "/api/git-app/webhook"),
        ("/docs/search.json", "application/json", "quick-start"),
        ("/docs/assets/docs.css", "text/css", "--accent"),
        ("/docs/assets/docs.js", "text/javascript", "search.json"),
        ("/docs/images/curves-edge.svg", "image/svg+xml", "<svg"),
    ],
)
async def test_a_file_is_served_with_an_etag(
    control: Control, path: str, content_type: str, part: str
) -> None:
    async with control.http.get(control.url + path) as response:
        assert response.status == 200
        assert response.content_type == content_type
        assert part in await response.text()
        headers = response.headers
    assert headers["Cache-Control"] == "no-cache"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "script-src 'self'; style-src 'self'" in headers["Content-Security-Policy"]
    async with control.http.get(control.url + path, headers={"If-None-Match": headers["ETag"]}) as response:
        assert response.status == 304


@pytest.mark.parametrize(
    "path",
    [
        "/docs/nothing",
        "/docs/%2e%2e/README",
        "/docs/..%2f..%2fREADME",
        "/docs/..%2f..%2fpyproject.toml",
        "/docs/%2fetc%2fpasswd",
        "/docs/assets/..%2fpage.html",
        "/docs/assets/page.html",
        "/docs/images/..%2findex.md",
        "/docs/images/nothing.png",
        "/docs/index.md",
        "/docs/a%00b",
    ],
)
async def test_nothing_else_is_served(control: Control, path: str) -> None:
    async with control.http.get(URL(control.url + path, encoded=True)) as response:
        assert response.status == 404
        text = await response.text()
    assert "root:" not in text and "[project]" not in text


async def test_pages_that_do_not_exist_are_not_kept(control: Control) -> None:
    from control_api.routes.documentation import _pages

    for number in range(20):
        async with control.http.get(f"{control.url}/docs/nothing-{number}") as response:
            assert response.status == 404
    assert not [address for address in _pages if address.startswith("nothing")]
