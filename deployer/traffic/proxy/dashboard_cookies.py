"""The cookies of the dashboard, which no application gets or sets. Pure.

Browsers send cookies to every port of a host, so applications on the dashboard's host name would receive the
dashboard's cookies.
"""

import re

# The cookies of any installation: another one on this host has another last part of the name, and earlier versions had
# none. Browsers compare prefixes without regard to case (RFC 6265bis, section 4.1.3).
_DASHBOARD_COOKIE = re.compile(
    rb"(?:__(?:host|secure|http|host-http)-)?pharos_(?:session|oidc)(?![a-z0-9-])", re.IGNORECASE
)
# Some parsers of cookies ignore these bytes around a name: control characters, spaces, and what is a space in Latin-1
# or Unicode.
_IGNORED = re.compile(rb"[^!-~]+")
# Browsers send a cookie without a name as its value alone: `=name=value` comes back as `name=value` (RFC 6265bis,
# section 5.8.3). Some parsers ignore quotes, and the `$` of RFC 2965.
_IGNORED_AT_START = b"=\"'$"


def drop_dashboard_cookies(value: bytes) -> bytes:
    """Return the value of a `Cookie` header without the cookies of the dashboard. Empty if no cookie is left."""
    if b"pharos_" not in value:
        return value
    pairs = (pair.strip() for pair in value.split(b";"))
    return b"; ".join(pair for pair in pairs if pair and not _is_of_dashboard(pair))


def sets_dashboard_cookie(value: bytes) -> bool:
    """Return True if the value of a `Set-Cookie` header would set or remove a cookie of the dashboard, or one that a
    tolerant parser takes for it."""
    return _is_of_dashboard(value.partition(b";")[0])


def _is_of_dashboard(pair: bytes) -> bool:
    readable = _IGNORED.sub(b"", pair).lstrip(_IGNORED_AT_START)
    return _DASHBOARD_COOKIE.match(readable) is not None
