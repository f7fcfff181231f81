"""Reads the bodies of deliveries: JSON, of which only the members are decoded that somebody needs."""

import re
from binascii import a2b_qp
from typing import TypeVar

import msgspec
from msgspec.json import Decoder

from git_hosts.interface import Headers
from git_hosts.payloads.headers import one_header
from git_hosts.payloads.json_keys import BadKeys, check_keys
from git_hosts.payloads.unusable import unusable
from pipeline_contracts.errors import PayloadNotUsable

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_FORM_MEMBER = b"payload"
_HALF_ESCAPED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MOST_FORM_MEMBERS = 16
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")
_MISSING = re.compile("Object missing required field `(?P<name>[^`]*)`")

T = TypeVar("T")


def read_json(raw: bytes, headers: Headers, *, may_be_form: bool = False) -> bytes:
    """The body's JSON. `may_be_form`: it may also be the member `payload` of a form. Raises `PayloadNotUsable`."""
    encoding = one_header(headers, "Content-Encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise unusable("Content-Encoding", "must be identity", "Send the body as it is.")
    given = one_header(headers, "Content-Type")
    media_type = _JSON if given is None else given.partition(";")[0].strip().lower()
    if media_type != _JSON and not (may_be_form and media_type == _FORM):
        raise unusable("Content-Type", f"must be {_JSON}", "Choose that at the Git host's webhook.")
    json = raw if media_type == _JSON else _read_form(raw)
    # All of it, because the decoder skips strings that nobody needs without a look.
    try:
        json.decode()
    except UnicodeDecodeError as error:
        raise unusable("body", "must be UTF-8") from error
    try:
        check_keys(json)
    except BadKeys as fault:
        raise unusable(fault.field or "body", str(fault)) from fault
    return json


def _read_form(raw: bytes) -> bytes:
    if raw.count(b"&") >= _MOST_FORM_MEMBERS or _HALF_ESCAPED.search(raw):
        raise unusable("body", f"must be a form of at most {_MOST_FORM_MEMBERS} members")
    members = [member.partition(b"=") for member in raw.split(b"&")]
    payloads = [value for name, _, value in members if _unquote(name) == _FORM_MEMBER]
    if len(payloads) != 1:
        raise unusable(_FORM_MEMBER.decode(), "must be in the form exactly once")
    return _unquote(payloads[0])


def _unquote(text: bytes) -> bytes:
    # Quoted-printable but for its sign, and that is read in C: urllib takes 200 bytes of memory for each escape.
    return a2b_qp(text.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"="))


def decode(decoder: "Decoder[T]", json: bytes) -> T:
    """The members that the decoder's type has. Raises `PayloadNotUsable`, which names the path of what is wrong."""
    try:
        return decoder.decode(json)
    except msgspec.ValidationError as error:
        raise _explain(str(error)) from error
    except RecursionError as error:
        raise unusable("body", "is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise unusable("body", "must be one JSON object") from error


def _explain(told: str) -> PayloadNotUsable:
    at = _AT.search(told)
    path = at["path"] if at else ""
    message = told[: at.start()] if at else told
    missing = _MISSING.fullmatch(message)
    if missing:
        return unusable(f"{path}.{missing['name']}".lstrip("."), "is missing")
    return unusable(path or "body", f"has the wrong type: {message[:1].lower()}{message[1:]}")
