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
    """The reports on one queue in one step; None for values without a snapshot."""

    begin_ms: int
    """Milliseconds since 1970."""
    pending: float | None = None
    """The average of the snapshots, as are `delayed` and `reserved`."""
    most_pending: int | None = None
    delayed: float | None = None
    reserved: float | None = None
    failed: int | None = None
    """Value of the last snapshot."""
    oldest_wait_seconds: int | None = None
    """The longest."""
    jobs_started: int = 0
    workers: int = 0
    """Number of workers that sent a report other than that they stop."""


async def queue_history(
    store: ColumnStore,
    environments: Collection[str],
    queues: Collection[int],
    within: TimeRange,
    step_ms: int,
) -> Mapping[int, Sequence[QueueStep]]:
    """Return the steps with reports, in ascending order, keyed by the number of the queue.

    `environments`: the public IDs of the environments of the queues. Raises `StorageUnavailable`.
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
