"""Conditions on sites: far more visitors than usual, no visitors, or a poor Web Vital."""

import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from analytics_queries.visits.calendar_days import day_of, days_between
from analytics_queries.visits.refresh_rollups import refresh_rollups
from control_domain.tables.monitors import MonitorProgress
from control_domain.tables.sites import Site
from pipeline_contracts.blind_times import INTAKE_CLOCK
from pipeline_contracts.times import to_epoch_ms
from tests.support.alert_scans import ScanUnderTest

_ZONE = "America/New_York"
_HOUR, _DAY = 3600, 86_400


async def _add_site(scan: ScanUnderTest, number: int, age_days: int = 30) -> int:
    """Add a site with a number that no other test uses, because all share the column store."""
    site = Site(
        id=610_000 + number,
        public_id=f"sit_{number}",
        project_id=scan.acme.project.id,
        name=f"site {number}",
        timezone=_ZONE,
        domains="[]",
        created_at=scan.now - timedelta(days=age_days),
    )
    async with scan.sessions() as session, session.begin():
        session.add(site)
    return site.id


def _views(scan: ScanUnderTest, site: int, seconds: float, count: int, **members: Any) -> Iterator[Any]:
    """Yield page views of this many visitors."""
    at = scan.now - timedelta(seconds=seconds)
    for _ in range(count):
        yield {
            "site_id": site,
            "day": at.date().isoformat(),
            "visit_id": uuid.uuid4().int % 2**63,
            "visitor": uuid.uuid4().int % 2**63,
            "id": str(uuid.uuid4()),
            "occurred_at": scan.ago(seconds),
            "received_at": scan.ago(seconds),
            "visit_began": scan.ago(seconds),
            "path": "/",
            **members,
        }


def _history(scan: ScanUnderTest, site: int, count: int, *, hours_ago: float = 0.5) -> Iterator[Any]:
    """Yield page views of this many visitors on each of the last seven days."""
    for days in range(1, 8):
        yield from _views(scan, site, days * _DAY + hours_ago * _HOUR, count)


async def _tell_days(scan: ScanUnderTest, *sites: int) -> None:
    yesterday = day_of(scan.now, _ZONE) - timedelta(days=1)
    days = days_between(yesterday - timedelta(days=9), yesterday)
    for site in sites:
        await refresh_rollups(scan.engine, site, _ZONE, days, scan.now)


async def test_spikes(scan: ScanUnderTest) -> None:
    spiking, busy, sleeping, young, unknown = [
        await _add_site(scan, number, 3 if number == 4 else 30) for number in range(1, 6)
    ]
    await scan.insert(
        "pageviews",
        *_history(scan, spiking, 20),
        *_views(scan, spiking, 60, 60),
        *_history(scan, busy, 200),
        *_views(scan, busy, 60, 60),
        # The site had no visitors for days.
        *_views(scan, sleeping, 60, 60),
        # Its first visitors.
        *_views(scan, young, 60, 60),
        # Without rollups the usual number is unknown.
        *_history(scan, unknown, 20),
        *_views(scan, unknown, 60, 60),
    )
    await _tell_days(scan, spiking, busy)
    events = await scan.run_for_events()
    assert [(event.kind, event.subject, event.state) for event in events] == [
        ("site.spike", f"spike {spiking}", "firing"),
        ("site.spike", f"spike {sleeping}", "firing"),
    ]
    facts = json.loads(events[0].facts)
    assert (facts["site"], facts["value"], facts["usual"]) == ("site 1", 60, 3.3)
    assert (events[0].project_id, events[0].environment_id) == (scan.acme.project.id, None)

    assert await scan.run(60) == []
    scan.store.failing = ("pharos.pageviews",)
    assert await scan.run(700) == []
    scan.store.failing = ()
    ended = await scan.run(300)
    assert sorted(ended) == [
        ("site.spike", f"spike {spiking}", "resolved"),
        ("site.spike", f"spike {sleeping}", "resolved"),
    ]


async def test_silence(scan: ScanUnderTest) -> None:
    silent, later, irregular, visited = [await _add_site(scan, number) for number in range(11, 15)]
    await scan.insert(
        "pageviews",
        *_history(scan, silent, 6),
        *_views(scan, silent, 3700, 1),
        # At another hour of the day.
        *_history(scan, later, 6, hours_ago=5.5),
        *(row for row in _history(scan, irregular, 6) if row["occurred_at"] < scan.ago(2 * _DAY)),
        *_history(scan, visited, 6),
        *_views(scan, visited, 3500, 1),
    )
    await _tell_days(scan, silent, later, irregular, visited)

    # While no edge accepts events, missing events are no signal.
    async def keep_intake(seconds_ago: float) -> None:
        through_ms = to_epoch_ms(scan.now - timedelta(seconds=seconds_ago))
        row = MonitorProgress(topic=INTAKE_CLOCK, partition=0, applied_through_ms=through_ms)
        async with scan.sessions() as session, session.begin():
            await session.merge(row)

    await keep_intake(120)
    assert await scan.run() == []
    scan.now += timedelta(seconds=50)
    await keep_intake(0)
    scan.now += timedelta(seconds=50)
    assert await scan.run() == []
    assert await scan.run(150) == []
    scan.now += timedelta(seconds=150)
    await scan.insert("pageviews", *_views(scan, visited, 60, 1))
    await keep_intake(0)
    (event,) = await scan.run_for_events()
    assert (event.kind, event.subject, event.state) == ("site.silence", f"silence {silent}", "firing")
    assert json.loads(event.facts)["usual_visits"] == 6
    assert await scan.run(150) == []
    scan.now += timedelta(seconds=150)
    await scan.insert("pageviews", *_views(scan, silent, 60, 1))
    await keep_intake(0)
    assert await scan.run() == [("site.silence", f"silence {silent}", "resolved")]


async def test_web_vitals(scan: ScanUnderTest) -> None:
    site, few = await _add_site(scan, 21), await _add_site(scan, 22)

    def vitals(number: int, metric: str, value: float, count: int) -> Iterator[Any]:
        for row in _views(scan, number, 2 * _HOUR, count):
            measured = {"is_event": True, "name": "Web Vital", "metric": metric, "vital": row["visitor"]}
            # A measurement has several values: the last one counts.
            yield {**row, **measured, "value": 99_999, "occurred_at": scan.ago(2 * _HOUR + 1)}
            yield {**row, **measured, "value": value}

    await scan.insert(
        "pageviews",
        *vitals(site, "LCP", 1000, 40),
        *vitals(site, "LCP", 4500, 20),
        *vitals(site, "INP", 100, 60),
        *vitals(site, "CLS", 0.1, 40),
        *vitals(site, "CLS", 0.3, 20),
        *vitals(few, "LCP", 9000, 49),
    )
    events = await scan.run_for_events()
    assert [(event.subject, json.loads(event.facts)["value"]) for event in events] == [
        (f"vital {site} LCP", 4500),
        (f"vital {site} CLS", 0.3),
    ]
    # This condition is evaluated once an hour.
    await scan.insert("pageviews", *vitals(site, "LCP", 1000, 60))
    assert await scan.run(60) == []
    assert await scan.run(3600) == [("site.vital", f"vital {site} LCP", "resolved")]
