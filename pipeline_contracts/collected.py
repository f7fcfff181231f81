"""The wire formats of web analytics: the body of a collect request, and the records that the edge appends to the log.

No record identifies a person: visitors and sessions are hashes under salts that are deleted after 48 h.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

MAX_PATH_LENGTH = 2048
MAX_PROPERTIES = 8
MAX_EVENTS = 20

OUTBOUND_LINK: Final = "Outbound Link: Click"
FILE_DOWNLOAD: Final = "File Download"
NOT_FOUND: Final = "404"
WEB_VITAL: Final = "Web Vital"
ENGAGEMENT: Final = "Engagement"

PASSIVE_EVENTS: Final = frozenset({WEB_VITAL, ENGAGEMENT})
"""Events that the page sends by itself: alone they count as neither a visit nor a visitor."""
VITALS: Final = ("LCP", "INP", "CLS", "FCP", "TTFB")
DEVICES: Final = ("Desktop", "Mobile", "Tablet")

Timestamp = Annotated[datetime, Meta(tz=True)]


class SentEvent(Struct, gc=False):
    """An item of `events` in the body of `POST /v1/collect/{publicId}`."""

    id: UUID
    type: Literal["pageview", "event"]
    path: Annotated[str, Meta(max_length=MAX_PATH_LENGTH)]
    occurred_at: Timestamp | None = None
    referrer_host: str | None = None
    utm_source: str | None = None
    utm_medium: str | None = None
    utm_campaign: str | None = None
    device: str | None = None
    browser: str | None = None
    os: str | None = None
    visitor: str | None = None
    session: str | None = None
    properties: Annotated[dict[str, Any], Meta(max_length=MAX_PROPERTIES)] | None = None


class SentEvents(Struct, gc=False):
    """The body of `POST /v1/collect/{publicId}`."""

    events: Annotated[list[SentEvent], Meta(min_length=1, max_length=MAX_EVENTS)]


class CollectedEvent(Struct, array_like=True, gc=False, omit_defaults=True):
    """One event in a log record. Hashes are 64 bits, never 0.

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
    previous_day_hash: int = 0
    """Hash of `session`, or else of the visitor, under the salt of the day before. Set in the first half hour of a day
    (UTC), so that a visit can continue over midnight."""
    session: int = 0
    """Hash of the session ID, if the sender named one."""
    name: str = ""
    """Name of a custom event; empty for a page view."""
    is_event: bool = False
    referrer_host: str = ""
    medium: str = ""
    campaign: str = ""
    url: str = ""
    visible_ms: int = 0
    metric: str = ""
    value: float = 0.0
    vital: int = 0
    """Hash of the measurement ID that the values of a Web Vital share."""
    revenue: int = 0
    """In millionths of `currency`."""
    currency: str = ""
    properties: str = ""
    """Further properties of a custom event: the text of a JSON object."""


class Collected(Struct, array_like=True, gc=False):
    """The value of a log record: the events of one request."""

    country: str
    events: list[CollectedEvent]


class CollectMeta(Struct, array_like=True, frozen=True, gc=False):
    """The header of a log record, as a MessagePack array: its site and time of receipt."""

    site_id: int
    received_ms: int
    """Time of receipt at the edge, milliseconds since 1970, UTC."""
    events: int
    kind: Literal["events", "dropped"] = "events"
    """`dropped`: the value is a `Dropped`."""


class Dropped(Struct, array_like=True, gc=False):
    """Number of events of a site that an edge has dropped since its last record of this kind, by reason."""

    counts: dict[str, int]
    id: Annotated[bytes, Meta(max_length=16)] = b""
    """A UUID as 16 bytes: an edge that does not know whether the log has the record appends it again. Empty in records
    of older edges."""


# IDs are 16 bytes, not 36 characters.
_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
encode_collected = _encoder.encode
_collected = msgspec.msgpack.Decoder(Collected)
_dropped = msgspec.msgpack.Decoder(Dropped)
_meta = msgspec.msgpack.Decoder(CollectMeta)


def decode_collected(data: bytes) -> Collected:
    """Decode the value of a record of kind `events`. This and the functions below raise `msgspec.DecodeError`."""
    return _collected.decode(data)


def decode_dropped(data: bytes) -> Dropped:
    """Decode the value of a record of kind `dropped`."""
    return _dropped.decode(data)


def decode_collect_meta(data: bytes) -> CollectMeta:
    """Decode the header of a record."""
    return _meta.decode(data)
