"""What did queues and their workers report over a time range?"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.telemetry.time_range import TimeRange, microseconds_from
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)


@dataclass(slots=True)
class QueueStep:
    """The reports on one queue in one step. A value is None if the step has no snapshot."""

    begin_ms: int
    """When the step begins, in milliseconds since 1970."""
    pending: float | None = None
    """The average of the snapshots. `delayed` and `reserved` are averages too."""
    most_pending: int | None = None
    delayed: float | None = None
    reserved: float | None = None
    failed: int | None = None
    """The value of the last snapshot in the step."""
    oldest_wait_seconds: int | None = None
    """The longest wait among the snapshots."""
    jobs_started: int = 0
    workers: int = 0
    """Number of workers that have reported anything other than that they stop."""


async def queue_history(
    store: ColumnStore,
    environments: Collection[str],
    queues: Collection[int],
    within: TimeRange,
    step_ms: int,
) -> Mapping[int, Sequence[QueueStep]]:
    """Return the steps that have reports, in ascending order, by the number of the queue.

    `environments`: the public IDs of the queues' environments. Raises `StorageUnavailable`.
    """
    if not queues:
        return {}
    parameters = {
        "environments": sorted(environments),
        "queues": sorted(queues),
        "begin_us": microseconds_from(within.start),
        "end_us": microseconds_from(within.end),
        "step_ms": step_ms,
    }
    steps: dict[int, dict[int, QueueStep]] = defaultdict(dict)
    for queue, step, *figures in (await query_limited(store, _SQL["snapshots"], parameters)).rows:
        steps[queue][step] = QueueStep(step * step_ms, *figures)
    for queue, step, jobs, workers in (await query_limited(store, _SQL["workers"], parameters)).rows:
        found = steps[queue].setdefault(step, QueueStep(step * step_ms))
        found.jobs_started, found.workers = jobs, workers
    return {queue: [found[step] for step in sorted(found)] for queue, found in steps.items()}
