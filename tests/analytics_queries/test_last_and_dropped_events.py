"""The time of a site's last event, and the number of its dropped events."""

import uuid
from datetime import UTC, datetime, timedelta

from analytics_queries.visits.dropped_events import dropped_events
from analytics_queries.visits.last_events import last_events
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.stored_visits import sent_event, store_dropped, store_visits

NOW = datetime.now(UTC).replace(microsecond=0)


def _site_id() -> int:
    return uuid.uuid4().int % 2**31


async def test_time_of_the_last_event_is_found_at_any_age(column_store: ChdbColumnStore) -> None:
    busy, silent, empty = _site_id(), _site_id(), _site_id()
    for days in (0, 3, 40):
        await store_visits(column_store, busy, sent_event(NOW - timedelta(days=days), "192.0.2.1"))
    for days in (40, 50):
        await store_visits(column_store, silent, sent_event(NOW - timedelta(days=days), "192.0.2.1"))
    found = await last_events(column_store, [busy, silent, empty], NOW)
    assert found == {busy: NOW, silent: NOW - timedelta(days=40)}
    assert await last_events(column_store, [], NOW) == {}


async def test_the_last_event_is_the_last_received_even_if_it_happened_a_day_earlier(
    column_store: ChdbColumnStore,
) -> None:
    site_id = _site_id()
    late = (NOW - timedelta(hours=23)).isoformat()
    await store_visits(column_store, site_id, sent_event(NOW - timedelta(minutes=5), "192.0.2.1"))
    await store_visits(column_store, site_id, sent_event(NOW, "192.0.2.2", occurred_at=late))
    assert await last_events(column_store, [site_id], NOW) == {site_id: NOW}


async def test_dropped_events_add_up_by_reason_since_a_time(column_store: ChdbColumnStore) -> None:
    site_id, other = _site_id(), _site_id()
    since = NOW - timedelta(days=30)
    for received_at, reason, events in (
        (NOW, "bot", 3),
        (since, "bot", 4),
        (NOW, "opted_out", 20),
        (since - timedelta(seconds=1), "bot", 100),
    ):
        await store_dropped(column_store, site_id, received_at, reason, events)
    await store_dropped(column_store, other, NOW, "bot", 5)
    found = await dropped_events(column_store, site_id, since)
    assert list(found.items()) == [("opted_out", 20), ("bot", 7)]
    assert await dropped_events(column_store, _site_id(), since) == {}
