"""Stores visits of a site as edges and consumers do."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from tests.analytics_queries.oracle.sent import Sent
from tests.support.site_traffic import make_records, store_records

_ORIGINS = ("https://shop.example",)


def sent_event(at: datetime, address: str, path: str = "/", **members: Any) -> Sent:
    """Return an event that was received when it happened; `country` is the country that the edge has found."""
    country = members.pop("country", None)
    event = {"id": str(uuid.uuid4()), "type": "pageview", "path": path, **members}
    return Sent(to_epoch_ms(at), address, "a browser", country, event)


async def store_visits(store: ColumnStore, site_id: int, *sent: Sent) -> None:
    """Store events of a site."""
    await store_records(store, f"visits of {site_id} {uuid.uuid4()}", make_records(site_id, _ORIGINS, sent))


async def store_purchase(store: ColumnStore, site_id: int, first: datetime) -> None:
    """Store a visit from Norway on a phone: from a search engine, two page views, and a purchase 10 s later."""
    second = first + timedelta(seconds=10)
    source = {"country": "NO", "device": "Mobile", "referrer_host": "www.google.no", "utm_campaign": "spring"}
    purchase = {"name": "purchase", "revenue": 12.5, "currency": "EUR"}
    await store_visits(
        store,
        site_id,
        sent_event(first, "192.0.2.1", "/", **source),
        sent_event(second, "192.0.2.1", "/thanks", country="NO", device="Mobile"),
        sent_event(second, "192.0.2.1", "/thanks", type="event", properties=purchase, device="Mobile"),
    )


async def store_dropped(
    store: ColumnStore, site_id: int, received_at: datetime, reason: str, events: int
) -> None:
    """Store that this many events of a site were dropped."""
    line = (
        f'{{"site_id": {site_id}, "received_at": "{received_at:%Y-%m-%d %H:%M:%S}", "reason": "{reason}", '
        f'"events": {events}, "log": "dropped", "log_offset": 0}}\n'
    )
    await store.insert("pharos.dropped_pageviews", line.encode(), 1, uuid.uuid4().hex)
