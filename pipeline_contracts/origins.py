"""Normalize the registered origins of sites, and match a browser's `Origin` against them.

Scheme, host and port must be equal; case and a leading `www.` do not matter; `https://*.example.com` matches
subdomains of any depth, and not `https://example.com` itself.
"""

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

# A host name has up to 253 characters.
_MAX_LENGTH = 270
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Anybody may send an `Origin`: longer ones must not fill the cache.
_MAX_CACHED_LENGTH = 512
_WILDCARD = "*."


class Origin(NamedTuple):
    """An origin in lower case, with its port, so that equal origins compare as equal."""

    scheme: str
    host: str
    port: int

    @property
    def bare_host(self) -> str:
        """The host without `www.`."""
        return self.host.removeprefix("www.")


def parse_origin(text: str) -> Origin | None:
    """Parse the `Origin` of a browser. Return None for `null` and for text that is no origin."""
    if len(text) > _MAX_LENGTH or not text.isascii():
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    scheme = parts.scheme
    if scheme not in _PORTS or host is None or f"{scheme}://{parts.netloc}" != _with_scheme_lowered(text):
        return None
    if "@" in parts.netloc or parts.netloc.endswith(":") or not _is_host(host):
        return None
    return Origin(scheme, host, _PORTS[scheme] if port is None else port)


def _with_scheme_lowered(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    return scheme.lower() + mark + rest


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
        return True
    return len(host) <= 253 and _HOST.fullmatch(host) is not None


def normalize_origin(text: str) -> str:
    """Return a site's origin as it is stored: `https://shop.example`, `http://localhost:8080`, `https://*.shop.example`.

    The default scheme is https. Raises `ValueError` for a path, a user or a query.
    """
    url = text.strip()
    if "://" not in url:
        url = f"https://{url}"
    url = url.removesuffix("/")
    scheme, _, rest = url.partition("://")
    has_wildcard = rest.startswith(_WILDCARD)
    rest = rest.removeprefix(_WILDCARD)
    if not rest.isascii():
        try:
            rest = rest.encode("idna").decode()
        except UnicodeError:
            raise ValueError(f"{text!r} is no host name") from None
    origin = parse_origin(f"{scheme.lower()}://{rest}")
    if origin is None or (has_wildcard and "." not in origin.host):
        raise ValueError(f"{text!r} is not an origin: write https://shop.example, or https://*.shop.example")
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == _PORTS[origin.scheme] else f":{origin.port}"
    return f"{origin.scheme}://{_WILDCARD if has_wildcard else ''}{host}{port}"


class _Registered(NamedTuple):
    exact: frozenset[Origin]
    wildcards: tuple[Origin, ...]
    """Origins whose subdomains are registered."""


@lru_cache(4096)
def _registered(origins: tuple[str, ...]) -> _Registered:
    exact, wildcards = set(), []
    for text in origins:
        parsed = parse_origin(text.replace(_WILDCARD, "", 1))
        if parsed is None:
            continue
        if f"://{_WILDCARD}" in text:
            wildcards.append(parsed)
        else:
            exact.add(parsed._replace(host=parsed.bare_host))
    return _Registered(frozenset(exact), tuple(wildcards))


def is_registered(origin: str, origins: tuple[str, ...]) -> bool:
    """True if a browser's origin matches one of the registered `origins`, which `normalize_origin` returned."""
    return len(origin) <= _MAX_CACHED_LENGTH and _is_registered(origin, origins)


@lru_cache(16_384)
def _is_registered(origin: str, origins: tuple[str, ...]) -> bool:
    parsed = parse_origin(origin)
    if parsed is None:
        return False
    registered = _registered(origins)
    if parsed._replace(host=parsed.bare_host) in registered.exact:
        return True
    return any(
        parsed.scheme == parent.scheme
        and parsed.port == parent.port
        and parsed.host.endswith(f".{parent.host}")
        for parent in registered.wildcards
    )


@lru_cache(16_384)
def is_own_host(host: str, origins: tuple[str, ...]) -> bool:
    """True if a host name is one of the site's own, with any scheme and port."""
    bare = host.lower().removeprefix("www.")
    registered = _registered(origins)
    return any(origin.host == bare for origin in registered.exact) or any(
        bare.endswith(f".{parent.host}") for parent in registered.wildcards
    )
