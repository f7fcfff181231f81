"""The OpenAPI document over HTTP, and the way to the pages of the reference."""

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


async def test_etag_avoids_resending_a_file(http: aiohttp.ClientSession) -> None:
    tags = set()
    for accepted in ("gzip, br", "identity"):
        headers = {"Accept-Encoding": accepted}
        async with http.get("openapi.json", headers=headers) as answer:
            assert answer.status == 200
            tag = answer.headers["ETag"]
            assert tag.startswith('"')
            assert answer.headers["Vary"] == "Accept-Encoding"
            assert answer.headers["Cache-Control"] == "no-cache"
        tags.add(tag)
        for known, status in ((tag, 304), (f'"other", W/{tag}', 304), ("*", 304), ('"other"', 200)):
            async with http.get("openapi.json", headers={**headers, "If-None-Match": known}) as answer:
                assert answer.status == status
                assert answer.headers["ETag"] == tag
                assert bool(await answer.read()) == (status == 200)
    assert len(tags) == 2


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip", "gzip"), ("br, GZIP;q=0.5", "gzip"), ("*", "gzip"), ("br", None), ("gzip;q=0", None)],
)
async def test_files_are_compressed_for_clients_that_accept_gzip(
    accepted: str, coding: str | None, http: aiohttp.ClientSession
) -> None:
    async with http.get("openapi.json", headers={"Accept-Encoding": "identity"}) as answer:
        plain = await answer.read()
    async with http.get("openapi.json", headers={"Accept-Encoding": accepted}) as answer:
        assert answer.headers.get("Content-Encoding") == coding
        body = await answer.read()
        assert (gzip.decompress(body) if coding else body) == plain


async def test_document_is_no_page(http: aiohttp.ClientSession) -> None:
    async with http.get("openapi.json") as answer:
        policy = dict(
            one.strip().split(" ", 1) for one in answer.headers["Content-Security-Policy"].split(";")
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert set(policy.values()) == {"'none'"}
    assert {"default-src", "frame-ancestors"} <= policy.keys()
    async with http.post("openapi.json") as answer:
        assert answer.status == 405


async def test_the_former_page_leads_to_the_list_of_operations(http: aiohttp.ClientSession) -> None:
    async with http.get("docs") as answer:
        assert [(one.status, one.headers["Location"]) for one in answer.history] == [
            (307, "/docs/reference/http")
        ]
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert b"POST /api/v1/projects" in await answer.read()
    for name in ("index.html", "swagger-ui-bundle.js", "..%2Fdocument.yaml"):
        async with http.get(f"docs/{name}") as answer:
            assert answer.status == 404
            assert answer.content_type == "application/problem+json"
