"""Replace leap seconds in times that callers send: `:60`, which RFC 3339 allows, becomes the following second."""

import re
from datetime import datetime, timedelta

import msgspec
from msgspec import Raw

_LEAP = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d):60((?:\.\d+)?(?:[Zz]|[+-]\d\d:?\d\d))", re.ASCII)
_MARK = b":60"

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


def following_second(time: str) -> str | None:
    """Return an RFC 3339 time in a leap second as the second that follows, with its fraction and offset.

    None for any other text.
    """
    match = _LEAP.fullmatch(time)
    if match is None:
        return None
    try:
        minute = datetime.fromisoformat(match[1].replace(" ", "T").replace("t", "T"))
        return (minute + timedelta(minutes=1)).isoformat() + match[2]
    except (ValueError, OverflowError):
        return None


def replace_leap_second(body: bytes, name: str) -> bytes | None:
    """Return the JSON object `body` with a leap second in its member `name` replaced by the following second.

    None if there is none. The values of other members stay as they are, byte for byte.
    """
    if _MARK not in body:
        return None
    try:
        members = _decode_members(body)
        replaced = following_second(_decode_text(members[name])) if name in members else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if replaced is None:
        return None
    members[name] = Raw(_encode(replaced))
    return b"{%b}" % b",".join(b"%b:%b" % (_encode(key), bytes(value)) for key, value in members.items())
