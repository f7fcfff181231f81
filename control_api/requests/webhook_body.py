"""Reads the body of a webhook delivery: at most 5 MiB, at a minimum rate, within the memory budget of its sender."""

import asyncio

from fastapi import Request

from control_api.limits.webhook_bodies import MAX_BODY_BYTES, BodyReading, aborted_error
from pipeline_contracts.errors import PayloadTooLarge, RequestTimeout

_READ_TIMEOUT_SECONDS = 30.0
# The minimum rate applies to each window: a fast start does not compensate for silence.
_WINDOW_SECONDS = 5.0
_WINDOW_BYTES = 5 * 1024


async def read_delivery(request: Request, reading: BodyReading) -> bytes:
    """Return the body, and count its bytes in `reading` as they arrive.

    Raises `PayloadTooLarge` at the first byte over the limit or if Content-Length is over it, `RequestTimeout` for a
    body that stops or is too slow, and `Unavailable` if there is no memory for it.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and int(declared[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(started + _WINDOW_SECONDS) as window:
            with reading.abortable(window):
                return await _read(request, reading, window, started + _READ_TIMEOUT_SECONDS)
    except TimeoutError as error:
        if reading.was_aborted:
            raise aborted_error() from error
        raise RequestTimeout(
            f"The body did not arrive within {_READ_TIMEOUT_SECONDS:g} s, or sent less than {_WINDOW_BYTES} bytes "
            f"in {_WINDOW_SECONDS:g} s."
        ) from error


async def _read(request: Request, reading: BodyReading, window: asyncio.Timeout, deadline: float) -> bytes:
    loop = asyncio.get_running_loop()
    body = bytearray()
    required = _WINDOW_BYTES
    async for chunk in request.stream():
        if len(body) + len(chunk) > MAX_BODY_BYTES:
            raise _too_large()
        reading.add(len(chunk))
        body += chunk
        if len(body) >= required:
            required = len(body) + _WINDOW_BYTES
            window.reschedule(min(loop.time() + _WINDOW_SECONDS, deadline))
    return bytes(body)


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {MAX_BODY_BYTES} bytes.")
