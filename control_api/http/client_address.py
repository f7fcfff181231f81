"""The address that a request comes from."""

from starlette.requests import HTTPConnection

from pipeline_contracts.client_address import ClientAddresses


def client_address(connection: HTTPConnection, addresses: ClientAddresses) -> str:
    """Return the client's address: the address that a trusted proxy reports, or else the peer's own."""
    peer = connection.client.host if connection.client is not None else None
    # A proxy may add a second header line after the caller's: together they are one list (RFC 9110, 5.3).
    forwarded = ",".join(connection.headers.getlist("x-forwarded-for")) or None
    return addresses.find(peer, forwarded)
