"""When was each site's newest event received?"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)
_DAY = timedelta(days=1)
# Events are kept for years. They are first searched in these last days, and older events are read only for sites
# without recent ones.
_RECENT_DAYS = (1, 7)
_EVER = date(1970, 1, 1)


async def last_events(store: ColumnStore, site_ids: Sequence[int], now: datetime) -> Mapping[int, datetime]:
    """Return the time of the newest event by site ID. Sites without events are left out. Raises
    `StorageUnavailable`."""
    found: dict[int, datetime] = {}
    for since in (*((now - _DAY * days).date() for days in _RECENT_DAYS), _EVER):
        missing = [site_id for site_id in site_ids if site_id not in found]
        if missing:
            rows = (await store.query(_SQL, {"site_ids": missing, "since": since})).rows
            # An event is received at most a day after it happened. So an event that was received on a day is newer
            # than all events before that day.
            found.update(
                (site_id, received_at)
                for site_id, received_at in rows
                if since == _EVER or received_at.date() > since
            )
    return found
