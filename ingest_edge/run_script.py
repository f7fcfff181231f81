"""Serve `pharos_run.py`, the single-file `pharos run`, to the machines that run jobs."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import hdrs, web

RUN_SCRIPT: Final = "/pharos-run.py"

# In an installed package, next to this module; in the repository, where it is developed.
_PLACES: Final = (
    Path(__file__).with_name("pharos_run.py"),
    Path(__file__).parent.parent / "clients" / "run" / "pharos_run.py",
)
# A script that downloads the file at each start gets a new version within the hour.
_CACHE: Final = "public, max-age=3600"


class _Script(NamedTuple):
    content: bytes
    etag: str


@lru_cache
def _read_script() -> _Script:
    place = next(place for place in _PLACES if place.exists())
    content = place.read_bytes()
    return _Script(content, f'"{hashlib.sha256(content).hexdigest()[:20]}"')


async def serve_run_script(request: web.BaseRequest) -> web.StreamResponse:
    """Respond to `GET /pharos-run.py`: 200, or 304 for a client that has the current file."""
    script = _read_script()
    headers = {hdrs.ETAG: script.etag, hdrs.CACHE_CONTROL: _CACHE, "X-Content-Type-Options": "nosniff"}
    known_tags = request.headers.get(hdrs.IF_NONE_MATCH, "")
    if known_tags.strip() == "*" or script.etag in [
        tag.strip().removeprefix("W/") for tag in known_tags.split(",")
    ]:
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = "text/x-python; charset=utf-8"
    return web.Response(body=script.content, headers=headers)
