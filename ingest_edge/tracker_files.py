"""Serve the files of the browser tracker, which were compressed at build time."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import hdrs, web

TRACKER_FILES: Final = ("v1.js", "vitals.js")

_BUILT = Path(__file__).parent / "tracker" / "built"
# Fresh for a day, and usable for a week more while the browser fetches a newer file.
_CACHE = "public, max-age=86400, stale-while-revalidate=604800"
_CODINGS: Final = (("br", ".br"), ("gzip", ".gz"))


class _File(NamedTuple):
    etag: str
    content: bytes
    compressed: dict[str, bytes]


@lru_cache
def _read_file(name: str) -> _File:
    content = (_BUILT / name).read_bytes()
    compressed = {coding: (_BUILT / f"{name}{suffix}").read_bytes() for coding, suffix in _CODINGS}
    return _File(hashlib.sha256(content).hexdigest()[:20], content, compressed)


async def serve_tracker(request: web.BaseRequest) -> web.StreamResponse:
    """Respond to `GET /tracker/v1.js` and `/tracker/vitals.js`: 200, or 304 for a browser with the current file."""
    file = _read_file(request.path.rpartition("/")[2])
    coding = _choose_coding(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
    # Each coding has its own tag (RFC 9110, 8.8.3.3).
    etag = f'"{file.etag}{"-" + coding if coding else ""}"'
    headers = {
        hdrs.ETAG: etag,
        hdrs.CACHE_CONTROL: _CACHE,
        hdrs.VARY: hdrs.ACCEPT_ENCODING,
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Content-Type-Options": "nosniff",
    }
    known_tags = request.headers.get(hdrs.IF_NONE_MATCH, "")
    if known_tags.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in known_tags.split(",")]:
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = "text/javascript; charset=utf-8"
    if coding:
        headers[hdrs.CONTENT_ENCODING] = coding
    return web.Response(body=file.compressed[coding] if coding else file.content, headers=headers)


def _choose_coding(accept_encoding: str) -> str:
    """Return the best coding that the browser accepts; empty for none."""
    accepted = set()
    for part in accept_encoding.lower().split(","):
        coding, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            accepted.add(coding.strip())
    return next((coding for coding, _ in _CODINGS if coding in accepted), "")
