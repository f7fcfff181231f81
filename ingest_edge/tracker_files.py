"""Serves the browser's tracker, compressed when it was built."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import hdrs, web

TRACKER_FILES: Final = ("v1.js", "vitals.js")

_BUILT = Path(__file__).parent / "tracker" / "built"
# A day, and a week more while a newer one is fetched behind the page's back.
_CACHE = "public, max-age=86400, stale-while-revalidate=604800"
_CODINGS: Final = (("br", ".br"), ("gzip", ".gz"))


class _File(NamedTuple):
    etag: str
    content: bytes
    coded: dict[str, bytes]


@lru_cache
def _file(name: str) -> _File:
    content = (_BUILT / name).read_bytes()
    coded = {coding: (_BUILT / f"{name}{suffix}").read_bytes() for coding, suffix in _CODINGS}
    return _File(hashlib.sha256(content).hexdigest()[:20], content, coded)


async def serve_tracker(request: web.BaseRequest) -> web.StreamResponse:
    """`GET /tracker/v1.js` and `/tracker/vitals.js`: 200, or 304 for a browser that has this one."""
    file = _file(request.path.rpartition("/")[2])
    coding = _chosen(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
    # Each coding has a tag of its own (RFC 9110, 8.8.3.3).
    etag = f'"{file.etag}{"-" + coding if coding else ""}"'
    headers = {
        hdrs.ETAG: etag,
        hdrs.CACHE_CONTROL: _CACHE,
        hdrs.VARY: hdrs.ACCEPT_ENCODING,
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Content-Type-Options": "nosniff",
    }
    known = request.headers.get(hdrs.IF_NONE_MATCH, "")
    if known.strip() == "*" or etag in [one.strip().removeprefix("W/") for one in known.split(",")]:
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = "text/javascript; charset=utf-8"
    if coding:
        headers[hdrs.CONTENT_ENCODING] = coding
    return web.Response(body=file.coded[coding] if coding else file.content, headers=headers)


def _chosen(accepted: str) -> str:
    """The best coding that the browser takes; empty for none."""
    taken = set()
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            taken.add(coding.strip())
    return next((coding for coding, _ in _CODINGS if coding in taken), "")
