"""`GET /`: a page of one file whose links work."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from control_api import app as control_app
from control_api.app import build_control_app
from control_api.health import add_health
from ingest_edge.app import Edge, build_edge, edge_runner
from ingest_edge.health import Readiness
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.settings import Settings
from tests.support.serve_control import VARIABLE_KEYS, serving_control
from wiring.embedded.asgi_bridge import asgi_handler


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
    raise AssertionError("the page asks the database")


class _Page(HTMLParser):
    """Collects tags and their references."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


async def test_page_loads_nothing_from_other_origins(control: Control) -> None:
    async with control.http.get(control.url) as answer:
        text, headers = await answer.text(), answer.headers
    assert (answer.status, answer.content_type) == (200, "text/html")
    assert headers["X-Request-Id"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = headers["Content-Security-Policy"]
    assert re.fullmatch(
        "default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        policy,
    )
    page = _Page(text)
    assert not page.tags & {"script", "img", "iframe", "form"}
    assert all(re.fullmatch(r"data:,|(api|health)/[a-z.]+", link) for link in page.links), page.links
    assert not re.search(r"url\(|@import|style=", text)
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text


async def _check_links(edge: Edge) -> None:
    """Follow each link of the page that this edge serves."""
    runner = edge_runner(edge)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession() as http:
            async with http.get(url) as answer:
                links = [link for link in _Page(await answer.text()).links if not link.startswith("data:")]
            assert links == ["api/docs", "api/openapi.json", "health/ready", "health/live"]
            for link in links:
                async with http.get(f"{url}/{link}") as answer:
                    assert answer.status == 200, link
    finally:
        await runner.cleanup()


async def test_links_work_in_pharos_up() -> None:
    """In `pharos up`, the edge answers health requests and forwards other paths to the control plane."""
    app = build_control_app(_no_sessions, None, b"a receipt key of the test suite, 32+", VARIABLE_KEYS)
    intake = cast(Any, SimpleNamespace(limits=Limits.from_settings(Settings()), metrics=EdgeMetrics()))
    await _check_links(
        build_edge(intake, Readiness({}), receipt_key=b"receipts", otherwise=asgi_handler(app))
    )
    await app.state.log_streams.close()


async def test_links_work_in_a_separate_process() -> None:
    """A control plane in a process of its own answers health requests itself."""
    # Not the application that all tests share: this test adds two routes.
    app = control_app.build_control_app(
        cast(Any, _no_sessions), cast(Any, None), b"a receipt key of the test suite, 32+", VARIABLE_KEYS
    )
    add_health(app, {})
    await _check_links(Edge(EdgeMetrics(), asgi_handler(app)))
    await app.state.log_streams.close()


async def test_page_is_cached_and_other_methods_are_refused(
    control: Control,
) -> None:
    async with control.http.get(control.url) as answer:
        etag = answer.headers["ETag"]
    async with control.http.get(control.url, headers={"If-None-Match": etag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    async with control.http.head(control.url) as answer:
        assert (answer.status, await answer.read()) == (200, b"")
    async with control.http.post(control.url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert answer.content_type == "application/problem+json"
