"""Reads a request body and undoes its content encoding, both with a cap that holds before memory is spent."""

import asyncio
import sys
import zlib

from aiohttp import HttpVersion11, StreamReader, hdrs, web

from ingest_edge.body_budget import BodyLease
from ingest_edge.limits import Limits
from pipeline_contracts.errors import (
    FieldError,
    InvalidInput,
    MalformedRequest,
    PayloadTooLarge,
    RequestTimeout,
    UnsupportedMediaType,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_STEP = 256 * 1024
_SLICE = 64 * 1024
# The longest head of a frame (RFC 8878, 3.1.1).
_ZSTD_HEAD = 18
# Members of gzip, frames of zstd. Each costs a decoder: empty ones by the hundred thousand would hold up the edge.
_MOST_MEMBERS = 1000
_TOO_MANY_MEMBERS = f"there are more than {_MOST_MEMBERS} members"
# What a decoder of HTTP's zstd has to support (RFC 9659): 8 MiB. A larger window is refused, not allocated.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}


def check_content_type(content_type: str | None) -> None:
    """Raises `UnsupportedMediaType` unless it is application/json, with whatever parameters."""
    if content_type != "application/json" and (
        content_type is None or content_type.partition(";")[0].strip().lower() != "application/json"
    ):
        raise UnsupportedMediaType("The body must be application/json.")


def content_coding(content_encoding: str | None) -> str:
    """The one coding of the body: identity, gzip, deflate or zstd."""
    if content_encoding is None:
        return "identity"
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return "identity"
    if coding == "x-gzip":
        return "gzip"
    if coding not in ("gzip", "deflate", "zstd"):
        raise UnsupportedMediaType(
            f"Content-Encoding {content_encoding[:40]!r} is not supported: gzip, deflate, zstd or none."
        )
    return coding


def check_declared_length(length: int | None, limits: Limits) -> None:
    """Refuse by the header alone what is too long; nothing of it is read."""
    if length is not None and length > limits.body_bytes:
        raise _too_long(limits)


def _too_long(limits: Limits) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {limits.body_bytes} bytes. Send smaller batches.")


async def read_body(request: web.BaseRequest, limits: Limits, lease: BodyLease) -> bytes:
    """The body as sent. The lease holds its bytes, as they arrive.

    Raises `PayloadTooLarge` at the first byte over the limit, `RequestTimeout` for a body that stops or trickles,
    `MalformedRequest` for chunks that are none, and `Unavailable` where there is no memory for it.
    """
    content = request.content
    try:
        if content.is_eof():
            # Small bodies arrive with the head: no timer, no switch of tasks.
            body = content.read_nowait()
            if len(body) > limits.body_bytes:
                raise _too_long(limits)
            lease.take(len(body))
            return body
        await answer_expectation(request)
        return await _read_stream(content, limits, lease)
    except web.RequestPayloadError as error:
        raise MalformedRequest("The body's transfer coding is broken.") from error


async def answer_expectation(request: web.BaseRequest) -> None:
    """Send `100 Continue` to a caller that waits for it (RFC 9110, section 10.1.1).

    Called once the head was accepted and before the body is read: a refusal is the only answer otherwise.
    """
    expect = request.headers.get(hdrs.EXPECT)
    if expect is None or expect.lower() != "100-continue" or request.version < HttpVersion11:
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The final answer has not begun.
    request.writer.output_size = 0


async def _read_stream(content: StreamReader, limits: Limits, lease: BodyLease) -> bytes:
    """Read to the end, window by window. After the first window, the grace, each has to bring the lowest rate."""
    chunks: list[bytes] = []
    size = 0
    window = min(limits.body_grace, limits.body_timeout)
    begun = asyncio.get_running_loop().time()
    ends, wanted = begun + window, 0.0
    while True:
        size_before = size
        try:
            async with asyncio.timeout_at(min(ends, begun + limits.body_timeout)):
                while chunk := await content.readany():
                    size += len(chunk)
                    if size > limits.body_bytes:
                        raise _too_long(limits)
                    lease.take(len(chunk))
                    chunks.append(chunk)
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            if ends >= begun + limits.body_timeout:
                raise RequestTimeout(f"The body did not arrive within {limits.body_timeout:g} s.") from None
        if size - size_before < wanted:
            raise RequestTimeout(f"The body came slower than {limits.body_rate} bytes a second.")
        ends, wanted = ends + window, limits.body_rate * window


def decompress(body: bytes, coding: str, limit: int) -> bytes:
    """The decompressed body, at most `limit` bytes.

    Stops at the limit: a bomb costs the limit, not what it would become. Raises `PayloadTooLarge`, and
    `InvalidInput` for data that is broken, cut short or followed by something else.
    """
    if coding == "identity":
        return body
    try:
        if coding == "zstd":
            return _inflate_zstd(body, limit)
        if coding == "gzip":
            return _inflate_zlib(body, 31, limit)
        try:
            return _inflate_zlib(body, 15, limit)
        except zlib.error:
            # Some senders mean raw deflate when they say "deflate".
            return _inflate_zlib(body, -15, limit)
    except (zlib.error, zstd.ZstdError, EOFError) as error:
        raise InvalidInput(
            f"The body is not valid {coding} data.",
            errors=[FieldError("", f"cannot be decompressed: {error}")],
        ) from error


def _over(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {limit} bytes when decompressed. Send smaller batches.")


def _inflate_zlib(body: bytes, window: int, limit: int) -> bytes:
    out = bytearray()
    taken = 0
    # A gzip file may have several members (RFC 1952, 2.2).
    for _ in range(_MOST_MEMBERS):
        decoder = zlib.decompressobj(window)
        data = b""
        while not decoder.eof:
            if not data:
                data = body[taken : taken + _SLICE]
                taken += len(data)
            step = decoder.decompress(data, min(_STEP, limit + 1 - len(out)))
            data = decoder.unconsumed_tail
            # Some output may still be inside the decoder when all input is taken.
            if not step and not data and not decoder.eof and taken == len(body):
                raise EOFError("the data ends too early")
            out += step
            if len(out) > limit:
                raise _over(limit)
        taken -= len(decoder.unused_data)
        if taken == len(body):
            return bytes(out)
        if window != 31:
            raise zlib.error("there is data behind the end")
    raise EOFError(_TOO_MANY_MEMBERS)


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    out = bytearray()
    taken = 0
    for _ in range(_MOST_MEMBERS):
        if _declared_size(body[taken : taken + _ZSTD_HEAD]) > limit - len(out):
            raise _over(limit)
        decoder = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        while not decoder.eof:
            data = b""
            if decoder.needs_input:
                data = body[taken : taken + _SLICE]
                taken += len(data)
                if not data:
                    raise EOFError("the data ends too early")
            out += decoder.decompress(data, max_length=min(_STEP, limit + 1 - len(out)))
            if len(out) > limit:
                raise _over(limit)
        taken -= len(decoder.unused_data)
        if taken == len(body):
            return bytes(out)
    raise EOFError(_TOO_MANY_MEMBERS)


def _declared_size(head: bytes) -> int:
    # Too large a frame is refused as such, whatever window it asks for; 0: not told.
    try:
        return zstd.get_frame_info(head).decompressed_size or 0
    except zstd.ZstdError:
        # What is wrong with it is told by the decoder.
        return 0
