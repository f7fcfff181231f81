"""Read and decompress a request body. Size limits apply before memory is allocated."""

import asyncio
import sys
import zlib

import brotli
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

_OUTPUT_BYTES = 256 * 1024
_INPUT_BYTES = 64 * 1024
# The longest frame header (RFC 8878, 3.1.1).
_ZSTD_HEAD = 18
# Maximum number of gzip members or zstd frames. Each needs a decoder: a hundred thousand empty ones would block the
# edge.
_MAX_MEMBERS = 1000
_TOO_MANY_MEMBERS = f"there are more than {_MAX_MEMBERS} members"
# The largest window that HTTP's zstd decoders must support (RFC 9659) is 8 MiB. Larger ones are refused.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}


def check_content_type(content_type: str | None) -> None:
    """Raise `UnsupportedMediaType` unless it is application/json, with any parameters."""
    if content_type != "application/json" and (
        content_type is None or content_type.partition(";")[0].strip().lower() != "application/json"
    ):
        raise UnsupportedMediaType("The body must be application/json.")


def content_coding(content_encoding: str | None, *, allow_brotli: bool = False) -> str:
    """Return the coding of the body: identity, gzip, deflate, zstd, or br if it is allowed.

    Raises `UnsupportedMediaType`.
    """
    if content_encoding is None:
        return "identity"
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return "identity"
    if coding == "x-gzip":
        return "gzip"
    if coding == "br" and allow_brotli:
        return coding
    if coding not in ("gzip", "deflate", "zstd"):
        raise UnsupportedMediaType(
            f"Content-Encoding {content_encoding[:40]!r} is not supported: gzip, deflate, zstd or none."
        )
    return coding


def check_declared_length(length: int | None, limits: Limits) -> None:
    """Raise `PayloadTooLarge` if the Content-Length is over the limit, before the body is read."""
    if length is not None and length > limits.body_bytes:
        raise _too_long(limits)


def _too_long(limits: Limits) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {limits.body_bytes} bytes. Send smaller batches.")


async def read_body(request: web.BaseRequest, limits: Limits, lease: BodyLease) -> bytes:
    """Return the body as sent. The lease counts its bytes as they arrive.

    Raises `PayloadTooLarge` at the first byte over the limit, `RequestTimeout` for a body that stops or is too slow,
    `MalformedRequest` for a broken transfer coding, and `Unavailable` if the body memory budget is exhausted.
    """
    content = request.content
    try:
        if content.is_eof():
            # Small bodies arrive with the head, and need no timer and no task switch.
            body = content.read_nowait()
            if len(body) > limits.body_bytes:
                raise _too_long(limits)
            lease.take(len(body))
            return body
        await send_continue(request)
        return await _read_stream(content, limits, lease)
    except web.RequestPayloadError as error:
        raise MalformedRequest("The body's transfer coding is broken.") from error


async def send_continue(request: web.BaseRequest) -> None:
    """Send `100 Continue` to a caller that waits for it (RFC 9110, section 10.1.1).

    Call this after the head was accepted and before the body is read: a refused request must not receive `100
    Continue`.
    """
    expect = request.headers.get(hdrs.EXPECT)
    if expect is None or expect.lower() != "100-continue" or request.version < HttpVersion11:
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # aiohttp must not mistake this for the start of the final response.
    request.writer.output_size = 0


async def _read_stream(content: StreamReader, limits: Limits, lease: BodyLease) -> bytes:
    """Read the body to its end. After a grace period, each window of the same length must reach the minimum rate."""
    chunks: list[bytes] = []
    size = 0
    window = min(limits.body_grace, limits.body_timeout)
    started = asyncio.get_running_loop().time()
    window_end, required_bytes = started + window, 0.0
    while True:
        size_before = size
        try:
            async with asyncio.timeout_at(min(window_end, started + limits.body_timeout)):
                while chunk := await content.readany():
                    size += len(chunk)
                    if size > limits.body_bytes:
                        raise _too_long(limits)
                    lease.take(len(chunk))
                    chunks.append(chunk)
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            if window_end >= started + limits.body_timeout:
                raise RequestTimeout(f"The body did not arrive within {limits.body_timeout:g} s.") from None
        if size - size_before < required_bytes:
            raise RequestTimeout(f"The body arrived slower than {limits.body_rate} bytes a second.")
        window_end, required_bytes = window_end + window, limits.body_rate * window


def decompress(body: bytes, coding: str, limit: int) -> bytes:
    """Return the decompressed body, of at most `limit` bytes.

    Stops at the limit, so that a decompression bomb uses no more memory than that. Raises `PayloadTooLarge`, and
    `InvalidInput` for data that is broken, truncated or followed by other data.
    """
    if coding == "identity":
        return body
    try:
        if coding == "zstd":
            return _inflate_zstd(body, limit)
        if coding == "gzip":
            return _inflate_zlib(body, 31, limit)
        if coding == "br":
            return _inflate_brotli(body, limit)
        try:
            return _inflate_zlib(body, 15, limit)
        except zlib.error:
            # Some senders send raw deflate, without zlib's header, as "deflate".
            return _inflate_zlib(body, -15, limit)
    except (zlib.error, zstd.ZstdError, brotli.error, EOFError) as error:
        raise InvalidInput(
            f"The body is not valid {coding} data.",
            errors=[FieldError("", f"cannot be decompressed: {error}")],
        ) from error


def _over(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {limit} bytes when decompressed. Send smaller batches.")


def _inflate_zlib(body: bytes, window: int, limit: int) -> bytes:
    out = bytearray()
    position = 0
    # A gzip file may have several members (RFC 1952, 2.2).
    for _ in range(_MAX_MEMBERS):
        decoder = zlib.decompressobj(window)
        data = b""
        while not decoder.eof:
            if not data:
                data = body[position : position + _INPUT_BYTES]
                position += len(data)
            piece = decoder.decompress(data, min(_OUTPUT_BYTES, limit + 1 - len(out)))
            data = decoder.unconsumed_tail
            # The decoder may still have output after the last input.
            if not piece and not data and not decoder.eof and position == len(body):
                raise EOFError("the data ends too early")
            out += piece
            if len(out) > limit:
                raise _over(limit)
        position -= len(decoder.unused_data)
        if position == len(body):
            return bytes(out)
        if window != 31:
            raise zlib.error("there is data after the end")
    raise EOFError(_TOO_MANY_MEMBERS)


def _inflate_brotli(body: bytes, limit: int) -> bytes:
    out = bytearray()
    decoder = brotli.Decompressor()
    position = 0
    while not decoder.is_finished():
        data = b""
        if decoder.can_accept_more_data():
            data = body[position : position + _INPUT_BYTES]
            position += len(data)
            if not data:
                raise EOFError("the data ends too early")
        out += decoder.process(data, output_buffer_limit=min(_OUTPUT_BYTES, limit + 1 - len(out)))
        if len(out) > limit:
            raise _over(limit)
    if position < len(body):
        raise EOFError("there is data after the end")
    return bytes(out)


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    out = bytearray()
    position = 0
    for _ in range(_MAX_MEMBERS):
        if _declared_size(body[position : position + _ZSTD_HEAD]) > limit - len(out):
            raise _over(limit)
        decoder = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        while not decoder.eof:
            data = b""
            if decoder.needs_input:
                data = body[position : position + _INPUT_BYTES]
                position += len(data)
                if not data:
                    raise EOFError("the data ends too early")
            out += decoder.decompress(data, max_length=min(_OUTPUT_BYTES, limit + 1 - len(out)))
            if len(out) > limit:
                raise _over(limit)
        position -= len(decoder.unused_data)
        if position == len(body):
            return bytes(out)
    raise EOFError(_TOO_MANY_MEMBERS)


def _declared_size(head: bytes) -> int:
    """Return the size that a frame declares, 0 if none: a frame over the limit is refused before its window is read."""
    try:
        return zstd.get_frame_info(head).decompressed_size or 0
    except zstd.ZstdError:
        # The decoder reports the fault.
        return 0
