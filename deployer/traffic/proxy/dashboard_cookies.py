"""The cookies of the dashboard, which no application gets or sets. Pure.

Browsers send cookies to every port of a host, so applications on the dashboard's host name would receive the
dashboard's cookies.
"""

_NAMES = (b"pharos_session", b"pharos_oidc")
DASHBOARD_COOKIES = frozenset((*_NAMES, *(b"__Host-" + name for name in _NAMES)))


def drop_dashboard_cookies(value: bytes) -> bytes:
    """Return the value of a `Cookie` header without the cookies of the dashboard. Empty if no cookie is left."""
    if b"pharos_" not in value:
        return value
    pairs = (pair.strip() for pair in value.split(b";"))
    return b"; ".join(pair for pair in pairs if pair and _name_of(pair) not in DASHBOARD_COOKIES)


def sets_dashboard_cookie(value: bytes) -> bool:
    """Return True if the value of a `Set-Cookie` header would set or remove a cookie of the dashboard."""
    return _name_of(value.partition(b";")[0]) in DASHBOARD_COOKIES


def _name_of(pair: bytes) -> bytes:
    return pair.partition(b"=")[0].strip()
