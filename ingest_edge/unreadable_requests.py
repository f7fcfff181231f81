"""Build the problems for requests that the server cannot read."""

from aiohttp import hdrs
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from pipeline_contracts.errors import (
    HeadTooLarge,
    MalformedRequest,
    MethodNotImplemented,
    Problem,
    RequestTimeout,
)


def head_too_large(head_bytes: int) -> HeadTooLarge:
    """Return the problem for a request line and headers that together exceed the limit."""
    return HeadTooLarge(
        f"The request line and the headers are over {head_bytes} bytes together. "
        "Send fewer or shorter headers."
    )


def head_is_late(head_seconds: float) -> RequestTimeout:
    """Return the problem for a head that is not complete in time."""
    return RequestTimeout(
        f"The head of the request did not arrive within {head_seconds:g} s. Send the request again."
    )


def small_chunks(mean_bytes: int) -> MalformedRequest:
    """Return the problem for a body of many chunks with fewer than `mean_bytes` bytes on average."""
    return MalformedRequest(
        f"The body is sent in many chunks of under {mean_bytes} bytes on average. Send fewer, larger chunks."
    )


def unreadable_request() -> MalformedRequest:
    """Return the problem for bytes that are no HTTP request."""
    return MalformedRequest(
        "The request line, a header or the length of the body cannot be read. Check that the client speaks "
        "HTTP/1.1, and that https:// is not used on a port for http://."
    )


def problem_for_error(
    error: BaseException | None, head_bytes: int, head_seconds: float, method: bytes
) -> Problem:
    """Return the problem for an error of aiohttp's parser, or of a handler. `method` is empty if it is unreadable."""
    if isinstance(error, BadHttpMethod) and method and method.decode() not in hdrs.METH_ALL:
        return MethodNotImplemented(
            "The server does not know this method. Use one that the API reference lists, like GET or POST."
        )
    if isinstance(error, LineTooLong) or (isinstance(error, HttpProcessingError) and error.code == 431):
        return head_too_large(head_bytes)
    if isinstance(error, HttpProcessingError) and error.code == 408:
        return head_is_late(head_seconds)
    if isinstance(error, HttpProcessingError):
        return unreadable_request()
    return Problem("The request failed here. It is safe to send it again.")
