"""The document and the assets of the dashboard, as the control plane serves them."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import aiohttp
import pytest

from control_api.app import build_control_app
from tests.support.serve_control import VARIABLE_KEYS, serving_control
from web_dashboard.page_paths import PAGE_SEGMENTS

_PAGES = Path(__file__).parents[3] / "web_dashboard" / "source" / "src" / "pages"


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
    raise AssertionError("the dashboard queries the database")


class _Document(HTMLParser):
    """Collects the references of a document, and what a strict policy refuses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name: value or "" for name, value in attrs}
        self.links += [names[name] for name in ("href", "src", "action") if name in names]
        self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in names) else []
        self.inline += [name for name in names if name == "style" or name.startswith("on")]


async def test_each_page_is_the_document_and_its_files_exist(control: Control) -> None:
    paths = [
        "/",
        *(f"/{segment}" for segment in PAGE_SEGMENTS),
        "/deploy/prj_1/env_1",
        "/monitoring/env_1/traces",
    ]
    texts = set()
    for path in paths:
        async with control.http.get(control.url + path) as answer:
            texts.add(await answer.text())
            assert (answer.status, answer.content_type) == (200, "text/html"), path
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
            assert answer.headers["Cache-Control"] == "no-cache"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
    (text,) = texts
    document = _Document(text)
    assert document.inline == []
    assert len(document.links) >= 3
    for link in document.links:
        assert re.fullmatch(r"/(assets/[\w.-]+|icon\.svg)", link), link
        async with control.http.get(control.url + link) as answer:
            assert answer.status == 200, link
            if link.startswith("/assets/"):
                assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


async def test_other_addresses_and_methods_are_refused(control: Control) -> None:
    for path in ("/nothing", "/assets/nothing.js", "/assets/..%2findex.html", "/deployment"):
        async with control.http.get(control.url + path) as answer:
            assert (answer.status, answer.content_type) == (404, "application/problem+json"), path
    async with control.http.post(control.url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    async with control.http.head(control.url) as answer:
        assert (answer.status, await answer.read()) == (200, b"")
    async with control.http.get(control.url) as answer:
        etag = answer.headers["ETag"]
    async with control.http.get(control.url, headers={"If-None-Match": etag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")


def test_server_and_script_know_the_same_pages() -> None:
    routes = "".join(path.read_text() for path in _PAGES.glob("*/routes.ts"))
    assert set(re.findall(r"pattern: '/([^/']+)", routes)) == set(PAGE_SEGMENTS)
