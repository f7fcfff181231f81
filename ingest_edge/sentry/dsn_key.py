"""Find the ingest key that a Sentry SDK sends: the public key of its DSN."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

_IN_HEADER = re.compile(r"(?:^Sentry\s+|[\s,])sentry_key\s*=\s*([^\s,]+)", re.IGNORECASE)
_MAX_LENGTH = 512
_HEADERS = ("X-Sentry-Auth", "Authorization")


def find_key(request: web.BaseRequest) -> str | None:
    """Return the key in the header `X-Sentry-Auth` (or `Authorization: Sentry …`) or in the query; None if there is
    none."""
    for name in _HEADERS:
        value = request.headers.get(name, "")
        if len(value) <= _MAX_LENGTH and (found := _IN_HEADER.search(value)):
            return found[1]
    return request.query.get("sentry_key") or None


def find_key_in_envelope(header: Mapping[str, Any]) -> str | None:
    """Return the key in the member `dsn` of an envelope's header, which SDKs with a tunnel send; None without one."""
    dsn = header.get("dsn")
    if not isinstance(dsn, str) or len(dsn) > _MAX_LENGTH:
        return None
    try:
        return urlsplit(dsn).username or None
    except ValueError:
        return None
