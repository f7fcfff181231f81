"""The interface through which consumers read and write the current states of monitors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline_contracts.blind_times import Gap
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import Heartbeat

MAX_WORKERS = 1000
"""Maximum number of workers that are stored of a queue. Each process that works on a queue may be a new worker."""


MAX_LOG_ENTRIES = 100
"""Maximum number of log entries that are stored of a heartbeat."""


@dataclass(frozen=True, slots=True)
class NamedHeartbeat:
    """Names the heartbeat `name` in an environment. `environment_id` is the public ID."""

    environment_id: str
    name: str
    created_ms: int | None
    """The creation time for the heartbeat, in milliseconds since 1970, if it does not exist yet. None: a missing
    heartbeat is not created and left out."""
    ping_id: str
    """The ID of the ping that names the heartbeat."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A text that a job has logged at its heartbeat. `entry_id` is unique. `environment_id` is the public ID."""

    heartbeat_id: int
    environment_id: str
    entry_id: str
    run_id: str | None
    received_ms: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Says that all records of a partition that were received up to `through_ms` (milliseconds since 1970) are
    applied."""

    topic: str
    partition: int
    through_ms: int


@dataclass(slots=True)
class Watched:
    """A heartbeat, with the requested runs of the heartbeat by ID. Changes to the heartbeat are written."""

    heartbeat: Heartbeat
    runs: dict[str, Run] = field(default_factory=dict)
    changed: list[Run] = field(default_factory=list)
    """The changed runs, which must be written."""


@dataclass(frozen=True, slots=True)
class SeenQueue:
    """A snapshot that was reported of a queue. Its counts are numbers of jobs. `environment_id` is the public ID."""

    queue_id: int
    environment_id: str
    snapshot_id: str
    observed_us: int
    """When the snapshot was observed, in microseconds since 1970."""
    received_ms: int
    pending: int
    delayed: int | None
    reserved: int | None
    failed: int | None
    oldest_wait_seconds: int | None


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """An update that a worker of a queue has reported."""

    queue_id: int
    environment_id: str
    worker_id: str
    sequence: int
    status: str
    job_id: str | None
    received_ms: int


Change = Callable[[Mapping[int, Watched]], Sequence[Watched]]
"""A function that receives heartbeats by ID, changes some of them and returns the changed ones. It has no other
effects, because it may be called again."""


BLIND_CLOCK = "blind"
"""The name under which the end of the last gap is stored. A gap is a time in which a clock stood still."""


class MonitorStates(Protocol):
    """Stores heartbeats and queues, and the time up to which they are current."""

    async def change(
        self, requested: Mapping[int, Collection[str]], change: Change, progress: Progress | None
    ) -> None:
        """Read the requested heartbeats, each with the runs that have these IDs and the runs that its `pings` name.
        Call `change`. Recount the heartbeats that have `recount` set. Write the changes, the alert events that result
        from them, and the progress, in one transaction. Heartbeats that do not exist are ignored. Raises
        `StorageUnavailable`; nothing was changed then."""
        ...

    async def find_or_create(self, requested: Sequence[NamedHeartbeat]) -> Mapping[tuple[str, str], int]:
        """Return the IDs of these heartbeats by environment and name. Heartbeats that do not exist and have
        `created_ms` are created, with the schedule of `heartbeat_names` and a row in `created_heartbeats`, in one
        transaction.

        If a ping was requested with `created_ms` before, it stands for the heartbeat that it named then, even if that
        heartbeat has another name now. If that heartbeat was removed, the result leaves it out. No heartbeat is created
        in an unknown environment, or in an environment with `MAX_CREATED_MEANWHILE` heartbeats. Raises
        `StorageUnavailable`."""
        ...

    async def prune_creating_pings(self, before_ms: int, limit: int) -> int:
        """Delete up to `limit` stored pings that were first requested before `before_ms`. Return their number."""
        ...

    async def add_log_entries(self, entries: Sequence[LogEntry]) -> None:
        """Add entries to the logs of heartbeats, in one transaction. Entries that are stored already change nothing.
        The newest `MAX_LOG_ENTRIES` of each heartbeat stay stored. Entries of unknown heartbeats are ignored. Raises
        `StorageUnavailable`."""
        ...

    async def change_due(self, clock_ms: int, limit: int, change: Change) -> int:
        """Do the same as `change` for up to `limit` heartbeats whose deadline has passed, with their open runs. A
        heartbeat that another process changes meanwhile is not written. Return how many heartbeats were due."""
        ...

    async def mark_unknown(self, clock_ms: int, until_ms: int, now_ms: int) -> int:
        """Set heartbeats to unknown that are not down and whose deadline is after `clock_ms` and not after `until_ms`.
        Return their number."""
        ...

    async def keep_clock(self, clock: str, at_ms: int) -> Gap | None:
        """Record that the clock runs at `at_ms`. If it stood still (`blind_times.find_gap`), move the deadlines of all
        heartbeats past the gap, add one alert event for the installation, and return the gap. A clock that was never
        recorded starts now. A clock never goes back."""
        ...

    async def apply_queues(
        self, snapshots: Sequence[SeenQueue], workers: Sequence[SeenWorker], progress: Progress
    ) -> None:
        """Update queues and workers in one transaction. A snapshot replaces the stored one if it was observed later, or
        at the same time and has the greater ID. A worker's update replaces the stored one if its sequence number is
        greater. Of each queue, the `MAX_WORKERS` workers that reported last stay stored. Queues that do not exist are
        ignored.

        Raises `StorageUnavailable`."""
        ...

    async def note_progress(self, progress: Progress) -> None:
        """Store the progress of a partition. Does nothing if the stored time is later."""
        ...

    async def read_progress(self, topic: str) -> Mapping[int, int]:
        """Return `through_ms` for each partition of the topic. Partitions without stored progress are left out."""
        ...

    async def forget_progress(self, topic: str, partitions: Collection[int]) -> int:
        """Remove the progress of all partitions of the topic except `partitions`. Return the number of removed ones."""
        ...

    async def prune_runs(self, before_ms: int, limit: int) -> int:
        """Remove up to `limit` closed runs whose first signal is before `before_ms`. Return their number. Failures of
        removed runs stay counted in `failures_in_row`, and the newest successful run stays."""
        ...

    async def prune_log(self, before_ms: int, limit: int) -> int:
        """Remove up to `limit` log entries that were received before `before_ms`. Return their number."""
        ...

    async def close(self) -> None:
        """Close the connection to the database."""
        ...
