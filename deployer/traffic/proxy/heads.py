"""Reads the host of a request, and builds the heads of forwarded requests and responses. Does no I/O.

A forwarded head has only one meaning: it has one target, one `Host`, one header that delimits the body, and each header
on a line of its own (RFC 9112, sections 3.2 and 6.3; RFC 9110, section 7.6).
"""

from collections.abc import Iterable
from typing import NamedTuple

from deployer.traffic.proxy.dashboard_cookies import drop_dashboard_cookies, sets_dashboard_cookie
from deployer.traffic.proxy.origin_claims import claims_origin, is_disguised_claim
from deployer.traffic.proxy.refusals import BadRequest, ExpectationFailed, HeadTooLarge, NotImplementedHere

HEAD_BYTES = 32 * 1024
LAST_CHUNK = b"0\r\n\r\n"

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# This proxy writes these headers itself.
_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"))
# `Connection` must not remove headers that say where a message goes and where it ends.
_NOT_REMOVABLE = frozenset((b"host", b"content-length", b"expect", b"cookie", b"authorization"))

Headers = Iterable[tuple[bytes, bytes]]


class RequestHead(NamedTuple):
    """The head of a request as it is sent to an application, and its properties."""

    data: bytes
    is_chunked: bool
    """True if the body must be sent in chunks."""
    is_upgrade: bool
    """True if the request asks for a WebSocket."""
    expects_continue: bool


def read_host(headers: Headers, target: str) -> str:
    """Return the requested host, in lower case, without its port or a final dot.

    Raises `BadRequest` if there is not exactly one `Host` header, or if an absolute `target` has another host.
    """
    hosts = [value for name, value in headers if name.lower() == b"host"]
    if len(hosts) != 1 or not hosts[0]:
        raise BadRequest("The request needs one Host header, which says what it is meant for.")
    host = hosts[0].decode("latin-1").lower()
    if not target.startswith("/") and target != "*":
        scheme, separator, rest = target.partition("://")
        if not separator or scheme.lower() not in ("http", "https") or _authority(rest).lower() != host:
            raise BadRequest("The request's target is neither a path nor an address at its Host.")
    name, colon, port = host.rpartition(":")
    if colon and (port.isdigit() or not port):
        host = name
    return host.removesuffix(".")


def write_request_head(
    method: str,
    target: str,
    headers: Headers,
    *,
    peer: str,
    scheme: str,
    keeps_forwarded: bool,
    is_http_11: bool,
    max_bytes: int = HEAD_BYTES,
) -> RequestHead:
    """Return the head for an application. `peer` is the caller's address; `keeps_forwarded`: a trusted gateway has set
    the X-Forwarded-* headers. Raises a `Problem` for a request that cannot be forwarded unambiguously."""
    if method == "CONNECT":
        raise NotImplementedHere("CONNECT is not passed on.")
    lines: list[bytes] = []
    host = length = b""
    codings: list[bytes] = []
    options = upgrade = expect = b""
    for name, value in headers:
        low = name.lower()
        if low == b"host":
            host = value
        elif low == b"content-length":
            length = value
        elif low == b"connection":
            options += b"," + value.lower()
        elif low == b"upgrade":
            upgrade = value.lower()
        elif low == b"transfer-encoding":
            codings.append(value.lower())
        elif low == b"expect":
            expect = value.lower()
        elif low == b"cookie":
            if left := drop_dashboard_cookies(value):
                lines.append(name + b": " + left)
        elif low in _HOP_BY_HOP or (is_disguised_claim(low) if keeps_forwarded else claims_origin(low)):
            continue
        else:
            lines.append(name + b": " + value)
    named = _named_options(options)
    is_upgrade = b"upgrade" in named and upgrade == b"websocket" and method == "GET" and is_http_11
    lines = _remove_headers(lines, named)
    framing = _choose_framing(length, codings, is_http_11)
    if framing:
        lines.append(framing)
        # An upgrade must not have a body: bytes after it could be read as a body or as frames.
        is_upgrade = False
    if expect and expect != b"100-continue":
        raise ExpectationFailed("Expect knows 100-continue only.")
    if expect and framing:
        lines.append(b"Expect: 100-continue")
    if not keeps_forwarded:
        lines += _forwarding_headers(peer, scheme, host)
    # Each request has a connection of its own: an application that closes an idle connection loses no request.
    lines += (b"Connection: Upgrade", b"Upgrade: websocket") if is_upgrade else (b"Connection: close",)
    lines.insert(0, b"Host: " + host)
    first = f"{method} {_origin_form(target)} HTTP/1.1".encode("utf-8", "surrogateescape")
    return RequestHead(
        _join_head(first, lines, max_bytes), bool(codings), is_upgrade, bool(expect and framing)
    )


def write_response_head(
    status: int, reason: str, headers: Headers, *, framing: bytes, connection: bytes
) -> bytes | None:
    """Return the head for the caller; None if the application's headers cannot be forwarded. `framing`: the header that
    delimits the body, or empty. `connection`: the `Connection` header, or empty."""
    lines: list[bytes] = []
    options = b""
    for name, value in headers:
        low = name.lower()
        if low == b"connection":
            options += b"," + value.lower()
        elif low == b"set-cookie" and sets_dashboard_cookie(value):
            continue
        elif low != b"content-length" and low not in _HOP_BY_HOP:
            lines.append(name + b": " + value)
    lines = _remove_headers(lines, _named_options(options))
    if framing:
        lines.append(framing)
    if connection:
        lines.append(connection)
    try:
        return _join_head(
            b"HTTP/1.1 %d " % status + reason.encode("utf-8", "surrogateescape"), lines, HEAD_BYTES
        )
    except BadRequest:
        return None


def write_chunk(data: bytes) -> bytes:
    """Return a chunk of a body; empty for empty data, whose chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _forwarding_headers(peer: str, scheme: str, host: bytes) -> list[bytes]:
    return [
        b"X-Forwarded-For: " + peer.encode("latin-1", "replace"),
        b"X-Forwarded-Proto: " + scheme.encode("latin-1"),
        b"X-Forwarded-Host: " + host,
    ]


def _named_options(options: bytes) -> frozenset[bytes]:
    if options in (b"", b",keep-alive", b",close"):
        return frozenset()
    return frozenset(option.strip() for option in options.split(b","))


def _remove_headers(lines: list[bytes], named: frozenset[bytes]) -> list[bytes]:
    dropped = named - _HOP_BY_HOP - _NOT_REMOVABLE - _FORWARDED
    if not dropped - {b"", b"close"}:
        return lines
    return [line for line in lines if line.partition(b":")[0].lower() not in dropped]


def _choose_framing(length: bytes, codings: list[bytes], is_http_11: bool) -> bytes:
    """Return the header that delimits the body; empty without a body."""
    if codings:
        if length or not is_http_11:
            raise BadRequest("The request does not say unambiguously where its body ends.")
        if codings != [b"chunked"]:
            raise NotImplementedHere("The transfer coding is not passed on; chunked is.")
        return b"Transfer-Encoding: chunked"
    if length:
        if not length.isdigit():
            raise BadRequest("Content-Length is not a number.")
        return b"Content-Length: %d" % int(length)
    return b""


def _authority(rest: str) -> str:
    return rest.partition("/")[0].partition("?")[0]


def _origin_form(target: str) -> str:
    if target.startswith("/") or target == "*":
        return target
    rest = target.partition("://")[2]
    path = rest[len(_authority(rest)) :]
    return path if path.startswith("/") else "/" + path


def _join_head(first: bytes, lines: list[bytes], max_bytes: int) -> bytes:
    data = b"\r\n".join((first, *lines, b"\r\n"))
    # Lenient parsers accept line ends within values.
    ends = len(lines) + 2
    if data.count(b"\r") != ends or data.count(b"\n") != ends or b"\0" in data:
        raise BadRequest("A header contains characters that are not allowed.")
    # 1,024 bytes more, for the headers that the proxy adds.
    if len(data) > max_bytes + 1024:
        raise HeadTooLarge(f"Request line and headers may have {max_bytes:,} bytes.")
    return data
