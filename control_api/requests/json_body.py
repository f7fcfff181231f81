"""Reads a body within its limits of size and time, before anything is parsed."""

import asyncio

from fastapi import Request

from git_hosts.payloads.json_keys import BadKeys, check_keys
from pipeline_contracts.errors import (
    FieldError,
    InvalidInput,
    PayloadTooLarge,
    RequestTimeout,
    UnsupportedMediaType,
)

_MOST_BYTES = 64 * 1024
_SECONDS = 30.0


async def read_json_body(request: Request, most: int = _MOST_BYTES) -> bytes:
    """The body's bytes. Raises `UnsupportedMediaType` unless it says that it is JSON, and `PayloadTooLarge`, at the
    first byte over the limit, `RequestTimeout` where it does not arrive in 30 s, and `InvalidInput` where an object has
    a key twice."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise UnsupportedMediaType("The body must be application/json.")
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType("This operation takes no Content-Encoding.")
    body = await read_body(request, most)
    try:
        check_keys(body)
    except BadKeys as fault:
        named = f"The body's key {fault.field!r}" if fault.field else "The body"
        raise InvalidInput(f"{named} {fault}.", errors=[FieldError(fault.field, str(fault))]) from fault
    return body


async def read_body(request: Request, most: int) -> bytes:
    """The body's bytes, whatever they are.

    Raises `PayloadTooLarge`, at the first byte over the limit or where the header says so, and `RequestTimeout` where
    it does not arrive in 30 s.
    """
    told = request.headers.get("content-length", "")
    if told.isascii() and told.isdecimal() and int(told[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(_SECONDS):
            return await _read(request, most)
    except TimeoutError as error:
        raise RequestTimeout(f"The body did not arrive within {_SECONDS:g} s.") from error


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        if len(body) + len(piece) > most:
            raise _too_large(most)
        body += piece
    return bytes(body)


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {most} bytes.")
