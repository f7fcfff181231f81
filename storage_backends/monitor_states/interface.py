"""The consumers' interface to the current states of monitors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline_contracts.blind_times import Gap
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import Heartbeat

MAX_WORKERS = 1000
"""Stored workers of a queue. Each process of it may be a new worker."""


MAX_LOG_ENTRIES = 100
"""Stored log entries of a heartbeat."""


@dataclass(frozen=True, slots=True)
class NamedHeartbeat:
    """The heartbeat of this name in an environment, named by its public ID."""

    environment_id: str
    name: str
    created_ms: int | None
    """When it is created, if there is none; None: then it is left out."""
    ping_id: str
    """The ping that names it."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A text that a job has logged at its heartbeat. `entry_id` is unique; `environment_id` is the public one."""

    heartbeat_id: int
    environment_id: str
    entry_id: str
    run_id: str | None
    received_ms: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything received up to `through_ms` (milliseconds since 1970) in a partition of a topic is applied."""

    topic: str
    partition: int
    through_ms: int


@dataclass(slots=True)
class Watched:
    """A heartbeat with the requested runs of it by ID. Changes to the heartbeat are written."""

    heartbeat: Heartbeat
    runs: dict[str, Run] = field(default_factory=dict)
    changed: list[Run] = field(default_factory=list)
    """Runs to write."""


@dataclass(frozen=True, slots=True)
class SeenQueue:
    """A queue's snapshot. Counts are of jobs; `environment_id` is the public one."""

    queue_id: int
    environment_id: str
    snapshot_id: str
    observed_us: int
    """Microseconds since 1970."""
    received_ms: int
    pending: int
    delayed: int | None
    reserved: int | None
    failed: int | None
    oldest_wait_seconds: int | None


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """An update from a worker of a queue."""

    queue_id: int
    environment_id: str
    worker_id: str
    sequence: int
    status: str
    job_id: str | None
    received_ms: int


Change = Callable[[Mapping[int, Watched]], Sequence[Watched]]
"""Receives the heartbeats by ID, changes some and returns those. Pure: it may be called again."""


BLIND_CLOCK = "blind"
"""The name under which the end of the last gap is stored."""


class MonitorStates(Protocol):
    """Heartbeats, queues, and the time up to which they are current."""

    async def change(
        self, requested: Mapping[int, Collection[str]], change: Change, progress: Progress | None
    ) -> None:
        """Read the requested heartbeats, each with the runs of these IDs and those that its `pings` name, call
        `change`, recount the heartbeats with `recount` set, and write the changes, the alert events of their net effect
        and the progress, in one transaction. Heartbeats that do not exist are ignored. Raises `StorageUnavailable`;
        then nothing was changed."""
        ...

    async def find_or_create(self, requested: Sequence[NamedHeartbeat]) -> Mapping[tuple[str, str], int]:
        """Return the IDs of these heartbeats by environment and name. Those with `created_ms` that do not exist are
        created, with the schedule of `heartbeat_names` and a row in `created_heartbeats`, in one transaction.

        A ping that was requested with `created_ms` before stands for the heartbeat that it had then, whatever its name
        is now; if that is removed, the name is left out. Not created: names in unknown environments, and in those with
        `MAX_CREATED_MEANWHILE` heartbeats. Raises `StorageUnavailable`."""
        ...

    async def prune_creating_pings(self, before_ms: int, limit: int) -> int:
        """Forget up to `limit` pings that were first requested earlier; return the number."""
        ...

    async def add_log_entries(self, entries: Sequence[LogEntry]) -> None:
        """Add entries to the logs of heartbeats in one transaction; entries that are stored already change nothing. Of
        each heartbeat the newest `MAX_LOG_ENTRIES` stay stored. Entries of unknown heartbeats are left out. Raises
        `StorageUnavailable`."""
        ...

    async def change_due(self, clock_ms: int, limit: int, change: Change) -> int:
        """Do the same for up to `limit` heartbeats whose deadline has passed, with their open runs. A heartbeat that
        another process changes meanwhile is not written. Return the number of due heartbeats."""
        ...

    async def mark_unknown(self, clock_ms: int, until_ms: int, now_ms: int) -> int:
        """Set heartbeats to unknown that are not down and have a deadline after `clock_ms` and not later than
        `until_ms`. Return their number."""
        ...

    async def keep_clock(self, clock: str, at_ms: int) -> Gap | None:
        """Store that the clock runs at `at_ms`. If it stood still (`blind_times.find_gap`), move the deadlines of all
        heartbeats past the gap, add one alert event for the installation, and return the gap. A clock without a stored
        time starts now; a clock never goes back."""
        ...

    async def apply_queues(
        self, snapshots: Sequence[SeenQueue], workers: Sequence[SeenWorker], progress: Progress
    ) -> None:
        """Update queues and workers in one transaction. A snapshot is stored if it was observed later than the stored
        one, or at the same time and has the greater ID; a worker's update if its sequence is greater. Of each queue,
        the `MAX_WORKERS` workers that reported last stay stored. Queues that do not exist are ignored.

        Raises `StorageUnavailable`."""
        ...

    async def note_progress(self, progress: Progress) -> None:
        """Store the progress of a partition; a time earlier than the stored one changes nothing."""
        ...

    async def read_progress(self, topic: str) -> Mapping[int, int]:
        """Return `through_ms` of each partition of the topic; partitions without stored progress are left out."""
        ...

    async def forget_progress(self, topic: str, partitions: Collection[int]) -> int:
        """Remove the progress of all partitions of the topic except these; return the number removed."""
        ...

    async def prune_runs(self, before_ms: int, limit: int) -> int:
        """Remove up to `limit` runs whose first signal is older and that are not open; return the number removed. Their
        failures stay counted in `failures_in_row`, and the newest success stays."""
        ...

    async def prune_log(self, before_ms: int, limit: int) -> int:
        """Remove up to `limit` log entries that were received earlier; return the number removed."""
        ...

    async def close(self) -> None:
        """Release the database."""
        ...
