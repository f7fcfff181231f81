"""What the consumers need of the place where monitors' present states lie."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import Heartbeat


@dataclass(frozen=True, slots=True)
class Progress:
    """All that was received up to `through_ms` (milliseconds since 1970) in a partition of a topic is applied."""

    topic: str
    partition: int
    through_ms: int


@dataclass(slots=True)
class Watched:
    """A heartbeat with those of its runs that were asked for, by their IDs. What is changed in it is written."""

    heartbeat: Heartbeat
    runs: dict[str, Run] = field(default_factory=dict)
    changed: list[Run] = field(default_factory=list)
    """Runs that have to be written."""


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
    """What a worker of a queue said."""

    queue_id: int
    environment_id: str
    worker_id: str
    sequence: int
    status: str
    job_id: str | None
    received_ms: int


Change = Callable[[Mapping[int, Watched]], Sequence[Watched]]
"""Gets the heartbeats by ID, changes some and gives these. Pure: it may be called again."""


class MonitorStates(Protocol):
    """Heartbeats, queues, and how far they are up to date."""

    async def change(
        self, wanted: Mapping[int, Collection[str]], change: Change, progress: Progress | None
    ) -> None:
        """Read these heartbeats, each with the runs of these IDs and those that its `pings` name, let `change` say what
        becomes of them, recount those that ask for it, and write it all with the progress, in one transaction.
        Heartbeats that there are not are left out. Raises `StorageUnavailable`: then nothing was changed."""
        ...

    async def change_due(self, clock_ms: int, most: int, change: Change) -> int:
        """The same for up to `most` heartbeats whose deadline has come, with their open runs. One that somebody
        else has changed meanwhile is left to them. Gives how many were due; 0 when none is left."""
        ...

    async def mark_unknown(self, clock_ms: int, until_ms: int, now_ms: int) -> int:
        """Make those heartbeats unknown, unless they are down, whose deadline lies after `clock_ms` and up to
        `until_ms`; gives how many."""
        ...

    async def apply_queues(
        self, snapshots: Sequence[SeenQueue], workers: Sequence[SeenWorker], progress: Progress
    ) -> None:
        """Bring queues up to date, in one transaction: the snapshot that was observed last stands, the greater ID of
        two of the same moment; a worker's update stands if its sequence is above the one before. Those of queues that
        there are not are left out. Raises `StorageUnavailable`."""
        ...

    async def note_progress(self, progress: Progress) -> None:
        """Write down how far a partition is; a time before the one known changes nothing."""
        ...

    async def read_progress(self, topic: str) -> Mapping[int, int]:
        """Through which time each partition of the topic is applied, those of which that was never written left out."""
        ...

    async def forget_progress(self, topic: str, partitions: Collection[int]) -> int:
        """Remove what is written of other partitions of the topic than these; gives of how many."""
        ...

    async def prune_runs(self, before_ms: int, most: int) -> int:
        """Remove up to `most` runs whose first signal is older and that nobody waits for; gives how many. Failures
        among them that are in the row stay counted, and the newest success stays."""
        ...

    async def close(self) -> None:
        """Release the database."""
        ...
