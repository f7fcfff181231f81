"""What a browser sent becomes what goes into the log. Pure: no address and no User-Agent is in it."""

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
_LONGEST = 255
_LONGEST_URL = 2048
# A day: what is longer was measured wrongly.
_MOST_VISIBLE_MS = DAY_MS
_MOST_MILLIONTHS = 2**62
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_AMOUNT = re.compile(r"[+-]?(\d{1,16}(\.\d{0,12})?|\.\d{1,12})([eE][+-]?\d{1,2})?")
# Their properties are known, and none is an amount.
_KNOWN = frozenset({OUTBOUND_LINK, FILE_DOWNLOAD, ENGAGEMENT, WEB_VITAL})
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Client:
    """What the request tells of the browser behind it."""

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
    """The events in their order. A time that is too far from the time of receipt becomes that."""
    return [_collect(event, received_ms, origins, client, hashes) for event in sent]


def _collect(
    sent: SentEvent, received_ms: int, origins: tuple[str, ...], client: Client, hashes: VisitorHashes
) -> CollectedEvent:
    at_ms = received_ms
    if sent.occurred_at is not None:
        given_ms = to_epoch_ms(sent.occurred_at)
        if received_ms - _BACK_MS <= given_ms <= received_ms + _AHEAD_MS:
            at_ms = given_ms
    day, of_day = divmod(at_ms, DAY_MS)
    referrer = sent.referrer_host
    event = CollectedEvent(
        sent.id,
        at_ms,
        sent.path or "/",
        hashes.visitor(day, sent.visitor),
        name_source(sent.utm_source or "", referrer or "", origins),
        _device(sent.device) or client.device,
        sent.browser[:_LONGEST] if sent.browser else client.browser,
        sent.os[:_LONGEST] if sent.os else client.os,
    )
    if sent.session:
        event.session = hashes.session(day, sent.session)
    if of_day <= BRIDGE_MS:
        event.previous_day_hash = (
            hashes.session(day - 1, sent.session) if sent.session else hashes.visitor(day - 1, sent.visitor)
        )
    if referrer:
        event.referrer_host = referrer[:_LONGEST]
    if sent.utm_medium:
        event.medium = sent.utm_medium[:_LONGEST]
    if sent.utm_campaign:
        event.campaign = sent.utm_campaign[:_LONGEST]
    if sent.type == "event":
        event.is_event = True
        _take_properties(event, sent.properties or {}, day, hashes)
    return event


def count_ignored_revenue(sent: Sequence[SentEvent], events: Sequence[CollectedEvent]) -> int:
    """Count the custom events that name a `revenue` which is no amount with a currency, like `"12,50"`.

    `events` is what `collect_events` made of `sent`. Such an event is stored without revenue: the conversion did
    happen, and the amount must not be guessed.
    """
    ignored = 0
    for given, event in zip(sent, events, strict=True):
        if event.is_event and given.properties and not event.currency and event.name not in _KNOWN:
            ignored += given.properties.get("revenue") is not None
    return ignored


def _device(given: str | None) -> str:
    if given is None:
        return ""
    device = given.strip().title()
    return device if device in DEVICES else ""


def _take_properties(
    event: CollectedEvent, properties: dict[str, Any], day: int, hashes: VisitorHashes
) -> None:
    name = properties.get("name")
    event.name = name[:_LONGEST] if isinstance(name, str) else ""
    if event.name in (OUTBOUND_LINK, FILE_DOWNLOAD):
        url = properties.get("url")
        event.url = url[:_LONGEST_URL] if isinstance(url, str) else ""
    elif event.name == ENGAGEMENT:
        event.visible_ms = _visible_ms(properties.get("visible_seconds"))
    elif event.name == WEB_VITAL:
        _take_vital(event, properties, day, hashes)
    else:
        _take_revenue(event, properties)
        rest = {key: value for key, value in properties.items() if key != "name"}
        if rest:
            event.properties = _encode(rest).decode()


def _visible_ms(given: Any) -> int:
    seconds = _number(given)
    if seconds is None or seconds < 0:
        return 0
    return min(round(seconds * 1000), _MOST_VISIBLE_MS)


def _take_vital(event: CollectedEvent, properties: dict[str, Any], day: int, hashes: VisitorHashes) -> None:
    metric, value, identity = properties.get("metric"), _number(properties.get("value")), properties.get("id")
    if not isinstance(metric, str) or metric.upper() not in VITALS or not isinstance(identity, str):
        return
    if value is None or value < 0 or not identity:
        return
    event.metric, event.value = metric.upper(), value
    event.vital = hashes.measurement(day, identity)


def _number(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _take_revenue(event: CollectedEvent, properties: dict[str, Any]) -> None:
    """Both an amount and its currency, or nothing."""
    given, currency = properties.get("revenue"), properties.get("currency")
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        return
    text = given if isinstance(given, str) else repr(given)
    if not _AMOUNT.fullmatch(text):
        return
    try:
        millionths = int((Decimal(text) * 1_000_000).to_integral_value(ROUND_HALF_UP))
    except InvalidOperation:
        return
    if abs(millionths) <= _MOST_MILLIONTHS:
        event.revenue, event.currency = millionths, currency.upper()
