"""Reads the access logs of nginx and Apache: the common and the combined format, as `request` events.

No address and no user name leaves the machine: the fields before the time are read over. Fields behind the
combined ones are read over too, but for a last plain number, the time that the request took.
"""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

import msgspec

from operator_cli.sending.bad_line import BadLine

# Before the time: host, ident and user; with some set-ups the virtual host before them.
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
    """Whether `line` is of the common or combined format."""
    return _LINE.match(line) is not None


def encode_access_log_line(line: bytes) -> bytes:
    """The event of one line as JSON. Raises `BadLine`."""
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
            bytes=None if size == b"-" else int(size), referrer=_text(referrer), user_agent=_text(agent)
        ),
    )
    # What is no HTTP (a TLS hello on the plain port, a port scan) is logged with an empty or odd request.
    if (parts := _REQUEST.match(request)) is not None:
        method, url = parts[1].decode(), parts[2].decode(errors="replace")
        event.attributes.method = method
        event.attributes.protocol = _text(parts[3])
        event.url = url
        event.route = url.partition("?")[0]
        event.name = f"{method} {event.route}"
    if more:
        event.duration_ms = _duration_ms(more)
    return _encode(event)


def _text(field: bytes | None) -> str | None:
    if field is None or field in (b"", b"-"):
        return None
    return field.decode(errors="replace")


def _duration_ms(more: bytes) -> float | None:
    """A fraction is seconds (nginx `$request_time`), a whole number microseconds (Apache `%D`)."""
    match = _SECONDS.match(more)
    if match is None:
        return None
    if match[2] is None:
        return int(match[1]) / 1000
    return round(float(match[1] + match[2]) * 1000, 3)


@lru_cache(4096)
def _rfc3339(time: bytes) -> str:
    """`10/Oct/2000:13:55:36 -0700` as `2000-10-10T13:55:36-07:00`. Lines of one second share the work."""
    match = _TIME.match(time.decode(errors="replace"))
    if match is None or match[2] not in _MONTHS:
        raise BadLine("has no time like 10/Oct/2000:13:55:36 -0700")
    day, month, year, hour, minute, second, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        # A leap second is the second before it: the server's clock type has none.
        moment = datetime(
            int(year), _MONTHS[month], int(day), int(hour), int(minute), min(int(second), 59), tzinfo=zone
        )
    except ValueError as error:
        raise BadLine(f"has an impossible time ({error})") from None
    return moment.isoformat()
