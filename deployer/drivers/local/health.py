"""Probes whether an instance responds, and explains why it does not."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from deployer.listeners.owners import ListenerOwners, Verdict
from deployer.traffic.interface import Target

_PROBE_SECONDS = 5.0
# The first pauses are short: most processes start fast.
_PAUSES = (0.05, 0.05, 0.1, 0.1, 0.2, 0.3, 0.5)
_LAST_PAUSE = 1.0
_MAX_RESPONSE_CHARACTERS = 80


class Unhealthy(Exception):
    """The probe failed. The message is a sentence without its final full stop."""


class NothingListens(Unhealthy):
    """No socket listens on the port."""


OnFault = Callable[[Unhealthy], None]


async def wait_healthy(
    target: Target,
    path: str | None,
    host: str,
    listeners: ListenerOwners,
    on_fault: OnFault,
) -> None:
    """Return once the instance responds to a GET of `path` with 200 to 399; without a path, once it accepts
    connections.

    Probes about once a second, each time for up to five seconds. `on_fault` gets the reason of each failed probe, and
    of a probe that is waiting for its response.
    """
    pauses = iter(_PAUSES)
    while True:
        try:
            await _probe_in_time(target, path, host, listeners, on_fault)
            return
        except Unhealthy as fault:
            on_fault(fault)
        # No event reports that an application is ready.
        await asyncio.sleep(next(pauses, _LAST_PAUSE))


async def _probe_in_time(
    target: Target, path: str | None, host: str, listeners: ListenerOwners, on_fault: OnFault
) -> None:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await _probe(target, path, host, listeners, on_fault)
    except TimeoutError:
        failure = (
            f"{target.host}:{target.port} took no connection"
            if path is None
            else f"GET {path} was not answered"
        )
        raise Unhealthy(f"{failure} within {_PROBE_SECONDS:g} s") from None
    except OSError as error:
        raise Unhealthy(
            f"The connection to {target.host}:{target.port} failed: {error.strerror or error}"
        ) from None


async def _probe(
    target: Target, path: str | None, host: str, listeners: ListenerOwners, on_fault: OnFault
) -> None:
    address = f"{target.host}:{target.port}"
    verdict = await listeners.examine(target.port)
    if verdict is Verdict.NOBODY:
        raise NothingListens(f"Nothing listens at {address}")
    known = listeners.verified_cookies(target.port)
    if verdict is Verdict.FOREIGN:
        raise Unhealthy(f"Another program listens at {address}, which is the port of this process")
    if verdict is Verdict.UNREADABLE:
        raise Unhealthy(
            f"Pharos cannot verify that this process listens at {address}: its descriptors cannot be read. "
            "It must stay dumpable (PR_SET_DUMPABLE), or Pharos must run as root"
        )
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        if not listeners.is_owned(target.port, known):
            raise Unhealthy(f"Another program may have taken the connection to {address}")
        if path is None:
            return
        on_fault(
            Unhealthy(
                f"GET {path} was not answered. Raise `processes.web.health.timeout_seconds`, or let the path answer "
                "without waiting for other services"
            )
        )
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: pharos-health\r\nAccept: */*\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode("ascii"))
        await writer.drain()
        _check_status(path, await _read_line(reader))
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _read_line(reader: asyncio.StreamReader) -> str:
    """Return the first line of the response, or as much of it as was received."""
    try:
        return (await reader.readuntil(b"\n")).decode("latin-1").strip()
    except asyncio.IncompleteReadError as error:
        return error.partial.decode("latin-1").strip()
    except asyncio.LimitOverrunError:
        return (await reader.read(_MAX_RESPONSE_CHARACTERS)).decode("latin-1").strip()


def _check_status(path: str, line: str) -> None:
    """Raise `Unhealthy` for a response that is not 200 to 399."""
    version, _, rest = line.partition(" ")
    status = rest.partition(" ")[0]
    if not line:
        raise Unhealthy(f"GET {path} was not answered: the process closed the connection")
    if not (version.startswith("HTTP/1.") and len(status) == 3 and status.isascii() and status.isdecimal()):
        excerpt = line[:_MAX_RESPONSE_CHARACTERS]
        raise Unhealthy(f"GET {path} was answered with something other than HTTP/1.1: {excerpt!r}")
    if not 200 <= int(status) < 400:
        raise Unhealthy(f"GET {path} returned {status} (expected 200–399). Check `processes.web.health.path`")
