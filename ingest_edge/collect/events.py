"""Convert events as browsers send them to events of the log, without address and User-Agent. Pure."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import msgspec

from ingest_edge.collect.sources import name_source
from ingest_edge.collect.visitors import BRIDGE_MS, VisitorHashes
from pipeline_contracts.collected import (
    DEVICES,
    ENGAGEMENT,
    FILE_DOWNLOAD,
    OUTBOUND_LINK,
    VITALS,
    WEB_VITAL,
    CollectedEvent,
    SentEvent,
)
from pipeline_contracts.times import DAY_MS, to_epoch_ms

_BACK_MS = 24 * 3_600_000
_AHEAD_MS = 5 * 60_000
_MAX_TEXT = 255
_MAX_URL = 2048
# A duration over a day is a wrong measurement.
_MAX_VISIBLE_MS = DAY_MS
_MAX_MILLIONTHS = 2**62
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_AMOUNT = re.compile(r"[+-]?(\d{1,16}(\.\d{0,12})?|\.\d{1,12})([eE][+-]?\d{1,2})?")
# Events of the tracker, whose properties are fixed and have no revenue.
_TRACKER_EVENTS = frozenset({OUTBOUND_LINK, FILE_DOWNLOAD, ENGAGEMENT, WEB_VITAL})
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Client:
    """The browser that sent a request."""

    device: str = ""
    browser: str = ""
    os: str = ""


def collect_events(
    sent: Sequence[SentEvent],
    received_ms: int,
    origins: tuple[str, ...],
    client: Client,
    hashes: VisitorHashes,
) -> list[CollectedEvent]:
    """Convert the events, in their order. A time that is too far from the time of receipt is replaced by the time of
    receipt."""
    return [_collect(event, received_ms, origins, client, hashes) for event in sent]


def _collect(
    sent: SentEvent, received_ms: int, origins: tuple[str, ...], client: Client, hashes: VisitorHashes
) -> CollectedEvent:
    at_ms = received_ms
    if sent.occurred_at is not None:
        occurred_ms = to_epoch_ms(sent.occurred_at)
        if received_ms - _BACK_MS <= occurred_ms <= received_ms + _AHEAD_MS:
            at_ms = occurred_ms
    day, ms_of_day = divmod(at_ms, DAY_MS)
    referrer = sent.referrer_host
    event = CollectedEvent(
        sent.id,
        at_ms,
        sent.path or "/",
        hashes.visitor(day, sent.visitor),
        name_source(sent.utm_source or "", referrer or "", origins),
        _device(sent.device) or client.device,
        sent.browser[:_MAX_TEXT] if sent.browser else client.browser,
        sent.os[:_MAX_TEXT] if sent.os else client.os,
    )
    if sent.session:
        event.session = hashes.session(day, sent.session)
    if ms_of_day <= BRIDGE_MS:
        event.previous_day_hash = (
            hashes.session(day - 1, sent.session) if sent.session else hashes.visitor(day - 1, sent.visitor)
        )
    if referrer:
        event.referrer_host = referrer[:_MAX_TEXT]
    if sent.utm_medium:
        event.medium = sent.utm_medium[:_MAX_TEXT]
    if sent.utm_campaign:
        event.campaign = sent.utm_campaign[:_MAX_TEXT]
    if sent.type == "event":
        event.is_event = True
        _set_properties(event, sent.properties or {}, day, hashes)
    return event


def count_ignored_revenue(sent: Sequence[SentEvent], events: Sequence[CollectedEvent]) -> int:
    """Count the custom events with a `revenue` that is no amount with a currency, like `"12,50"`.

    `events` is the result of `collect_events` for `sent`. Such an event is stored without revenue: the conversion did
    happen, and the amount must not be guessed.
    """
    ignored = 0
    for sent_event, event in zip(sent, events, strict=True):
        if (
            event.is_event
            and sent_event.properties
            and not event.currency
            and event.name not in _TRACKER_EVENTS
        ):
            ignored += sent_event.properties.get("revenue") is not None
    return ignored


def _device(name: str | None) -> str:
    if name is None:
        return ""
    device = name.strip().title()
    return device if device in DEVICES else ""


def _set_properties(
    event: CollectedEvent, properties: dict[str, Any], day: int, hashes: VisitorHashes
) -> None:
    name = properties.get("name")
    event.name = name[:_MAX_TEXT] if isinstance(name, str) else ""
    if event.name in (OUTBOUND_LINK, FILE_DOWNLOAD):
        url = properties.get("url")
        event.url = url[:_MAX_URL] if isinstance(url, str) else ""
    elif event.name == ENGAGEMENT:
        event.visible_ms = _visible_ms(properties.get("visible_seconds"))
    elif event.name == WEB_VITAL:
        _set_vital(event, properties, day, hashes)
    else:
        _set_revenue(event, properties)
        rest = {key: value for key, value in properties.items() if key != "name"}
        if rest:
            event.properties = _encode(rest).decode()


def _visible_ms(value: Any) -> int:
    seconds = _number(value)
    if seconds is None or seconds < 0:
        return 0
    return min(round(seconds * 1000), _MAX_VISIBLE_MS)


def _set_vital(event: CollectedEvent, properties: dict[str, Any], day: int, hashes: VisitorHashes) -> None:
    metric, value, vital_id = properties.get("metric"), _number(properties.get("value")), properties.get("id")
    if not isinstance(metric, str) or metric.upper() not in VITALS or not isinstance(vital_id, str):
        return
    if value is None or value < 0 or not vital_id:
        return
    event.metric, event.value = metric.upper(), value
    event.vital = hashes.measurement(day, vital_id)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _set_revenue(event: CollectedEvent, properties: dict[str, Any]) -> None:
    """Set both the amount and its currency, or neither."""
    revenue, currency = properties.get("revenue"), properties.get("currency")
    if isinstance(revenue, bool) or not isinstance(revenue, int | float | str):
        return
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        return
    text = revenue if isinstance(revenue, str) else repr(revenue)
    if not _AMOUNT.fullmatch(text):
        return
    try:
        millionths = int((Decimal(text) * 1_000_000).to_integral_value(ROUND_HALF_UP))
    except InvalidOperation:
        return
    if abs(millionths) <= _MAX_MILLIONTHS:
        event.revenue, event.currency = millionths, currency.upper()
