"""Reads the headers and JSON bodies of webhook deliveries.

A header that is sent twice is refused: a proxy may have read the other value.
"""

import re
from binascii import a2b_qp
from typing import TypeVar

import msgspec
from msgspec.json import Decoder

from git_hosts.interface import Headers
from git_hosts.payloads.json_keys import BadKeys, check_keys
from git_hosts.payloads.values import payload_error
from pipeline_contracts.errors import BadSignature, PayloadNotUsable

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_FORM_MEMBER = b"payload"
_HALF_ESCAPED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_FORM_MEMBERS = 16
_ERROR_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")
_MISSING_FIELD = re.compile("Object missing required field `(?P<name>[^`]*)`")

_DELIVERY_ID = re.compile(r"[\x20-\x7e]{1,255}")
_EVENT_NAME = re.compile(r"[\x20-\x7e]{1,100}")

T = TypeVar("T")


def read_signature_header(headers: Headers, name: str, advice: str) -> str:
    """Return the header that proves who sent the delivery. Raises `BadSignature`, with `advice` if the header is
    missing."""
    values = headers.get(name.lower(), ())
    if not values:
        raise BadSignature(f"The header {name} is missing. {advice}")
    if len(values) > 1:
        raise BadSignature(f"The header {name} was sent {len(values)} times. Send it once.")
    return values[0]


def read_single_header(headers: Headers, name: str) -> str | None:
    """Return the only value of the header; None if it is missing. Raises `PayloadNotUsable`."""
    values = headers.get(name.lower(), ())
    if len(values) > 1:
        raise payload_error(name, f"was sent {len(values)} times", "Send it once.")
    return values[0] if values else None


def read_event_header(headers: Headers, name: str) -> str:
    """Return the host's name of the event. Raises `PayloadNotUsable`."""
    event = read_single_header(headers, name)
    if event is None:
        raise payload_error(name, "is missing", "It must name the event.")
    if _EVENT_NAME.fullmatch(event) is None:
        raise payload_error(name, "must be 1 to 100 printable ASCII characters")
    return event


def read_delivery_header(headers: Headers, *names: str) -> str | None:
    """Return the first of these headers that is present, or None. Raises `PayloadNotUsable`."""
    for name in names:
        delivery = read_single_header(headers, name)
        if delivery is None:
            continue
        if _DELIVERY_ID.fullmatch(delivery) is None:
            raise payload_error(name, "must be 1 to 255 printable ASCII characters")
        return delivery
    return None


def read_json(raw: bytes, headers: Headers, *, may_be_form: bool = False) -> bytes:
    """Return the body's JSON. `may_be_form`: also accept a form with the JSON in its member `payload`. Raises
    `PayloadNotUsable`."""
    encoding = read_single_header(headers, "Content-Encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise payload_error("Content-Encoding", "must be identity", "Send the body as it is.")
    content_type = read_single_header(headers, "Content-Type")
    media_type = _JSON if content_type is None else content_type.partition(";")[0].strip().lower()
    if media_type != _JSON and not (may_be_form and media_type == _FORM):
        raise payload_error("Content-Type", f"must be {_JSON}", "Choose that at the Git host's webhook.")
    json = raw if media_type == _JSON else _read_form(raw)
    # Check the whole body: the decoder skips strings of unused members without checking their encoding.
    try:
        json.decode()
    except UnicodeDecodeError as error:
        raise payload_error("body", "must be UTF-8") from error
    try:
        check_keys(json)
    except BadKeys as fault:
        raise payload_error(fault.field or "body", str(fault)) from fault
    return json


def _read_form(raw: bytes) -> bytes:
    if raw.count(b"&") >= _MAX_FORM_MEMBERS or _HALF_ESCAPED.search(raw):
        raise payload_error("body", f"must be a form of at most {_MAX_FORM_MEMBERS} members")
    members = [member.partition(b"=") for member in raw.split(b"&")]
    payloads = [value for name, _, value in members if _unquote(name) == _FORM_MEMBER]
    if len(payloads) != 1:
        raise payload_error(_FORM_MEMBER.decode(), "must be in the form exactly once")
    return _unquote(payloads[0])


def _unquote(text: bytes) -> bytes:
    # Convert to quoted-printable, which has a decoder in C: urllib takes 200 bytes of memory for each escape.
    return a2b_qp(text.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"="))


def decode(decoder: "Decoder[T]", json: bytes) -> T:
    """Decode the members of the decoder's type. Raises `PayloadNotUsable` with the path of the invalid member."""
    try:
        return decoder.decode(json)
    except msgspec.ValidationError as error:
        raise _to_payload_error(str(error)) from error
    except RecursionError as error:
        raise payload_error("body", "is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise payload_error("body", "must be one JSON object") from error


def _to_payload_error(error: str) -> PayloadNotUsable:
    found = _ERROR_PATH.search(error)
    path = found["path"] if found else ""
    message = error[: found.start()] if found else error
    missing = _MISSING_FIELD.fullmatch(message)
    if missing:
        return payload_error(f"{path}.{missing['name']}".lstrip("."), "is missing")
    return payload_error(path or "body", f"has the wrong type: {message[:1].lower()}{message[1:]}")
