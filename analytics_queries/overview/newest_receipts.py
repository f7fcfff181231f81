"""When did an account last send exceptions, telemetry and page views?"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)


async def newest_receipts(
    store: ColumnStore,
    topics: Collection[str],
    environments: Sequence[str],
    sites: Sequence[int],
    since: datetime,
) -> Mapping[str, int]:
    """Return the time of the last receipt in milliseconds since 1970, by topic: `exceptions`, `events`, `pageviews`.

    0 for a topic without a row since `since`. Raises `StorageUnavailable`.
    """
    parameters = {"environments": list(environments), "sites": list(sites), "since_ms": to_epoch_ms(since)}
    newest: dict[str, int] = {}
    for topic in sorted(topics):
        ((newest[topic],),) = (await query_limited(store, _SQL[topic], parameters)).rows
    return newest
