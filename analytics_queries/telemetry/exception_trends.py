"""How many exceptions does each of some groups have in each step of a time range?"""

from collections.abc import Mapping, Sequence

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


async def exception_trends(
    store: ColumnStore, environment_id: str, within: TimeRange, groups: Sequence[int], step_s: int
) -> Mapping[int, Sequence[tuple[int, int]]]:
    """Return for each group its (step, number of exceptions) pairs, in ascending order. The number of a step counts
    steps of `step_s` seconds since 1970. Steps without exceptions are left out. Raises `StorageUnavailable`."""
    trends: dict[int, list[tuple[int, int]]] = {group: [] for group in groups}
    if not groups:
        return trends
    parameters = {
        "environment": environment_id,
        "groups": list(groups),
        "begin_ns": within.start,
        "end_ns": within.end,
        "step_s": step_s,
        "limit": len(groups) * (int(within.seconds) // step_s + 2),
    }
    for group, step, count in (await query_limited(store, _SQL, parameters)).rows:
        trends[group].append((step, count))
    return trends
