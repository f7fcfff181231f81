"""The OpenAPI document and the files of the page over HTTP."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from control_api.app import build_control_app
from control_api.reference.load_document import load_document
from tests.support.serve_control import serving_control

_NOTHING = cast(Any, None)
_FILES = ("/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    # No database and no column store, because these routes use neither.
    app = build_control_app(_NOTHING, _NOTHING, b"receipts", _NOTHING)
    async with (
        serving_control(app) as url,
        # The client neither decompresses bodies nor adds headers.
        aiohttp.ClientSession(
            f"{url}/api/", auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as session,
    ):
        yield session


async def test_document_is_served_without_authentication(http: aiohttp.ClientSession) -> None:
    async with http.get("openapi.json") as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert answer.headers["X-Request-Id"]
        assert json.loads(await answer.read()) == load_document()


@pytest.mark.parametrize("path", ("/openapi.json", *_FILES))
async def test_etag_avoids_resending_a_file(path: str, http: aiohttp.ClientSession) -> None:
    tags = set()
    for accepted in ("gzip, br", "identity"):
        headers = {"Accept-Encoding": accepted}
        async with http.get(path[1:], headers=headers) as answer:
            assert answer.status == 200
            tag = answer.headers["ETag"]
            assert tag.startswith('"')
            assert answer.headers["Vary"] == "Accept-Encoding"
            kept = "public, max-age=86400" if "/docs/" in path else "no-cache"
            assert answer.headers["Cache-Control"] == kept
        tags.add(tag)
        for known, status in ((tag, 304), (f'"other", W/{tag}', 304), ("*", 304), ('"other"', 200)):
            async with http.get(path[1:], headers={**headers, "If-None-Match": known}) as answer:
                assert answer.status == status
                assert answer.headers["ETag"] == tag
                assert bool(await answer.read()) == (status == 200)
    assert len(tags) == 2


@pytest.mark.parametrize("path", ("/openapi.json", *_FILES))
@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip", "gzip"), ("br, GZIP;q=0.5", "gzip"), ("*", "gzip"), ("br", None), ("gzip;q=0", None)],
)
async def test_files_are_compressed_for_clients_that_accept_gzip(
    path: str, accepted: str, coding: str | None, http: aiohttp.ClientSession
) -> None:
    async with http.get(path[1:], headers={"Accept-Encoding": "identity"}) as answer:
        plain = await answer.read()
    async with http.get(path[1:], headers={"Accept-Encoding": accepted}) as answer:
        assert answer.headers.get("Content-Encoding") == coding
        body = await answer.read()
        assert (gzip.decompress(body) if coding else body) == plain


@pytest.mark.parametrize("path", _FILES)
async def test_page_policy_allows_only_its_own_origin(path: str, http: aiohttp.ClientSession) -> None:
    async with http.get(path[1:]) as answer:
        policy = dict(
            one.strip().split(" ", 1) for one in answer.headers["Content-Security-Policy"].split(";")
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert policy.pop("img-src") == "'self' data:"
    assert set(policy.values()) == {"'none'", "'self'"}
    assert policy["default-src"] == "'none'"


async def test_other_files_of_the_folder_are_not_served(http: aiohttp.ClientSession) -> None:
    for name in ("index.html", "LICENSE", "package.json", "..%2Fpackage.json", "swagger-ui-bundle.js.gz"):
        async with http.get(f"docs/{name}") as answer:
            assert answer.status == 404
            assert answer.content_type == "application/problem+json"
    async with http.post("openapi.json") as answer:
        assert answer.status == 405
