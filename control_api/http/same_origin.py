"""Refuses requests with a session cookie that pages of other origins have sent.

`SameSite` alone is not enough: deployed applications may have subdomains of the same domain, which are the same site.
"""

from starlette.requests import HTTPConnection

from control_api.http.public_address import public_address, request_address
from pipeline_contracts.errors import CrossSiteRequest

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OTHER_SITES = ("cross-site", "same-site")


def check_same_origin(connection: HTTPConnection) -> None:
    """Raise `CrossSiteRequest` unless a page of this origin has sent the request, or the person has typed its address.

    Every browser since 2023 sends `Sec-Fetch-Site`, and every other browser sends `Origin` with requests that may
    change something.
    """
    method = connection.scope["method"]
    site = connection.headers.get("sec-fetch-site", "").strip().lower()
    if method in _SAFE_METHODS:
        if site in _OTHER_SITES:
            raise CrossSiteRequest(
                f"A page of another origin has sent this {method}, so the session cookie is not used."
            )
        return
    if site:
        if site != "same-origin":
            raise CrossSiteRequest(
                f"Sec-Fetch-Site is {site[:20]}: only a page of this origin may send a {method} with a session cookie."
            )
        return
    check_origin(connection, is_required=True)


def check_origin(connection: HTTPConnection, *, is_required: bool = False) -> None:
    """Raise `CrossSiteRequest` if `Origin` names another origin than the request's own; or if `Origin` is required and
    missing."""
    origin = connection.headers.get("origin")
    if origin is None:
        if is_required:
            raise CrossSiteRequest(
                "A request with a session cookie that may change something needs Sec-Fetch-Site or Origin, which every "
                "browser sends. Programs use API tokens."
            )
        return
    if _without_default_port(origin) not in _own_origins(connection):
        raise CrossSiteRequest(f"Origin is {origin[:100]}, which differs from the origin of this request.")


def refuse_other_sites(connection: HTTPConnection) -> None:
    """Raise `CrossSiteRequest` for a sign-in that a page of another origin has sent: it would sign the person in as
    somebody else. Programs send neither header."""
    site = connection.headers.get("sec-fetch-site", "").strip().lower()
    if site and site != "same-origin":
        raise CrossSiteRequest(f"Sec-Fetch-Site is {site[:20]}: only a page of this origin signs people in.")
    check_origin(connection)


def _own_origins(connection: HTTPConnection) -> set[str]:
    host = connection.headers.get("host", "")
    own = {request_address(connection), public_address(connection)}
    # An untrusted proxy may terminate TLS: an HTTPS page of this host is just as trustworthy.
    own.add(f"https://{host}")
    return {_without_default_port(each) for each in own if "://" in each and not each.endswith("://")}


def _without_default_port(origin: str) -> str:
    scheme, _, rest = origin.strip().lower().partition("://")
    host = rest.partition("/")[0]
    default = {"http": ":80", "https": ":443"}.get(scheme, "")
    return f"{scheme}://{host.removesuffix(default) if default else host}"
