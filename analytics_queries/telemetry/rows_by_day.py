"""How many telemetry events, spans, log records and metric points do environments have of each day?"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal, NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
# Keeps the value under the limit of a server's form, 256 KiB.
_BATCH = 2000

Kind = Literal["events", "spans", "log_records", "metric_points"]


class DayOfEnvironment(NamedTuple):
    """A calendar day of receipt, in UTC, of one environment."""

    environment_id: str
    day: date
    kind: Kind


async def rows_by_day(
    store: ColumnStore, environment_ids: Sequence[str], since: date
) -> Mapping[DayOfEnvironment, int]:
    """Return the number of stored rows by day since the day `since`, without empty days.

    Rows whose retention has ended do not count. Raises `StorageUnavailable`.
    """
    found: dict[DayOfEnvironment, int] = {}
    for begin in range(0, len(environment_ids), _BATCH):
        parameters = {"environments": list(environment_ids[begin : begin + _BATCH]), "since": since}
        for environment_id, day, kind, stored in (
            await query_limited(store, _SQL, parameters, uses_projections=True)
        ).rows:
            found[DayOfEnvironment(environment_id, day, kind)] = int(stored)
    return found
