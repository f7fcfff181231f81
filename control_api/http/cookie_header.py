"""Reads cookies from the `Cookie` header byte by byte, and removes cookies that somebody else has set. Pure.

A page on a sibling host, or an application on another port of this host, can set cookies that browsers send to this
host as well. A tolerant parser takes `\\xa0__Host-name=…` for `__Host-name`, and of two cookies with one name it takes
the last. This parser accepts only what browsers send for a cookie of exactly this name (RFC 6265bis, section 5.8.3).
"""

import re
from collections.abc import Iterable, Iterator

# Proxies refuse responses whose header fields are too large: nginx reads 4 KiB by default.
_DELETION_BYTES = 3072
_HOST_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
# Without `;`, which ends the attribute.
_PATH = re.compile(r"/[!-:<-~]*")


def find_cookie_values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """Return the values of all cookies with exactly this name, in the order in which the browser sent them."""
    start = name + b"="
    return [
        pair[len(start) :].decode("latin-1")
        for header, value in headers
        if header == b"cookie" and name in value
        for pair in (part.strip(b" ") for part in value.split(b";"))
        if pair.startswith(start)
    ]


def make_deletions(name: str, hosts: Iterable[str], path: str) -> list[str]:
    """Return the values of `Set-Cookie` headers that remove every cookie which a browser may send under this name to
    the path, except the one that this host itself has set with `Path=/`.

    `hosts`: the names under which the browser may know this host, with or without a port. `path`: as in the request
    line. A cookie differs from another one of the same name by its domain (this host alone, or a parent domain and all
    hosts below it) and its path (a part of the request's path). Browsers send a cookie without a name as its value
    alone, so one with the value `name=…` looks the same. Names with `__Host-` need no other deletion: browsers accept
    no other domain and path for them. The shortest paths come first; the list ends at about 3 KiB.
    """
    domains = ["", *dict.fromkeys(domain for host in hosts for domain in _list_domains(host))]
    kinds = ("=x",) if name.startswith("__Host-") else (f"{name}=", "=x")
    deletions: list[str] = []
    size = 0
    for each in _list_paths(path):
        for domain in domains:
            for kind in kinds:
                if (kind, domain, each) == (f"{name}=", "", "/"):
                    continue
                deletion = f"{kind}; Path={each}{domain and f'; Domain={domain}'}; Max-Age=0"
                size += len("Set-Cookie: \r\n") + len(deletion)
                if size > _DELETION_BYTES:
                    return deletions
                deletions.append(deletion)
    return deletions


def _list_domains(host: str) -> Iterator[str]:
    """Yield the host and its parent domains, without the top-level domain. An address has none."""
    host = host.lower().partition(":")[0]
    labels = host.split(".")
    if _HOST_NAME.fullmatch(host) is None or labels[-1].isdigit():
        return
    for start in range(max(1, len(labels) - 1)):
        yield ".".join(labels[start:])


def _list_paths(path: str) -> Iterator[str]:
    """Yield every `Path` of a cookie that browsers send to the path (RFC 6265, section 5.1.4), the shortest first."""
    yield "/"
    if _PATH.fullmatch(path) is None:
        return
    for end in range(1, len(path) + 1):
        if end == len(path) or path[end] == "/":
            if path[end - 1] != "/":
                yield path[:end]
            if end < len(path):
                yield path[: end + 1]
