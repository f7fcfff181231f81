"""The wire format of web analytics: what a collect request carries, and what the edge makes of it for the log.

Nothing in the latter identifies a person: visitors and sessions are hashes under salts that are deleted after 48 h.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

LONGEST_PATH = 2048
MOST_PROPERTIES = 8
MOST_EVENTS = 20

OUTBOUND_LINK: Final = "Outbound Link: Click"
FILE_DOWNLOAD: Final = "File Download"
NOT_FOUND: Final = "404"
WEB_VITAL: Final = "Web Vital"
ENGAGEMENT: Final = "Engagement"

PASSIVE: Final = frozenset({WEB_VITAL, ENGAGEMENT})
"""Events that the page sends by itself: alone they make neither a visit nor a visitor."""
VITALS: Final = ("LCP", "INP", "CLS", "FCP", "TTFB")
DEVICES: Final = ("Desktop", "Mobile", "Tablet")

Moment = Annotated[datetime, Meta(tz=True)]


class SentEvent(Struct, gc=False):
    """An item of `events` in the body of `POST /v1/collect/{publicId}`."""

    id: UUID
    type: Literal["pageview", "event"]
    path: Annotated[str, Meta(max_length=LONGEST_PATH)]
    occurred_at: Moment | None = None
    referrer_host: str | None = None
    utm_source: str | None = None
    utm_medium: str | None = None
    utm_campaign: str | None = None
    device: str | None = None
    browser: str | None = None
    os: str | None = None
    visitor: str | None = None
    session: str | None = None
    properties: Annotated[dict[str, Any], Meta(max_length=MOST_PROPERTIES)] | None = None


class SentEvents(Struct, gc=False):
    """The body."""

    events: Annotated[list[SentEvent], Meta(min_length=1, max_length=MOST_EVENTS)]


class CollectedEvent(Struct, array_like=True, gc=False, omit_defaults=True):
    """One event as it lies in the log. Hashes are 64 bits, never 0.

    Fields are only ever added at the end, with a default, so that old records stay readable.
    """

    id: UUID
    occurred_ms: int
    path: str
    visitor: int
    source: str
    device: str = ""
    browser: str = ""
    os: str = ""
    before: int = 0
    """The hash under the salt of the day before, of `session` if there is one, else of the visitor: in the first half
    hour of a day (UTC), so that a visit goes on over midnight."""
    session: int = 0
    """The session's hash, where the sender named one."""
    name: str = ""
    """The event's; empty for a page view."""
    is_event: bool = False
    referrer_host: str = ""
    medium: str = ""
    campaign: str = ""
    url: str = ""
    visible_ms: int = 0
    metric: str = ""
    value: float = 0.0
    vital: int = 0
    """The hash of the measurement that a Web Vital's values belong to."""
    revenue: int = 0
    """In millionths of `currency`."""
    currency: str = ""
    properties: str = ""
    """What else a custom event carries: a JSON object, as text."""


class Collected(Struct, array_like=True, gc=False):
    """What one request has brought: the value of its record."""

    country: str
    events: list[CollectedEvent]


class CollectMeta(Struct, array_like=True, frozen=True, gc=False):
    """Which site a record is of and when it came; travels in the record's header, as a MessagePack array."""

    site_id: int
    received_ms: int
    """Time of receipt at the edge, milliseconds since 1970, UTC."""
    events: int
    kind: Literal["events", "dropped"] = "events"
    """`dropped`: the value is a `Dropped`."""


class Dropped(Struct, array_like=True, gc=False):
    """How many events of a site an edge has dropped since it said so last, by reason."""

    counts: dict[str, int]


# IDs are 16 bytes, not 36 characters.
_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
encode_collected = _encoder.encode
_collected = msgspec.msgpack.Decoder(Collected)
_dropped = msgspec.msgpack.Decoder(Dropped)
_meta = msgspec.msgpack.Decoder(CollectMeta)


def decode_collected(data: bytes) -> Collected:
    """Raises `msgspec.DecodeError` for foreign bytes; so do the others."""
    return _collected.decode(data)


def decode_dropped(data: bytes) -> Dropped:
    """The value of a record of kind `dropped`."""
    return _dropped.decode(data)


def decode_collect_meta(data: bytes) -> CollectMeta:
    """The header's content."""
    return _meta.decode(data)
