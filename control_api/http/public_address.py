"""The address at which people and Git hosts reach the API."""

import re

from fastapi import Request

from pipeline_contracts.client_address import ClientAddresses

# A name or an address, and a port.
_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def public_address(request: Request) -> str:
    """Return `https://pharos.example`: `PHAROS_PUBLIC_URL`, or else the address that the request was sent to.

    A trusted proxy says whether the caller used TLS. Empty if the request has no usable `Host`.
    """
    configured: str | None = request.app.state.public_url
    if configured is not None:
        return configured.rstrip("/")
    host = request.headers.get("host", "")
    if _HOST.fullmatch(host) is None:
        return ""
    addresses: ClientAddresses = request.app.state.client_addresses
    scheme = request.url.scheme
    peer = None if request.client is None else request.client.host
    if addresses.is_trusted(peer) and request.headers.get("x-forwarded-proto", "").strip().lower() == "https":
        scheme = "https"
    return f"{scheme}://{host}"
