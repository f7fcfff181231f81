"""Generates three months of past visits of the demo shop, as records of the log, so that the first report has data.

Each day has its own random generator: a later run on the same day generates the same records again, and newer ones.
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from demo.audience import (
    BROWSERS,
    COUNTRIES,
    COUNTRIES_OF_LAUNCH,
    LAUNCH,
    NEWSLETTER,
    TRAFFIC_SOURCES,
    Browser,
    TrafficSource,
    Weighted,
)
from demo.journeys import Step, group_into_requests, plan_visit
from ingest_edge.collect.sources import DIRECT, name_source
from ingest_edge.collect.visitors import BRIDGE_MS
from pipeline_contracts.collected import Collected, CollectedEvent, CollectMeta, encode_collected
from pipeline_contracts.times import DAY_MS, to_epoch_ms

Record = tuple[bytes, bytes, bytes]
"""Key, header and value of a record of the log."""

_VISITS_A_DAY = 322.0
_GROWTH = 0.2
# Relative traffic from Monday to Sunday.
_WEEKDAY_FACTORS = (1.05, 1.10, 1.09, 1.05, 0.97, 0.86, 0.90)
_HOUR_WEIGHTS = (8, 5, 3, 2, 3, 6, 14, 28, 42, 52, 58, 60, 64, 60, 56, 55, 54, 55, 60, 68, 74, 66, 42, 20)
_HOURS = Weighted(enumerate(_HOUR_WEIGHTS))
_TUESDAY, _THURSDAY = 1, 3
_LAUNCH_HOURS = Weighted(enumerate([0] * 15 + [10, 26, 30, 27, 22, 17, 13, 10, 8]))
_NEWSLETTER_HOURS = Weighted(enumerate([0] * 8 + [6, 34, 22, 13, 10, 8, 6, 5, 4, 4, 5, 6, 6, 4, 2, 1]))
# Visits on the day itself and on the following days.
_LAUNCH_VISITS = (880, 290, 90, 30)
_NEWSLETTER_VISITS = (190, 60, 20)

_RETURN_RATE = 0.13
_PAUSE_MS = 40 * 60_000
_MAX_EVENTS = 5
_REQUEST_SPAN_MS = 10_000
_MICROS = 1_000_000
_encode = msgspec.json.Encoder().encode


class _Wave(NamedTuple):
    """Visits of one day, from mixed traffic sources or from one."""

    visits: int
    hours: Weighted[int]
    traffic_source: TrafficSource | None = None


class _Visitor:
    """A person with one browser. The hash of a visitor changes daily; each hash refers to the previous day's."""

    __slots__ = ("browser", "country", "free_ms", "_hashes")

    def __init__(self, browser: Browser, country: str) -> None:
        self.browser = browser
        self.country = country
        self.free_ms = 0
        """When the next visit may start."""
        self._hashes: dict[int, int] = {}

    def hash_on_day(self, rng: random.Random, day: int) -> int:
        """Return the visitor's hash on this day (UTC), never 0."""
        known = self._hashes.get(day)
        if known is None:
            known = self._hashes[day] = rng.getrandbits(64) or 1
        return known

    def previous_day_hash(self, day: int) -> int:
        """Return the hash of the day before; 0 without a visit on it."""
        return self._hashes.get(day - 1, 0)


def past_visit_records(
    rng: random.Random, site_id: int, timezone: str, until: datetime, days: int = 90
) -> Iterator[Record]:
    """Yield records of `topics.PAGEVIEWS` in the order of receipt: `days` calendar days of the time zone, the last of
    which ends at `until` (aware). The same generator and times give the same records."""
    zone = ZoneInfo(timezone)
    seed = rng.getrandbits(64)
    today = until.astimezone(zone).date()
    until_ms = to_epoch_ms(until)
    key = str(site_id).encode()
    pending: list[tuple[int, bytes, bytes]] = []
    for age in range(days - 1, -1, -1):
        day = today - timedelta(days=age)
        visits_of_day = _DayVisits(random.Random(f"{seed} {day}"), site_id, day, zone)
        growth = 1.0 + _GROWTH * (1 - age / max(1, days - 1) - 0.5)
        for wave in _waves(visits_of_day.rng, day, today, growth):
            pending += visits_of_day.records(wave)
        pending.sort(key=lambda record: record[0])
        # Visits may extend into the next day, whose records do not exist yet.
        cut_ms = min(until_ms + 1, visits_of_day.end_ms)
        done = 0
        for received_ms, meta, value in pending:
            if received_ms >= cut_ms:
                break
            done += 1
            yield key, meta, value
        del pending[:done]


def _latest_weekday(weekday: int, today: date, at_least: int) -> date:
    """Return the latest date with this weekday that is at least `at_least` days ago."""
    day = today - timedelta(days=at_least)
    return day - timedelta(days=(day.weekday() - weekday) % 7)


def _waves(rng: random.Random, day: date, today: date, growth: float) -> Iterator[_Wave]:
    usual = _VISITS_A_DAY * growth * _WEEKDAY_FACTORS[day.weekday()] * rng.gauss(1.0, 0.03)
    yield _Wave(round(usual), _HOURS)
    since_launch = (day - _latest_weekday(_TUESDAY, today, 18)).days
    if 0 <= since_launch < len(_LAUNCH_VISITS):
        hours = _HOURS if since_launch else _LAUNCH_HOURS
        yield _Wave(_LAUNCH_VISITS[since_launch], hours, LAUNCH)
    since_letter = (day - _latest_weekday(_THURSDAY, today, 5)).days
    if 0 <= since_letter < len(_NEWSLETTER_VISITS):
        hours = _HOURS if since_letter else _NEWSLETTER_HOURS
        yield _Wave(_NEWSLETTER_VISITS[since_letter], hours, NEWSLETTER)


class _DayVisits:
    """Generates the records of visits that start on one calendar day."""

    def __init__(self, rng: random.Random, site_id: int, day: date, zone: ZoneInfo) -> None:
        self.rng = rng
        self._site_id = site_id
        self._begin_ms = _midnight_ms(day, zone)
        self.end_ms = _midnight_ms(day + timedelta(days=1), zone)
        self._visitors: list[_Visitor] = []

    def records(self, wave: _Wave) -> list[tuple[int, bytes, bytes]]:
        """Return the time of receipt, header and value of each record of the wave's visits, unordered."""
        rng = self.rng
        begins = []
        for _ in range(wave.visits):
            at_ms = self._begin_ms + wave.hours.pick(rng) * 3_600_000 + int(rng.random() * 3_600_000)
            # The last hour does not exist on the day of 23 hours.
            if at_ms < self.end_ms:
                begins.append(at_ms)
        records = []
        for begin_ms in sorted(begins):
            traffic_source = wave.traffic_source or TRAFFIC_SOURCES.pick(rng)
            visitor = self._pick_visitor(begin_ms, wave.traffic_source is LAUNCH)
            steps = plan_visit(rng, traffic_source.entry, is_phone=visitor.browser.device == "Mobile")
            visitor.free_ms = begin_ms + steps[-1].at_ms + _PAUSE_MS
            requests = group_into_requests(steps, _MAX_EVENTS, _REQUEST_SPAN_MS)
            for number, request in enumerate(requests):
                records.append(self._record(visitor, request, begin_ms, None if number else traffic_source))
        return records

    def _pick_visitor(self, begin_ms: int, from_launch: bool) -> _Visitor:
        rng = self.rng
        if self._visitors and rng.random() < _RETURN_RATE:
            known = rng.choice(self._visitors)
            if known.free_ms < begin_ms:
                return known
        countries = COUNTRIES_OF_LAUNCH if from_launch else COUNTRIES
        visitor = _Visitor(BROWSERS.pick(rng), countries.pick(rng))
        self._visitors.append(visitor)
        return visitor

    def _record(
        self, visitor: _Visitor, request: list[Step], begin_ms: int, traffic_source: TrafficSource | None
    ) -> tuple[int, bytes, bytes]:
        """Return one record. `traffic_source` is set for the first request of a visit."""
        events = [self._event(visitor, step, begin_ms + step.at_ms) for step in request]
        if traffic_source is not None:
            first = events[0]
            first.source = name_source(traffic_source.utm_source, traffic_source.referrer_host, ())
            first.referrer_host = traffic_source.referrer_host
            first.medium, first.campaign = traffic_source.utm_medium, traffic_source.utm_campaign
        received_ms = events[-1].occurred_ms + self.rng.randint(300, 1500)
        meta = CollectMeta(self._site_id, received_ms, len(events))
        return received_ms, encode_collected(meta), encode_collected(Collected(visitor.country, events))

    def _event(self, visitor: _Visitor, step: Step, at_ms: int) -> CollectedEvent:
        rng = self.rng
        day, of_day = divmod(at_ms, DAY_MS)
        browser = visitor.browser
        event = CollectedEvent(
            UUID(int=rng.getrandbits(128), version=4),
            at_ms,
            step.path,
            visitor.hash_on_day(rng, day),
            DIRECT,
            browser.device,
            browser.name,
            browser.os,
        )
        if of_day <= BRIDGE_MS:
            event.previous_day_hash = visitor.previous_day_hash(day)
        if step.name:
            event.is_event = True
            event.name, event.url, event.visible_ms = step.name, step.url, step.visible_ms
            if step.metric:
                event.metric, event.value, event.vital = step.metric, step.value, rng.getrandbits(64) or 1
            if step.currency:
                event.revenue, event.currency = round(step.revenue * _MICROS), step.currency
                event.properties = _encode({"revenue": step.revenue, "currency": step.currency}).decode()
        return event


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    return to_epoch_ms(datetime.combine(day, time(), zone).astimezone(UTC))
