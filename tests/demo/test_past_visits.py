"""The past visits of the demo shop."""

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest

from consumers.visits import Visits
from demo.past_visits import Record, past_visit_records
from ingest_edge.collect.events import Client, collect_events
from ingest_edge.collect.sources import DIRECT
from ingest_edge.collect.visitors import BRIDGE_MS, VisitorHashes
from pipeline_contracts.collected import (
    ENGAGEMENT,
    FILE_DOWNLOAD,
    NOT_FOUND,
    OUTBOUND_LINK,
    VITALS,
    WEB_VITAL,
    CollectedEvent,
    CollectMeta,
    SentEvent,
    decode_collect_meta,
    decode_collected,
)
from pipeline_contracts.times import DAY_MS, from_epoch_ms, to_epoch_ms

UNTIL = datetime(2026, 7, 28, 14, 20, tzinfo=UTC)
OSLO = ZoneInfo("Europe/Oslo")
SITE = 7
DAYS = 90
# To compare complete sets of records.
FEW_DAYS = 8
LISTED = {OUTBOUND_LINK, FILE_DOWNLOAD, NOT_FOUND, WEB_VITAL, ENGAGEMENT, "signup", "purchase"}


class Received(NamedTuple):
    meta: CollectMeta
    country: str
    events: list[CollectedEvent]


def make_records(seed: int, until: datetime = UNTIL, days: int = DAYS) -> list[Record]:
    return list(past_visit_records(random.Random(seed), SITE, "Europe/Oslo", until, days))


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return make_records(1)


@pytest.fixture(scope="module")
def received(records: list[Record]) -> list[Received]:
    found = []
    for _, meta, value in records:
        collected = decode_collected(value)
        found.append(Received(decode_collect_meta(meta), collected.country, collected.events))
    return found


@pytest.fixture(scope="module")
def events(received: list[Received]) -> list[CollectedEvent]:
    return [event for one in received for event in one.events]


@pytest.fixture(scope="module")
def visits(events: list[CollectedEvent]) -> list[list[CollectedEvent]]:
    """Visits as the consumer groups them, each in order of time."""
    known, found = Visits(), defaultdict(list)
    for event in events:
        before = (SITE, event.previous_day_hash) if event.previous_day_hash else None
        visit = known.assign((SITE, event.visitor), before, event.occurred_ms, is_session=False)
        found[visit].append(event)
    return [sorted(visit, key=lambda event: event.occurred_ms) for visit in found.values()]


def views(visit: list[CollectedEvent]) -> int:
    return sum(not event.is_event for event in visit)


def test_same_seed_gives_the_same_records() -> None:
    once, again, other = (make_records(seed, days=FEW_DAYS) for seed in (1, 1, 2))
    assert once == again
    assert other[:50] != once[:50]


def test_default_period_is_three_months(records: list[Record]) -> None:
    assert next(iter(past_visit_records(random.Random(1), SITE, "Europe/Oslo", UNTIL))) == records[0]


def test_later_run_on_the_same_day_only_adds_records() -> None:
    earlier = make_records(1, days=FEW_DAYS)
    later = make_records(1, UNTIL + timedelta(hours=3), days=FEW_DAYS)
    assert later[: len(earlier)] == earlier
    assert len(later) > len(earlier)


def test_records_are_in_order_of_receipt_within_the_period(
    records: list[Record], received: list[Received]
) -> None:
    begin = datetime.combine(UNTIL.astimezone(OSLO).date() - timedelta(days=DAYS - 1), time(), OSLO)
    assert all(a.meta.received_ms <= b.meta.received_ms for a, b in pairwise(received))
    assert received[-1].meta.received_ms <= to_epoch_ms(UNTIL)
    assert UNTIL - from_epoch_ms(received[-1].meta.received_ms) < timedelta(minutes=10)
    assert min(event.occurred_ms for one in received for event in one.events) >= to_epoch_ms(begin)
    assert from_epoch_ms(received[0].meta.received_ms) - begin < timedelta(hours=3)
    assert {key for key, _, _ in records} == {b"7"}


@pytest.mark.parametrize("until", [datetime(2026, 3, 30, tzinfo=UTC), datetime(2026, 10, 26, 12, tzinfo=UTC)])
def test_daylight_saving_days_and_short_periods(until: datetime) -> None:
    for days in (1, 2):
        metas = [decode_collect_meta(meta) for _, meta, _ in make_records(3, until, days)]
        assert all(a.received_ms <= b.received_ms for a, b in pairwise(metas))
        assert metas and metas[-1].received_ms <= to_epoch_ms(until)


def test_records_are_valid_for_the_edge(received: list[Received]) -> None:
    for meta, country, events in received:
        assert (meta.site_id, meta.events, meta.kind) == (SITE, len(events), "events")
        assert 1 <= len(events) <= 5
        assert len(country) == 2 and country.isupper()
        assert all(a.occurred_ms <= b.occurred_ms for a, b in pairwise(events))
        assert 0 < meta.received_ms - events[-1].occurred_ms <= 1500
        assert meta.received_ms - events[0].occurred_ms < DAY_MS
        assert len({event.visitor for event in events}) == 1 or any(
            event.previous_day_hash for event in events
        )


def sent_of(event: CollectedEvent) -> dict[str, Any]:
    """Return the event that a tracker would have sent."""
    sent: dict[str, Any] = {
        "id": str(event.id),
        "type": "event" if event.is_event else "pageview",
        "path": event.path,
        "occurred_at": from_epoch_ms(event.occurred_ms).isoformat(),
        "referrer_host": event.referrer_host or None,
        "utm_medium": event.medium or None,
        "utm_campaign": event.campaign or None,
        "utm_source": event.source if event.medium else None,
    }
    if event.is_event:
        properties: dict[str, Any] = {"name": event.name}
        if event.url:
            properties["url"] = event.url
        if event.name == ENGAGEMENT:
            properties["visible_seconds"] = event.visible_ms / 1000
        if event.name == WEB_VITAL:
            properties |= {"metric": event.metric, "value": event.value, "id": "v5-1"}
        if event.properties:
            properties |= msgspec.json.decode(event.properties)
        sent["properties"] = properties
    return sent


def test_fields_match_those_of_the_edge(received: list[Received]) -> None:
    day = UNTIL.date().toordinal() - datetime(1970, 1, 1).toordinal()
    salts = {number: bytes(16) for number in range(day - 100, day + 1)}
    for meta, _, events in received[::9]:
        for event in events:
            sent = msgspec.convert(sent_of(event), SentEvent)
            client = Client(event.device, event.browser, event.os)
            hashes = VisitorHashes(salts, SITE, "", "")
            (made,) = collect_events([sent], meta.received_ms, (), client, hashes)
            made.visitor, made.previous_day_hash = event.visitor, event.previous_day_hash
            made.vital = event.vital if made.vital else 0
            assert made == event


def test_visitor_hash_changes_daily_and_links_to_the_previous_day(
    events: list[CollectedEvent],
) -> None:
    days = defaultdict(set)
    for event in events:
        days[event.visitor].add(event.occurred_ms // DAY_MS)
    assert 0 not in days
    assert {len(of_visitor) for of_visitor in days.values()} == {1}
    bridged = [event for event in events if event.previous_day_hash]
    assert bridged
    for event in bridged:
        day, of_day = divmod(event.occurred_ms, DAY_MS)
        assert of_day <= BRIDGE_MS
        assert days[event.previous_day_hash] == {day - 1}


def test_number_of_visits_fits_a_small_shop(
    events: list[CollectedEvent], visits: list[list[CollectedEvent]]
) -> None:
    assert 100_000 < len(events) < 160_000
    assert len({event.id for event in events}) == len(events)
    days = Counter(from_epoch_ms(visit[0].occurred_ms).astimezone(OSLO).date() for visit in visits)
    full = {day: count for day, count in days.items() if day != UNTIL.astimezone(OSLO).date()}
    assert len(days) == DAYS and {day.weekday() for day in full} == set(range(7))
    busiest = sorted(full.values())
    assert busiest[0] >= 200 and busiest[len(busiest) // 2] <= 450
    assert 1000 < busiest[-1] < 1700
    ordered = [full[day] for day in sorted(full)]
    assert sum(ordered[:28]) < sum(ordered[-28:])


def test_visits_are_realistic(visits: list[list[CollectedEvent]]) -> None:
    acts = LISTED - {NOT_FOUND, WEB_VITAL, ENGAGEMENT}
    bounced = sum(
        views(visit) == 1
        and not any(event.name in acts for event in visit)
        and sum(event.visible_ms for event in visit) < 10_000
        for visit in visits
    )
    assert 0.40 < bounced / len(visits) < 0.50
    # A visitor's second visit, cut off by the period's end, may lack its first page.
    assert {views(visit) for visit in visits} <= set(range(10))
    assert 1.6 < sum(map(views, visits)) / len(visits) < 2.6
    devices = Counter(visit[0].device for visit in visits)
    assert devices["Desktop"] > devices["Mobile"] > devices["Tablet"] > 0
    sources = Counter(visit[0].source for visit in visits)
    assert {DIRECT, "Google", "Bing", "Hacker News", "Reddit", "newsletter", "ChatGPT", "Facebook"} <= set(
        sources
    )
    assert {name for name, _ in sources.most_common(2)} == {DIRECT, "Google"}


def test_every_kind_of_event_occurs(events: list[CollectedEvent], received: list[Received]) -> None:
    names = Counter(event.name for event in events if event.is_event)
    pageviews = sum(not event.is_event for event in events)
    assert set(names) == LISTED
    assert min(names.values()) > 100
    assert names[ENGAGEMENT] > 0.95 * pageviews
    assert 0.28 < names[WEB_VITAL] / pageviews < 0.38
    assert {event.metric for event in events} == {"", *VITALS}
    assert {event.currency for event in events} == {"", "EUR", "NOK"}
    assert {event.campaign for event in events} >= {"", "new-arrivals"}
    assert {"NO", "SE", "DE", "GB", "US"} <= {one.country for one in received}


def test_web_vitals_are_realistic(events: list[CollectedEvent]) -> None:
    limits = {
        "LCP": (1500, 4000),
        "INP": (60, 500),
        "CLS": (0.01, 0.25),
        "FCP": (800, 3000),
        "TTFB": (200, 1800),
    }
    for metric, (low, high) in limits.items():
        values = sorted(event.value for event in events if event.metric == metric)
        assert low < values[len(values) * 3 // 4] < high
    assert all(event.vital for event in events if event.metric)
