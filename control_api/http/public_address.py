"""The address at which people and Git hosts reach the API."""

import re
from urllib.parse import SplitResult, urlsplit

from starlette.requests import HTTPConnection

from pipeline_contracts.client_address import ClientAddresses

# A name or an address, and a port.
_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def public_address(connection: HTTPConnection) -> str:
    """Return `https://pharos.example`: `PHAROS_PUBLIC_URL`, or else the address that the request was sent to.

    A trusted proxy says whether the caller used TLS. Empty if the request has no usable `Host`.
    """
    configured: str | None = connection.app.state.public_url
    if configured is not None:
        return configured.rstrip("/")
    return request_address(connection)


def request_address(connection: HTTPConnection) -> str:
    """Return the address that the request was sent to; empty if it has no usable `Host`."""
    host = connection.headers.get("host", "")
    if _HOST.fullmatch(host) is None:
        return ""
    return f"{'https' if is_https(connection) else 'http'}://{host}"


def is_at_public_address(connection: HTTPConnection) -> bool:
    """Return True if the request was sent to the host and with the scheme of `PHAROS_PUBLIC_URL`, or if there is
    none."""
    wanted, found = urlsplit(public_address(connection)), urlsplit(request_address(connection))
    return (wanted.scheme, _host_of(wanted)) == (found.scheme, _host_of(found))


def _host_of(parts: SplitResult) -> str:
    return parts.netloc.lower().removesuffix({"https": ":443", "http": ":80"}.get(parts.scheme, ":"))


def is_https(connection: HTTPConnection) -> bool:
    """Return True if the caller used TLS: a trusted proxy says so, or the request is for the host of an `https`
    `PHAROS_PUBLIC_URL`."""
    if connection.url.scheme == "https":
        return True
    addresses: ClientAddresses = connection.app.state.client_addresses
    peer = None if connection.client is None else connection.client.host
    if (
        addresses.is_trusted(peer)
        and connection.headers.get("x-forwarded-proto", "").strip().lower() == "https"
    ):
        return True
    configured: str | None = connection.app.state.public_url
    if configured is None or not configured.startswith("https://"):
        return False
    host = configured.removeprefix("https://").partition("/")[0].lower()
    return connection.headers.get("host", "").lower().removesuffix(":443") == host.removesuffix(":443")
