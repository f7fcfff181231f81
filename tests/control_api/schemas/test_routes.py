"""The schemas over HTTP, without authentication, with caching."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from control_api.app import build_control_app
from control_api.schemas import load_schema as loading
from control_api.schemas.load_schema import NAMES
from tests.support.serve_control import serving_control

_NOTHING = cast(Any, None)
_FOLDER = Path(loading.__file__).parent

each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    # No database and no column store, because these routes use neither.
    app = build_control_app(_NOTHING, _NOTHING, b"receipts", _NOTHING)
    async with (
        serving_control(app) as url,
        aiohttp.ClientSession(
            f"{url}/api/schemas/", auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as session,
    ):
        yield session


@each
async def test_served_schema_is_the_file(name: str, http: aiohttp.ClientSession) -> None:
    plain = (_FOLDER / name).read_bytes()
    async with http.get(name) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/schema+json")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert await answer.read() == plain
    async with http.get(name, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(await answer.read()) == plain


@each
async def test_etag_avoids_resending_a_schema(name: str, http: aiohttp.ClientSession) -> None:
    async with http.get(name) as answer:
        tag = answer.headers["ETag"]
        assert answer.headers["Cache-Control"] == "no-cache"
    async with http.get(name, headers={"If-None-Match": tag}) as answer:
        assert (answer.status, answer.headers["ETag"], await answer.read()) == (304, tag, b"")
    async with http.get(name, headers={"If-None-Match": '"other"'}) as answer:
        assert answer.status == 200


async def test_other_files_of_the_folder_are_not_served(http: aiohttp.ClientSession) -> None:
    for name in ("", "workflow-2.json", "load_schema.py", "..%2Fapp.py"):
        async with http.get(name) as answer:
            assert (answer.status, answer.content_type) == (404, "application/problem+json")


@each
async def test_other_methods_are_refused(name: str, http: aiohttp.ClientSession) -> None:
    for method in ("POST", "PUT", "DELETE"):
        async with http.request(method, name) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    async with http.head(name) as answer, http.head("../openapi.json") as neighbour:
        assert answer.status == neighbour.status
