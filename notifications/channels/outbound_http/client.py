"""Sends HTTP requests to receivers. It follows no redirects, takes at most 15 s for a request, and reads at most 64
KiB of the response."""

import asyncio
import functools
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
from yarl import URL

from control_domain.notifications.destination_formats import find_http_url_fault
from notifications.channels.interface import DeliveryFailed
from notifications.channels.outbound_http.resolver import (
    AddressRefused,
    CheckedResolver,
    Endpoint,
    Lookup,
    SystemLookup,
    check_address,
    open_checked_socket,
)

TOTAL_SECONDS = 15.0
"""Time limit of a request in seconds, including name resolution, TLS and the response."""
MAX_RESPONSE_BYTES = 64 * 1024
_MAX_CONNECTIONS = 100
_IDLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of a receiver."""

    host: str
    status: int
    headers: Mapping[str, str]
    """The headers of the response. Names are compared without regard to case."""
    body: bytes
    """The first 64 KiB of the body, or less if the connection broke after the status."""
    received_at: datetime


class OutboundHttp:
    """Posts to receivers. Open it with `open_outbound_http`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        allow_private: bool,
        endpoints: Collection[Endpoint] = (),
        clock: Callable[[], datetime],
    ) -> None:
        self.clock = clock
        self._session = session
        self._allow_private = allow_private
        self._endpoints = endpoints

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float = TOTAL_SECONDS
    ) -> Reply:
        """Post the body once. Return the response, whatever its status. Raises `DeliveryFailed`."""
        return await self.request("POST", url, body, headers, seconds=seconds)

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float
    ) -> Reply:
        """Send the request once. Return the response, whatever its status.

        Raises `DeliveryFailed` if there is no response. Its text contains the host, but no other part of the URL.
        """
        if find_http_url_fault(url) is not None:
            raise DeliveryFailed("The URL of the channel is not valid. Set it again.", is_permanent=True)
        target = URL(url, encoded=True)
        host = target.host or ""
        try:
            self._check_literal(host, target.port)
            deadline = asyncio.get_running_loop().time() + seconds
            async with asyncio.timeout_at(deadline):
                response = await self._session.request(
                    method,
                    target,
                    data=body or None,
                    headers={"Content-Type": "application/json", **headers} if body else headers,
                    allow_redirects=False,
                )
            async with response:
                received = await _read_beginning(response, deadline)
            return Reply(host, response.status, response.headers, received, self.clock())
        except AddressRefused as error:
            raise DeliveryFailed(str(error), is_permanent=True) from None
        except TimeoutError:
            raise DeliveryFailed(f"{host} did not answer within {seconds:g} s.") from None
        except aiohttp.InvalidURL:
            raise DeliveryFailed(
                f"{host} is no valid name or address of a host.", is_permanent=True
            ) from None
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            # uvloop raises RuntimeError for some failures of a connection.
            raise DeliveryFailed(f"{host} {_explain(error)}") from None

    def _check_literal(self, host: str, port: int | None) -> None:
        """Raise `AddressRefused` if the host is a refused IP address. This check is needed because aiohttp calls the
        resolver only for names."""
        if (host, port) in self._endpoints:
            return
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return
        check_address(host, address, allow_private=self._allow_private)


async def _read_beginning(response: aiohttp.ClientResponse, deadline: float) -> bytes:
    """Return the first 64 KiB of the body. If the connection breaks or the time is over, return what was received so
    far: the status has arrived, and only the status decides."""
    received = bytearray()
    try:
        async with asyncio.timeout_at(deadline):
            while len(received) < MAX_RESPONSE_BYTES:
                chunk = await response.content.read(MAX_RESPONSE_BYTES - len(received))
                if not chunk:
                    return bytes(received)
                received += chunk
    except (aiohttp.ClientError, OSError, RuntimeError, TimeoutError):
        pass
    # Without this, releasing the response would wait for the rest of the body.
    response.close()
    return bytes(received)


@functools.cache
def _system_tls() -> ssl.SSLContext:
    """Return a TLS context that the whole process shares, because reading the system's certificates takes 30 ms."""
    return ssl.create_default_context()


@asynccontextmanager
async def open_outbound_http(
    *,
    allow_private: bool,
    endpoints: Collection[Endpoint] = (),
    lookup: Lookup | None = None,
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> AsyncIterator[OutboundHttp]:
    """Open the client, without connecting to anything. `lookup`, `tls`: default to those of the system. `endpoints`:
    private addresses that are allowed; they may change while the client is open."""
    system = SystemLookup()
    connector = aiohttp.TCPConnector(
        resolver=CheckedResolver(lookup or system, allow_private=allow_private),
        # Each new connection resolves its name and checks the addresses again.
        use_dns_cache=False,
        socket_factory=functools.partial(
            open_checked_socket, allow_private=allow_private, endpoints=endpoints
        ),
        ssl=tls or _system_tls(),
        limit=_MAX_CONNECTIONS,
        keepalive_timeout=_IDLE_SECONDS,
    )
    try:
        async with aiohttp.ClientSession(
            connector=connector,
            # `post` has a timeout of its own, which also covers name resolution.
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": "Pharos-Notifications", "Accept-Encoding": "identity"},
        ) as session:
            yield OutboundHttp(session, allow_private=allow_private, endpoints=endpoints, clock=clock)
    finally:
        system.close()


def _explain(error: Exception) -> str:
    """Return why a connection failed, as a phrase that follows the name of the host."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        reason = (getattr(cause, "verify_message", "") or "verification failed").rstrip(".")
        return f"has no valid TLS certificate: {reason}."
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "and Pharos found no common TLS version or cipher, or it does not speak TLS at this port."
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "could not be resolved to an address."
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ConnectionRefusedError):
            return "refused the connection."
        return f"could not be reached: {(cause.strerror or 'no connection').lower()}."
    return "closed the connection without a complete response."
