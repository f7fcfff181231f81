"""Origins of sites: what is registered, and whether a browser's `Origin` is one of it.

Scheme, host and port have to be the same; case and a leading `www.` do not matter; `https://*.example.com` stands for
all of its sub-domains, at any depth, and not for `https://example.com` itself.
"""

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

# 253 of the host, and what stands around it.
_LONGEST = 270
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# A host name has 253 characters. What is longer must not be kept: anybody may send it.
_LONGEST_ORIGIN = 512
_ANY = "*."


class Origin(NamedTuple):
    """An origin, comparable: lower case, with its port."""

    scheme: str
    host: str
    port: int

    @property
    def bare_host(self) -> str:
        """Without `www.`."""
        return self.host.removeprefix("www.")


def parse_origin(text: str) -> Origin | None:
    """The origin that a browser sends; None for `null` and for anything that is none."""
    if len(text) > _LONGEST or not text.isascii():
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


def register_origin(text: str) -> str:
    """The form in which a site's domain is kept: `https://shop.example`, `http://localhost:8080`,
    `https://*.shop.example`. Without a scheme it is https; a path, a user or a query is refused (`ValueError`)."""
    wanted = text.strip()
    if "://" not in wanted:
        wanted = f"https://{wanted}"
    wanted = wanted.removesuffix("/")
    scheme, _, rest = wanted.partition("://")
    any_below = rest.startswith(_ANY)
    rest = rest.removeprefix(_ANY)
    if not rest.isascii():
        try:
            rest = rest.encode("idna").decode()
        except UnicodeError:
            raise ValueError(f"{text!r} is no host name") from None
    origin = parse_origin(f"{scheme.lower()}://{rest}")
    if origin is None or (any_below and "." not in origin.host):
        raise ValueError(f"{text!r} is no origin: write https://shop.example, or https://*.shop.example")
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == _PORTS[origin.scheme] else f":{origin.port}"
    return f"{origin.scheme}://{_ANY if any_below else ''}{host}{port}"


class _Registered(NamedTuple):
    exact: frozenset[Origin]
    below: tuple[Origin, ...]


@lru_cache(4096)
def _registered(origins: tuple[str, ...]) -> _Registered:
    exact, below = set(), []
    for text in origins:
        parsed = parse_origin(text.replace(_ANY, "", 1))
        if parsed is None:
            continue
        if f"://{_ANY}" in text:
            below.append(parsed)
        else:
            exact.add(parsed._replace(host=parsed.bare_host))
    return _Registered(frozenset(exact), tuple(below))


def is_registered(origin: str, origins: tuple[str, ...]) -> bool:
    """Whether a browser's origin is one of those registered (each as `register_origin` gives it)."""
    return len(origin) <= _LONGEST_ORIGIN and _is_registered(origin, origins)


@lru_cache(16_384)
def _is_registered(origin: str, origins: tuple[str, ...]) -> bool:
    given = parse_origin(origin)
    if given is None:
        return False
    registered = _registered(origins)
    if given._replace(host=given.bare_host) in registered.exact:
        return True
    return any(
        given.scheme == one.scheme and given.port == one.port and given.host.endswith(f".{one.host}")
        for one in registered.below
    )


@lru_cache(16_384)
def is_own_host(host: str, origins: tuple[str, ...]) -> bool:
    """Whether a host name is one of a site's own, whatever scheme and port."""
    bare = host.lower().removeprefix("www.")
    registered = _registered(origins)
    return any(one.host == bare for one in registered.exact) or any(
        bare.endswith(f".{one.host}") for one in registered.below
    )
