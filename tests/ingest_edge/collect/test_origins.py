"""Origins of pages that may send to a site, in preflights and requests over HTTP."""

import uuid

import pytest

from pipeline_contracts.origins import normalize_origin
from tests.ingest_edge.conftest import StartEdge

_REGISTERED = (
    "https://shop.example",
    "http://localhost:8080",
    "https://*.blog.example",
    "https://www.news.example",
    "https://[::1]:8443",
)
_ALLOWED = (
    "https://shop.example",
    "https://www.shop.example",
    "https://SHOP.example",
    "https://Www.Shop.Example",
    "https://shop.example:443",
    "HTTPS://shop.example",
    "http://localhost:8080",
    "https://a.blog.example",
    "https://www.blog.example",
    "https://a.b.blog.example",
    "https://news.example",
    "https://[::1]:8443",
)
_REFUSED = (
    None,
    "",
    "null",
    "http://shop.example",
    "https://shop.example:8443",
    "https://shop.example.evil.example",
    "https://evilshop.example",
    "https://api.shop.example",
    "https://shop.example/",
    "https://shop.example/path",
    "https://user@shop.example",
    "http://localhost",
    "http://localhost:8081",
    "https://blog.example",
    "https://evilblog.example",
    "https://a.blog.example:444",
    "http://a.blog.example",
    "ftp://shop.example",
    "shop.example",
    "https://",
    "https://shop.example:port",
    "file://",
    "https://shop.example https://evil.example",
)


@pytest.mark.parametrize("origin", [*_ALLOWED, *_REFUSED])
async def test_only_registered_origins_are_accepted(origin: str | None, start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site(*_REGISTERED)
    event = {"id": str(uuid.uuid4()), "type": "pageview", "path": "/"}
    posted = await edge.collect(tracker_id, [event], origin)
    headers = {} if origin is None else {"Origin": origin}
    asked = await edge.request("OPTIONS", f"/api/v1/collect/{tracker_id}", headers=headers)
    if origin in _ALLOWED:
        assert (posted.status, asked.status) == (202, 204)
        for answer in (posted, asked):
            assert answer.headers["Access-Control-Allow-Origin"] == origin
            assert answer.headers["Vary"] == "Origin"
        assert asked.headers["Access-Control-Allow-Methods"] == "POST"
        assert asked.headers["Access-Control-Allow-Headers"] == "Content-Type"
        assert asked.headers["Access-Control-Max-Age"] == "86400"
    else:
        assert (posted.status, asked.status) == (403, 403)
        assert posted.document()["type"] == "/problems/origin-not-registered"
        assert await edge.collected() == []


@pytest.mark.parametrize("public_id", ["sit_01jz0000000000000000000000", "1", "", "sit_" + "x" * 500, "a/b"])
async def test_an_unknown_site_is_not_found(public_id: str, start_edge: StartEdge) -> None:
    edge = await start_edge()
    for method in ("POST", "OPTIONS"):
        path = f"/api/v1/collect/{public_id}"
        answer = await edge.request(method, path, headers={"Origin": "https://shop.example"})
        assert answer.status == 404


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("shop.example", "https://shop.example"),
        ("https://Shop.Example/", "https://shop.example"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://shop.example:443", "https://shop.example"),
        ("*.shop.example", "https://*.shop.example"),
        ("https://blåbær.example", "https://xn--blbr-roah.example"),
    ],
)
def test_domains_are_normalized(given: str, kept: str) -> None:
    assert normalize_origin(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "https://",
        "https://shop.example/shop",
        "*",
        "https://*",
        "*.com.",
        "a b",
        "ftp://x.example",
    ],
)
def test_invalid_domains_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match="is no host name|is not an origin"):
        normalize_origin(given)
