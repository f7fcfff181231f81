"""Lists headers in which a gateway reports the origin of a request, and which a caller could forge. Does no I/O."""

CLAIM_NAMES = (
    "CF-Connecting-IP",
    "CF-Connecting-IPv6",
    "CF-Pseudo-IPv4",
    "CF-Visitor",
    "CF-IPCountry",
    "Client-IP",
    "CloudFront-Viewer-Address",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "Forwarded",
    "Forwarded-For",
    "Front-End-Https",
    # CGI turns this header into the variable HTTP_PROXY, which HTTP clients obey.
    "Proxy",
    "Proxy-Client-IP",
    "True-Client-IP",
    "WL-Proxy-Client-IP",
    "X-Appengine-User-IP",
    "X-ARR-SSL",
    "X-Azure-ClientIP",
    "X-Azure-SocketIP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "X-Envoy-External-Address",
    "X-Forwarded",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-ProxyUser-IP",
    "X-Real-IP",
    "X-Remote-Addr",
    "X-Remote-IP",
    "X-Rewrite-URL",
    "X-Scheme",
    "X-Script-Name",
    "X-SSL",
    "X-URL-Scheme",
)
CLAIM_PREFIXES = ("X-Forwarded-", "X-Original-")

_LOWER_NAMES = frozenset(name.lower().encode() for name in CLAIM_NAMES)
_LOWER_PREFIXES = tuple(prefix.lower().encode() for prefix in CLAIM_PREFIXES)


def claims_origin(name: bytes) -> bool:
    """Return True if a header of this name, in lower case, reports the origin or the original target of a request."""
    # CGI and WSGI map X_Forwarded_For and X-Forwarded-For to the same variable.
    plain = name.replace(b"_", b"-")
    return plain in _LOWER_NAMES or plain.startswith(_LOWER_PREFIXES)


def is_disguised_claim(name: bytes) -> bool:
    """Return True for such a header in a spelling with underscores, which gateways do not filter."""
    return b"_" in name and claims_origin(name)
