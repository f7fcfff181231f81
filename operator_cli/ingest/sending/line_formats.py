"""Convert lines of NDJSON and access logs (nginx, Apache) to the JSON of events.

Access logs are in the common or combined format and become `request` events. Addresses and user names never leave the
machine: the fields before the time are skipped. Fields after the combined ones are skipped too, except a last plain
number, the duration of the request.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal

import msgspec


class BadLine(Exception):
    """A line that is not sent. The message continues "line 7 …": "is not valid JSON"."""


# Before the time: host, ident and user; with some configurations the virtual host before them.
_LINE = re.compile(
    rb'\S+ [^"]*?\[(?P<time>\d\d/[^\]]{18,24})\] '
    rb'"(?P<request>[^"\\]*(?:\\.[^"\\]*)*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
    rb'(?: "(?P<referrer>[^"\\]*(?:\\.[^"\\]*)*)" "(?P<agent>[^"\\]*(?:\\.[^"\\]*)*)"(?P<more>.*))?\s*\Z',
    re.DOTALL,
)
_REQUEST = re.compile(rb"([A-Z][A-Z_-]{0,30}) (\S+)(?: (HTTP/[\d.]+))?\Z")
_SECONDS = re.compile(rb"(?:.*\s)?(\d+)(\.\d+)?\s*\Z", re.DOTALL)
_TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\Z")
_MONTHS = {
    month: number
    for number, month in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}


class _Attributes(msgspec.Struct, omit_defaults=True):
    method: str | None = None
    protocol: str | None = None
    bytes: int | None = None
    referrer: str | None = None
    user_agent: str | None = None


class _Request(msgspec.Struct, omit_defaults=True, tag_field="type", tag="request"):
    name: str
    severity: str
    timestamp: str
    status_code: int
    attributes: _Attributes
    route: str | None = None
    url: str | None = None
    duration_ms: float | None = None


_encode = msgspec.json.Encoder().encode


def is_access_log_line(line: bytes) -> bool:
    """Return True if the line is in the common or combined format."""
    return _LINE.match(line) is not None


def encode_access_log_line(line: bytes) -> bytes:
    """Return the event of one line as JSON. Raises `BadLine`."""
    match = _LINE.match(line)
    if match is None:
        raise BadLine("is not of the common or combined log format")
    time, request, status, size, referrer, agent, more = match.groups()
    code = int(status)
    event = _Request(
        name="-",
        severity="error" if code >= 500 else "warning" if code >= 400 else "info",
        timestamp=_rfc3339(time),
        status_code=code,
        attributes=_Attributes(
            bytes=None if size == b"-" else int(size),
            referrer=_decode_field(referrer),
            user_agent=_decode_field(agent),
        ),
    )
    # Requests that are not HTTP (a TLS hello on the plain port, a port scan) are logged with an empty or odd request.
    if (parts := _REQUEST.match(request)) is not None:
        method, url = parts[1].decode(), parts[2].decode(errors="replace")
        event.attributes.method = method
        event.attributes.protocol = _decode_field(parts[3])
        event.url = url
        event.route = url.partition("?")[0]
        event.name = f"{method} {event.route}"
    if more:
        event.duration_ms = _duration_ms(more)
    return _encode(event)


def _decode_field(field: bytes | None) -> str | None:
    if field is None or field in (b"", b"-"):
        return None
    return field.decode(errors="replace")


def _duration_ms(more: bytes) -> float | None:
    """Return milliseconds from a fraction of seconds (nginx `$request_time`) or whole microseconds (Apache `%D`)."""
    match = _SECONDS.match(more)
    if match is None:
        return None
    if match[2] is None:
        return int(match[1]) / 1000
    return round(float(match[1] + match[2]) * 1000, 3)


@lru_cache(4096)
def _rfc3339(time: bytes) -> str:
    """Return `10/Oct/2000:13:55:36 -0700` as `2000-10-10T13:55:36-07:00`. Cached for lines of the same second."""
    match = _TIME.match(time.decode(errors="replace"))
    if match is None or match[2] not in _MONTHS:
        raise BadLine("has no time like 10/Oct/2000:13:55:36 -0700")
    day, month, year, hour, minute, second, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        # A leap second becomes the second before it, because the server's time type has none.
        moment = datetime(
            int(year), _MONTHS[month], int(day), int(hour), int(minute), min(int(second), 59), tzinfo=zone
        )
    except ValueError as error:
        raise BadLine(f"has an impossible time ({error})") from None
    return moment.isoformat()


FormatName = Literal["ndjson", "combined"]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Head(msgspec.Struct, gc=False):
    """The only checked field; decoding still checks the syntax of the whole line."""

    type: str


_check = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How to encode a line: `encode` returns the JSON of its event or raises `BadLine`.

    `is_self_delimiting` is True if a line without a line end is complete once it can be encoded.
    """

    name: FormatName
    encode: Callable[[bytes], bytes]
    is_self_delimiting: bool


def _encode_json_line(line: bytes) -> bytes:
    """Return the line itself after checking it."""
    try:
        if not line.isascii():
            # The decoder does not check text that it skips, but the server would refuse the batch for it.
            line.decode()
        _check(line)
    except UnicodeDecodeError as error:
        raise BadLine(f"is not valid UTF-8 (byte {error.start})") from None
    except msgspec.ValidationError as error:
        raise BadLine(f"is not an event: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadLine(f"is not valid JSON: {error}") from None
    return line


FORMATS: dict[FormatName, LineFormat] = {
    "ndjson": LineFormat("ndjson", _encode_json_line, is_self_delimiting=True),
    "combined": LineFormat("combined", encode_access_log_line, is_self_delimiting=False),
}


def detect_format(beginning: bytes) -> LineFormat | None:
    """Return the format of a file from its first line that is not blank, None if it is unknown."""
    first = next((line for line in beginning.removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip()), b"")
    if first.lstrip().startswith(b"{"):
        return FORMATS["ndjson"]
    return FORMATS["combined"] if is_access_log_line(first) else None
