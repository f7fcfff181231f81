"""Makes rows of `pageviews` and `dropped_pageviews`. The members have the names of the columns."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from consumers.chunk import RecordRows
from consumers.visits import Visit
from pipeline_contracts.collected import CollectedEvent, CollectMeta, Dropped
from pipeline_contracts.times import DAY_MS


class PageviewRow(msgspec.Struct, gc=False, omit_defaults=True):
    """The row of one event, with its visit. Times are seconds since 1970, `day` is days since 1970, and `id` is 32
    hexadecimal digits."""

    site_id: int
    day: int
    visit_id: int
    occurred_at: float
    received_at: float
    id: str
    path: str
    visit_began: float
    visitor: int
    visit_key: int
    source: str
    log: str
    log_offset: int
    before_key: int = 0
    referrer_host: str = ""
    medium: str = ""
    campaign: str = ""
    device: str = ""
    browser: str = ""
    os: str = ""
    country: str = ""
    is_event: bool = False
    name: str = ""
    url: str = ""
    visible_ms: int = 0
    metric: str = ""
    value: float = 0.0
    vital: int = 0
    revenue: int = 0
    currency: str = ""
    properties: str = ""


class IdRow(msgspec.Struct, gc=False):
    """A row with the ID of an event, by which a repetition of the event is recognised."""

    id: str
    site_id: int
    received_at: float
    log: str
    log_offset: int


class ReceivedEvent(CollectedEvent, array_like=True, gc=False):
    """A `CollectedEvent` whose ID stays 16 bytes: a Python object for each ID would cost as much as all other
    fields."""

    id: Annotated[bytes, Meta(min_length=16, max_length=16)]  # type: ignore[assignment]


class ReceivedEvents(msgspec.Struct, array_like=True, gc=False):
    """A `Collected` whose events are `ReceivedEvent`s."""

    country: str
    events: list[ReceivedEvent]


_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
decode_received = msgspec.msgpack.Decoder(ReceivedEvents).decode
"""Decodes the value of a record of the kind `events`. Raises `msgspec.DecodeError`."""


def pageview_row(
    site_id: int, received_at: float, country: str, event: ReceivedEvent, visit: Visit, log: str, offset: int
) -> PageviewRow:
    """Return the row of one event. `log` and `offset` identify the record that contains the event."""
    occurred_ms = event.occurred_ms
    visitor = event.visitor
    row = PageviewRow(
        site_id,
        occurred_ms // DAY_MS,
        visit.visit_id,
        occurred_ms / 1000,
        received_at,
        event.id.hex(),
        event.path,
        visit.first_ms / 1000,
        visitor,
        event.session or visitor,
        event.source,
        log,
        offset,
        event.previous_day_hash,
        event.referrer_host,
        event.medium,
        event.campaign,
        event.device,
        event.browser,
        event.os,
        country,
    )
    if event.is_event:
        # The edge leaves these fields empty for page views.
        row.is_event = True
        row.name = event.name
        row.url = event.url
        row.visible_ms = event.visible_ms
        row.metric = event.metric
        row.value = event.value
        row.vital = event.vital
        row.revenue = event.revenue
        row.currency = event.currency
        row.properties = event.properties
    return row


def id_row(row: PageviewRow) -> IdRow:
    return IdRow(row.id, row.site_id, row.received_at, row.log, row.log_offset)


def encode_record_rows(offset: int, rows: Sequence[PageviewRow | IdRow]) -> RecordRows:
    if len(rows) == 1:
        # This is the usual case: most requests have one event.
        return RecordRows(offset, _encode(rows[0]) + b"\n", 1)
    return RecordRows(offset, _encoder.encode_lines(rows), len(rows))


def dropped_id_rows(meta: CollectMeta, dropped: Dropped, log: str, offset: int) -> RecordRows:
    """Return the row by which the record is recognised if it is repeated."""
    row = IdRow(dropped.id.hex(), meta.site_id, meta.received_ms / 1000, log, offset)
    return RecordRows(offset, _encode(row) + b"\n", 1)


def dropped_rows(meta: CollectMeta, dropped: Dropped, log: str, offset: int) -> RecordRows:
    """Return one row for each reason for which an edge has dropped events."""
    rows = [
        {
            "site_id": meta.site_id,
            "received_at": meta.received_ms / 1000,
            "reason": reason,
            "events": events,
            "log": log,
            "log_offset": offset,
        }
        for reason, events in sorted(dropped.counts.items())
    ]
    return RecordRows(offset, _encoder.encode_lines(rows), len(rows))
