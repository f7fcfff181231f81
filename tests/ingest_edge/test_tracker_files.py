"""The tracker files as browsers fetch them."""

import asyncio
import gzip
import shutil
from pathlib import Path

import pytest

from tests.ingest_edge.conftest import StartEdge
from tests.support.engines import EngineMissing, skip_if_missing

_BUILT = Path(__file__).parents[2] / "ingest_edge" / "tracker" / "built"
_PATHS = ("/tracker/v1.js", "/api/tracker/v1.js", "/tracker/vitals.js", "/api/tracker/vitals.js")


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise EngineMissing("Node.js is not here. On Debian: apt-get install nodejs")
    return node


@pytest.mark.parametrize("path", _PATHS)
async def test_files_are_cacheable_and_usable_by_every_page(path: str, start_edge: StartEdge) -> None:
    edge = await start_edge()
    answer = await edge.request("GET", path, headers={"Accept-Encoding": ""})
    assert answer.status == 200
    assert answer.body == (_BUILT / path.rpartition("/")[2]).read_bytes()
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert "max-age=86400" in answer.headers["Cache-Control"]
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("BR", "br"),
        ("identity", None),
        ("", None),
    ],
)
async def test_serves_the_best_coding_that_the_browser_accepts(
    accepted: str, coding: str | None, start_edge: StartEdge
) -> None:
    edge = await start_edge()
    answer = await edge.request("GET", "/tracker/v1.js", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == coding
    plain = (_BUILT / "v1.js").read_bytes()
    if coding == "gzip":
        assert gzip.decompress(answer.body) == plain
    elif coding == "br":
        with skip_if_missing():
            node = _node()
        script = "process.stdout.write(require('zlib').brotliDecompressSync(require('fs').readFileSync(0)))"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(node, "-e", script, stdin=pipe, stdout=pipe)
        undone, _ = await process.communicate(answer.body)
        assert undone == plain
    else:
        assert answer.body == plain


async def test_browser_with_the_current_file_gets_304(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tags = set()
    for accepted in ("br", "gzip", ""):
        headers = {"Accept-Encoding": accepted}
        tag = (await edge.request("GET", "/tracker/v1.js", headers=headers)).headers["ETag"]
        tags.add(tag)
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await edge.request("GET", "/tracker/v1.js", headers={**headers, "If-None-Match": known})
            assert (again.status, again.body) == (304, b"")
            assert again.headers["ETag"] == tag
        other = await edge.request("GET", "/tracker/v1.js", headers={**headers, "If-None-Match": '"other"'})
        assert other.status == 200
    assert len(tags) == 3


async def test_only_these_files_are_served(start_edge: StartEdge) -> None:
    edge = await start_edge()
    for path in ("/tracker/", "/tracker/v2.js", "/tracker/../app.py", "/tracker/package.json"):
        assert (await edge.request("GET", path)).status == 404
    assert (await edge.request("POST", "/tracker/v1.js")).status == 405
