"""The demo shop as a site."""

import socket
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from urllib.parse import urlsplit

import aiohttp
import pytest

from demo.site import running_demo_site
from tests.support.engines import free_port

TRACKER = 'http://127.0.0.1:8000/tracker/v1.js?a=1&b="2"<'
TRACKER_ID = "pharos_site_a&b"
MISSING = "/sale"


class Page(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def attributes(self, tag: str, name: str) -> list[str]:
        """Return the values of an attribute of all tags with this name."""
        return [
            value for found, given in self.tags if found == tag and (value := given.get(name)) is not None
        ]


@pytest.fixture
async def origin() -> AsyncIterator[str]:
    async with running_demo_site(TRACKER, TRACKER_ID, 0) as origin:
        yield origin


@pytest.fixture
async def client(origin: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(origin) as session:
        yield session


async def all_pages(client: aiohttp.ClientSession) -> dict[str, tuple[int, Page, str]]:
    """Return status, tags and text of all pages that are linked from the first page, without files."""
    found: dict[str, tuple[int, Page, str]] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        async with client.get(path) as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            if path.startswith("/files/"):
                assert answer.status == 200
                continue
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            text = await answer.text()
            found[path] = (answer.status, Page(text), text)
        waiting += [link for link in found[path][1].attributes("a", "href") if link.startswith("/")]
    return found


async def test_each_page_has_the_tag_and_no_external_resources(client: aiohttp.ClientSession) -> None:
    pages = await all_pages(client)
    assert len(pages) > 20
    for _, page, text in pages.values():
        tags = [given for tag, given in page.tags if tag == "script" and "src" in given]
        assert tags == [{"defer": None, "src": TRACKER, "data-site": TRACKER_ID}]
        assert page.attributes("link", "href") == ["data:,"]
        assert not page.attributes("img", "src")
        assert "$" not in text and "url(" not in text and "@import" not in text


async def test_links_between_pages_work(client: aiohttp.ClientSession) -> None:
    pages = await all_pages(client)
    assert {path for path, (status, _, _) in pages.items() if status != 200} == {MISSING}
    assert {"/", "/products", "/cart", "/checkout", "/about"} <= set(pages)
    # No link leads to this page, only the button.
    async with client.get("/thanks") as answer:
        assert answer.status == 200
    outbound = [
        link for _, page, _ in pages.values() for link in page.attributes("a", "href") if "://" in link
    ]
    assert outbound and {urlsplit(link).scheme for link in outbound} == {"https"}


async def test_buttons_send_tracker_events(client: aiohttp.ClientSession) -> None:
    pages = await all_pages(client)
    assert "pharos('event','signup')" in pages["/cart"][2]
    buy = "pharos('event','purchase',{revenue:29.9,currency:'EUR'})"
    assert buy in pages["/checkout"][2]
    assert buy in pages["/products/skerry-candle-holder"][2]
    (button,) = pages["/products/skerry-candle-holder"][1].attributes("button", "onclick")
    assert "location.href='/thanks'" in button


async def test_missing_page_is_404(client: aiohttp.ClientSession) -> None:
    for path in (MISSING, "/no/such/page.html", "/%3Cscript%3E"):
        async with client.get(path) as answer:
            assert answer.status == 404
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            text = await answer.text()
        assert ("meta", {"name": "pharos", "content": "404"}) in Page(text).tags
        assert "<script>" + "</" not in text
    async with client.get("/") as answer:
        assert 'content="404"' not in await answer.text()


async def test_care_guide_can_be_downloaded(client: aiohttp.ClientSession) -> None:
    pages = await all_pages(client)
    page = pages["/products/storm-lantern"][1]
    (link,) = [given["href"] for tag, given in page.tags if tag == "a" and "download" in given]
    assert link is not None and link.endswith(".pdf")
    async with client.get(link) as answer:
        body = await answer.read()
        assert answer.content_type == "application/pdf"
    assert body.startswith(b"%PDF-") and body.rstrip().endswith(b"%%EOF")


async def test_taken_port_is_replaced_by_a_free_one() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        async with running_demo_site(TRACKER, TRACKER_ID, taken) as origin:
            assert urlsplit(origin).port not in (None, taken)
            async with aiohttp.ClientSession(origin) as session, session.get("/") as answer:
                assert answer.status == 200
    # Use a port outside of the system's range, because a connection may get a port that the system has returned before.
    port = free_port()
    for _ in range(2):
        async with running_demo_site(TRACKER, TRACKER_ID, port) as origin:
            assert origin == f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession(origin) as session, session.get("/") as answer:
                assert answer.status == 200
