"""Resolves names to addresses and checks the addresses. aiohttp connects to the addresses that were checked, even if
the DNS changes afterwards."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType

from notifications.channels.outbound_http.addresses import IPAddress, find_refusal, is_allowed

Endpoint = tuple[str, int]
"""An IP address and a port."""

_LOOKUP_THREADS = 32
"""Number of threads for look-ups. A slow name server can block a thread for half a minute."""

Lookup = Callable[[str], Awaitable[Sequence[IPAddress]]]
"""Returns all addresses of a name. Raises `OSError` if the name has none."""


class AddressRefused(Exception):
    """The host is an address that channels may not reach, or resolves to one. The text does not contain the address,
    so that nobody can use it to map the operator's network."""

    def __init__(self, host: str, *, is_private: bool) -> None:
        message = f"{host} has an address that channels may not reach"
        if is_private:
            message += (
                ": a private one. The operator can allow those with PHAROS_NOTIFICATION_PRIVATE_ADDRESSES=1"
            )
        super().__init__(message + ".")


class SystemLookup:
    """Looks up names with the system's resolver, in threads of its own: the slow name servers of one receiver must not
    delay other look-ups of the process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="channel-names")

    async def __call__(self, host: str) -> Sequence[IPAddress]:
        """Return the addresses of a name, in the order in which they should be tried."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))

    def close(self) -> None:
        """Cancel look-ups that wait for a thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class CheckedResolver(AbstractResolver):
    """Resolves a name. Returns its addresses only if all of them are allowed."""

    def __init__(self, lookup: Lookup, *, allow_private: bool) -> None:
        self._lookup = lookup
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises `AddressRefused`, and `OSError` for a name without an address."""
        addresses = await self._lookup(host)
        if not addresses:
            raise OSError(socket.EAI_NONAME, "the name has no address")
        for address in addresses:
            # One refused address is enough to refuse the name, because aiohttp may connect to any of the addresses.
            check_address(host, address, allow_private=self._allow_private)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing. The caller that passed the look-up closes it."""


def check_address(host: str, address: IPAddress, *, allow_private: bool) -> None:
    """Raise `AddressRefused` for an address that channels may not reach."""
    if not is_allowed(address, allow_private=allow_private):
        raise AddressRefused(host, is_private=find_refusal(address) == "private")


def open_checked_socket(
    target: AddrInfoType, *, allow_private: bool, endpoints: Collection[Endpoint] = ()
) -> socket.socket:
    """Create the socket of a connection, after checking its address again. aiohttp creates every socket here, so this
    is the last line of defense.

    `endpoints`: addresses that are allowed in any case.
    """
    family, kind, protocol, _, address = target
    if (address[0], address[1]) not in endpoints and not is_allowed(
        ipaddress.ip_address(address[0]), allow_private=allow_private
    ):
        raise PermissionError("the address is not allowed")
    return socket.socket(family, kind, protocol)
