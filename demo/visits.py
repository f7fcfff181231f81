"""Three months of the demo shop's visits as they would lie in the log, for a first report that is not empty. Pure.

Each day is drawn from a generator of its own: made again later on the same day, what was there comes out the same.
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
    LEADS,
    NEWSLETTER,
    Browser,
    Lead,
    Weighted,
)
from demo.journeys import Step, in_requests, plan_visit
from ingest_edge.collect.sources import DIRECT, name_source
from ingest_edge.collect.visitors import BRIDGE_MS
from pipeline_contracts.collected import Collected, CollectedEvent, CollectMeta, encode_collected
from pipeline_contracts.times import DAY_MS, to_epoch_ms

Record = tuple[bytes, bytes, bytes]
"""Key, header and value of a record of the log."""

_VISITS_A_DAY = 322.0
_GROWTH = 0.2
# From Monday on.
_OF_WEEKDAY = (1.05, 1.10, 1.09, 1.05, 0.97, 0.86, 0.90)
_OF_HOUR = (8, 5, 3, 2, 3, 6, 14, 28, 42, 52, 58, 60, 64, 60, 56, 55, 54, 55, 60, 68, 74, 66, 42, 20)
_HOURS = Weighted(enumerate(_OF_HOUR))
_TUESDAY, _THURSDAY = 1, 3
_LAUNCH_HOURS = Weighted(enumerate([0] * 15 + [10, 26, 30, 27, 22, 17, 13, 10, 8]))
_LETTER_HOURS = Weighted(enumerate([0] * 8 + [6, 34, 22, 13, 10, 8, 6, 5, 4, 4, 5, 6, 6, 4, 2, 1]))
# On the day itself and on those after it.
_LAUNCH_VISITS = (880, 290, 90, 30)
_LETTER_VISITS = (190, 60, 20)

_COMES_AGAIN = 0.13
_PAUSE_MS = 40 * 60_000
_MOST_EVENTS = 5
_TOGETHER_MS = 10_000
_MILLIONTHS = 1_000_000
_encode = msgspec.json.Encoder().encode


class _Wave(NamedTuple):
    """Visits of a day that come by themselves, or for one reason."""

    visits: int
    hours: Weighted[int]
    lead: Lead | None = None


class _Person:
    """Somebody with one browser; without it, nothing connects the days."""

    __slots__ = ("browser", "country", "free_ms", "_hashes")

    def __init__(self, browser: Browser, country: str) -> None:
        self.browser = browser
        self.country = country
        self.free_ms = 0
        """From then on another visit may begin."""
        self._hashes: dict[int, int] = {}

    def visitor(self, rng: random.Random, day: int) -> int:
        """The hash on this day (UTC), never 0."""
        known = self._hashes.get(day)
        if known is None:
            known = self._hashes[day] = rng.getrandbits(64) or 1
        return known

    def before(self, day: int) -> int:
        """The hash on the day before; 0 if the person was not there."""
        return self._hashes.get(day - 1, 0)


def demo_records(
    rng: random.Random, site_id: int, timezone: str, until: datetime, days: int = 90
) -> Iterator[Record]:
    """Records of `topics.PAGEVIEWS`, the first received first, from the begin of the first of `days` calendar days of
    the time zone to `until` (aware) on the last of them. The same generator and times give the same records."""
    zone = ZoneInfo(timezone)
    seed = rng.getrandbits(64)
    today = until.astimezone(zone).date()
    until_ms = to_epoch_ms(until)
    key = str(site_id).encode()
    waiting: list[tuple[int, bytes, bytes]] = []
    for age in range(days - 1, -1, -1):
        day = today - timedelta(days=age)
        maker = _Day(random.Random(f"{seed} {day}"), site_id, day, zone)
        growth = 1.0 + _GROWTH * (1 - age / max(1, days - 1) - 0.5)
        for wave in _waves(maker.rng, day, today, growth):
            waiting += maker.records(wave)
        waiting.sort(key=lambda record: record[0])
        # Visits of the day may reach into the next one, whose records are not made yet.
        cut_ms = min(until_ms + 1, maker.end_ms)
        done = 0
        for received_ms, meta, value in waiting:
            if received_ms >= cut_ms:
                break
            done += 1
            yield key, meta, value
        del waiting[:done]


def _latest(weekday: int, today: date, at_least: int) -> date:
    """The latest such day of the week that lies so many days back."""
    day = today - timedelta(days=at_least)
    return day - timedelta(days=(day.weekday() - weekday) % 7)


def _waves(rng: random.Random, day: date, today: date, growth: float) -> Iterator[_Wave]:
    usual = _VISITS_A_DAY * growth * _OF_WEEKDAY[day.weekday()] * rng.gauss(1.0, 0.03)
    yield _Wave(round(usual), _HOURS)
    since_launch = (day - _latest(_TUESDAY, today, 18)).days
    if 0 <= since_launch < len(_LAUNCH_VISITS):
        hours = _HOURS if since_launch else _LAUNCH_HOURS
        yield _Wave(_LAUNCH_VISITS[since_launch], hours, LAUNCH)
    since_letter = (day - _latest(_THURSDAY, today, 5)).days
    if 0 <= since_letter < len(_LETTER_VISITS):
        hours = _HOURS if since_letter else _LETTER_HOURS
        yield _Wave(_LETTER_VISITS[since_letter], hours, NEWSLETTER)


class _Day:
    """Makes the records of the visits that begin on one calendar day."""

    def __init__(self, rng: random.Random, site_id: int, day: date, zone: ZoneInfo) -> None:
        self.rng = rng
        self._site_id = site_id
        self._begin_ms = _midnight_ms(day, zone)
        self.end_ms = _midnight_ms(day + timedelta(days=1), zone)
        self._persons: list[_Person] = []

    def records(self, wave: _Wave) -> list[tuple[int, bytes, bytes]]:
        """Time of receipt, header and value of each record of the wave's visits, in no order."""
        rng = self.rng
        begins = []
        for _ in range(wave.visits):
            at_ms = self._begin_ms + wave.hours.pick(rng) * 3_600_000 + int(rng.random() * 3_600_000)
            # Not on the day of 23 hours.
            if at_ms < self.end_ms:
                begins.append(at_ms)
        made = []
        for begin_ms in sorted(begins):
            lead = wave.lead or LEADS.pick(rng)
            person = self._person(begin_ms, wave.lead is LAUNCH)
            steps = plan_visit(rng, lead.entry, is_phone=person.browser.device == "Mobile")
            person.free_ms = begin_ms + steps[-1].at_ms + _PAUSE_MS
            requests = in_requests(steps, _MOST_EVENTS, _TOGETHER_MS)
            for number, request in enumerate(requests):
                made.append(self._record(person, request, begin_ms, None if number else lead))
        return made

    def _person(self, begin_ms: int, from_launch: bool) -> _Person:
        rng = self.rng
        if self._persons and rng.random() < _COMES_AGAIN:
            known = rng.choice(self._persons)
            if known.free_ms < begin_ms:
                return known
        countries = COUNTRIES_OF_LAUNCH if from_launch else COUNTRIES
        person = _Person(BROWSERS.pick(rng), countries.pick(rng))
        self._persons.append(person)
        return person

    def _record(
        self, person: _Person, request: list[Step], begin_ms: int, lead: Lead | None
    ) -> tuple[int, bytes, bytes]:
        """`lead` is what the visit's first page view tells of where it comes from."""
        events = [self._event(person, step, begin_ms + step.at_ms) for step in request]
        if lead is not None:
            first = events[0]
            first.source = name_source(lead.utm_source, lead.referrer_host, ())
            first.referrer_host = lead.referrer_host
            first.medium, first.campaign = lead.utm_medium, lead.utm_campaign
        received_ms = events[-1].occurred_ms + self.rng.randint(300, 1500)
        meta = CollectMeta(self._site_id, received_ms, len(events))
        return received_ms, encode_collected(meta), encode_collected(Collected(person.country, events))

    def _event(self, person: _Person, step: Step, at_ms: int) -> CollectedEvent:
        rng = self.rng
        day, of_day = divmod(at_ms, DAY_MS)
        browser = person.browser
        event = CollectedEvent(
            UUID(int=rng.getrandbits(128), version=4),
            at_ms,
            step.path,
            person.visitor(rng, day),
            DIRECT,
            browser.device,
            browser.name,
            browser.os,
        )
        if of_day <= BRIDGE_MS:
            event.before = person.before(day)
        if step.name:
            event.is_event = True
            event.name, event.url, event.visible_ms = step.name, step.url, step.visible_ms
            if step.metric:
                event.metric, event.value, event.vital = step.metric, step.value, rng.getrandbits(64) or 1
            if step.currency:
                event.revenue, event.currency = round(step.revenue * _MILLIONTHS), step.currency
                event.properties = _encode({"revenue": step.revenue, "currency": step.currency}).decode()
        return event


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    return to_epoch_ms(datetime.combine(day, time(), zone).astimezone(UTC))
