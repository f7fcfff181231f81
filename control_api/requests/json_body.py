"""Reads JSON bodies within limits of size and time, and lists every invalid field."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import Request

from git_hosts.payloads.json_keys import BadKeys, check_keys
from pipeline_contracts.errors import (
    FieldError,
    InvalidInput,
    PayloadTooLarge,
    RequestTimeout,
    UnsupportedMediaType,
)
from pipeline_contracts.json_members import Members, NotAnObject

_MAX_BYTES = 64 * 1024
_READ_TIMEOUT_SECONDS = 30.0


async def read_json_body(request: Request, max_bytes: int = _MAX_BYTES) -> bytes:
    """Return the bytes of a JSON body.

    Raises `UnsupportedMediaType` unless the content type is JSON, `PayloadTooLarge` at the first byte over the limit,
    `RequestTimeout` if the body does not arrive within 30 s, and `InvalidInput` if an object has a key twice. The
    check of `check_after_body` runs as soon as the body has arrived.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise UnsupportedMediaType("The body must be application/json.")
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType("This operation does not support Content-Encoding.")
    body = await read_bytes(request, max_bytes)
    if (check := getattr(request.state, "check_after_body", None)) is not None:
        await check()
    try:
        check_keys(body)
    except BadKeys as fault:
        subject = f"The body's key {fault.field!r}" if fault.field else "The body"
        raise InvalidInput(f"{subject} {fault}.", errors=[FieldError(fault.field, str(fault))]) from fault
    return body


def check_after_body(request: Request, check: Callable[[], Awaitable[object]]) -> None:
    """Run `check` after the body of this request: it may take 30 s, and its sender may lose the right meanwhile."""
    request.state.check_after_body = check


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """Return the body. Raises `PayloadTooLarge`, and `RequestTimeout` if it does not arrive within 30 s."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
            return await _read_stream(request, max_bytes)
    except TimeoutError as error:
        raise RequestTimeout(f"The body did not arrive within {_READ_TIMEOUT_SECONDS:g} s.") from error


async def _read_stream(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > max_bytes:
            raise _too_large(max_bytes)
        body += chunk
    return bytes(body)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is over {max_bytes} bytes.")


class JsonFields:
    """The fields of one operation's JSON object: the type of each, the rule in words, and whether it is required.
    `null` is the same as absent; unknown fields are ignored."""

    def __init__(self, fields: Mapping[str, tuple[Any, str, bool]], error_detail: str) -> None:
        """`error_detail` is the text above the list of invalid fields."""
        self._fields = fields
        self._error_detail = error_detail
        self._members = Members({name: type_ for name, (type_, _, _) in fields.items()})

    def read(
        self, body: bytes, is_valid: Callable[[str, Any], bool] = lambda _name, _value: True
    ) -> dict[str, Any]:
        """Return the values of the fields that are present. `is_valid` further checks values that fit their types.
        Raises `InvalidInput` that lists every invalid field."""
        try:
            values, invalid = self._members.read(body)
        except NotAnObject as error:
            raise InvalidInput(self._error_detail, errors=[FieldError("", str(error))]) from error
        errors = []
        for name, (_, rule, is_required) in self._fields.items():
            if name in invalid or (name in values and not is_valid(name, values[name])):
                errors.append(FieldError(name, rule))
            elif is_required and name not in values:
                errors.append(FieldError(name, f"is required; {rule}"))
        if errors:
            raise InvalidInput(self._error_detail, errors=errors)
        return values
