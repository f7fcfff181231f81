"""How many exceptions, telemetry events and page views did an account send since each of two times?"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)


class Receipts(NamedTuple):
    """Number of stored rows of one topic that were received since the earlier time, and since the later
    time."""

    since_former: int
    since_later: int


async def count_receipts(
    store: ColumnStore,
    topics: Collection[str],
    environments: Sequence[str],
    sites: Sequence[int],
    former: datetime,
    later: datetime,
) -> Mapping[str, Receipts]:
    """Return the counts by topic: `exceptions`, `events` and `pageviews`. Raises `StorageUnavailable`."""
    parameters = {
        "environments": list(environments),
        "sites": list(sites),
        "from_ms": to_epoch_ms(min(former, later)),
        "former_ms": to_epoch_ms(former),
        "later_ms": to_epoch_ms(later),
    }
    counts: dict[str, Receipts] = {}
    for topic in sorted(topics):
        [(since_former, since_later)] = (await query_limited(store, _SQL[topic], parameters)).rows
        counts[topic] = Receipts(since_former, since_later)
    return counts
