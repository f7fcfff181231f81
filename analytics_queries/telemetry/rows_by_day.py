"""How many telemetry events, spans, log records and metric points does each environment have of each
day?"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal, NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
# With this number, the parameter stays below the server's limit of 256 KiB for a form value.
_BATCH = 2000

Kind = Literal["events", "spans", "log_records", "metric_points"]


class DayOfEnvironment(NamedTuple):
    """One environment, and the calendar day (UTC) on which rows were received."""

    environment_id: str
    day: date
    kind: Kind


async def rows_by_day(
    store: ColumnStore, environment_ids: Sequence[str], since: date
) -> Mapping[DayOfEnvironment, int]:
    """Return the number of stored rows by environment and day, since the day `since`. Days without
    rows are left out.

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
