"""The cookies of the dashboard, which no application gets or sets. Pure.

Browsers send cookies to every port of a host, so applications on the dashboard's host name would receive the
dashboard's cookies.
"""

_NAMES = (b"pharos_session", b"pharos_oidc")
_WITH_SUFFIX = tuple(name + b"_" for name in _NAMES)
_SECURE_PREFIX = b"__Host-"


def drop_dashboard_cookies(value: bytes) -> bytes:
    """Return the value of a `Cookie` header without the cookies of the dashboard. Empty if no cookie is left."""
    if b"pharos_" not in value:
        return value
    pairs = (pair.strip() for pair in value.split(b";"))
    return b"; ".join(pair for pair in pairs if pair and not _is_of_dashboard(pair))


def sets_dashboard_cookie(value: bytes) -> bool:
    """Return True if the value of a `Set-Cookie` header would set or remove a cookie of the dashboard."""
    return _is_of_dashboard(value.partition(b";")[0])


def _is_of_dashboard(pair: bytes) -> bool:
    """Return True for the cookies of any installation: another one on this host has another last part of the name, and
    earlier versions had none."""
    name = pair.partition(b"=")[0].strip().removeprefix(_SECURE_PREFIX)
    return name in _NAMES or name.startswith(_WITH_SUFFIX)
