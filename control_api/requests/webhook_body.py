"""Reads the body of a delivery: within 5 MiB, at a lowest rate, and within the memory that its sender may hold."""

import asyncio

from fastapi import Request

from control_api.limits.webhook_bodies import MAX_BODY_BYTES, BodyReading, aborted_error
from pipeline_contracts.errors import PayloadTooLarge, RequestTimeout

_SECONDS = 30.0
# Each window has to bring so many bytes: a fast beginning does not pay for silence.
_WINDOW_SECONDS = 5.0
_WINDOW_BYTES = 5 * 1024


async def read_delivery(request: Request, reading: BodyReading) -> bytes:
    """Return the body. `reading` holds its bytes as they arrive.

    Raises `PayloadTooLarge` at the first byte over the limit or where the header says so, `RequestTimeout` for a body
    that stops or trickles, and `Unavailable` where there is no memory for it.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and int(declared[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    begun = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(begun + _WINDOW_SECONDS) as ends:
            with reading.abortable(ends):
                return await _read(request, reading, ends, begun + _SECONDS)
    except TimeoutError as error:
        if reading.was_aborted:
            raise aborted_error() from error
        raise RequestTimeout(
            f"The body did not arrive within {_SECONDS:g} s, or brought less than {_WINDOW_BYTES} bytes in "
            f"{_WINDOW_SECONDS:g} s."
        ) from error


async def _read(request: Request, reading: BodyReading, ends: asyncio.Timeout, latest: float) -> bytes:
    loop = asyncio.get_running_loop()
    body = bytearray()
    wanted = _WINDOW_BYTES
    async for piece in request.stream():
        if len(body) + len(piece) > MAX_BODY_BYTES:
            raise _too_large()
        reading.add(len(piece))
        body += piece
        if len(body) >= wanted:
            wanted = len(body) + _WINDOW_BYTES
            ends.reschedule(min(loop.time() + _WINDOW_SECONDS, latest))
    return bytes(body)


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {MAX_BODY_BYTES} bytes.")
