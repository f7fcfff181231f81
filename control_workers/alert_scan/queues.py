"""Reads conditions of queues from their current state: thresholds, a built-in condition on the waiting time, and lost
workers.

The state of a queue without a recent snapshot is unknown. Times are compared with the time up to which reports are
applied, so a backlog of the pipeline does not raise incidents.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.monitors.listing import LOST_MS, read_queue_clock
from control_domain.tables.monitors import Queue, QueueState, QueueWorker
from control_domain.tables.projects import Environment, Project
from control_workers.alert_scan.conditions import Observed, Reading, Scope
from control_workers.alert_scan.judge import Remembered
from control_workers.alert_scan.phases import Limits
from control_workers.alert_scan.read_thresholds import ThresholdOf

STALE_MS = 5 * 60_000
"""A snapshot older than this is not used."""
DEFAULT_WAIT = Limits(600.0, 300.0)
"""The limits for each queue that has no `queue.wait` threshold (a disabled threshold counts as one). The incident
opens at ten minutes and recovers at five."""
WAIT_PREFIX = "wait "
WORKER_PREFIX = "worker "
# A worker that was lost before this time was lost before the first scan, or was reported for long enough.
_LOST_LATELY_MS = 60 * 60_000
_FORGOTTEN_MS = 24 * 60 * 60_000
MAX_LOST = 20
MAX_LOST_OF_ACCOUNT = 200
"""Maximum numbers of lost workers of a queue and of an account that are reported at the same time. Anybody with the
key of a queue can report any number of workers."""
_AT_ONCE = 500
_KNOWN = Limits(0.5, 0.5)
"""The limits of conditions whose value is either 1 (true) or 0 (false)."""


@dataclass(frozen=True, slots=True)
class QueueNow:
    """The newest snapshot of a queue, as the database has it."""

    queue_id: int
    name: str
    scope: Scope
    received_ms: int | None
    pending: int | None
    oldest_wait_seconds: int | None

    def value_of(self, kind: str, clock_ms: int) -> float | None:
        """Return the value that a threshold of this kind compares. None if it is unknown."""
        if self.received_ms is None or self.received_ms < clock_ms - STALE_MS:
            return None
        if kind == "queue.size":
            return self.pending
        # If there are no jobs, there is no oldest job.
        return 0 if self.pending == 0 else self.oldest_wait_seconds


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of a scan, by environment and name."""

    by_name: Mapping[tuple[int, str], QueueNow]
    clock_ms: int

    def value_for(self, threshold: ThresholdOf) -> float | None:
        """Return the current value for a threshold. None if it is unknown."""
        queue = self.by_name.get((threshold.row.environment_id, threshold.row.target))
        return None if queue is None else queue.value_of(threshold.row.kind, self.clock_ms)


async def read_queues(
    session: AsyncSession, thresholds: Sequence[ThresholdOf], states: Mapping[str, Remembered], now: datetime
) -> Queues:
    """Return three kinds of queues: those whose jobs wait for a long time, those with thresholds, and those with a
    stored state."""
    clock_ms = await read_queue_clock(session, now)
    known = [int(key.removeprefix(WAIT_PREFIX)) for key in states if key.startswith(WAIT_PREFIX)]
    named = {each.row.environment_id for each in thresholds if each.row.kind.startswith("queue.")}
    found = {}
    waits = QueueState.oldest_wait_seconds > DEFAULT_WAIT.threshold
    for condition in [
        waits,
        *(Queue.id.in_(some) for some in _split(known)),
        *(Queue.environment_id.in_(some) for some in _split(sorted(named))),
    ]:
        for row in await session.execute(_select_queues().where(condition)):
            queue_id, name, account, project, environment, *snapshot = row
            found[environment, name] = QueueNow(
                queue_id, name, Scope(account, project, environment), *snapshot
            )
    return Queues(found, clock_ms)


def _select_queues() -> Select[*tuple[Any, ...]]:
    return (
        select(
            Queue.id,
            Queue.name,
            Project.account_id,
            Project.id,
            Environment.id,
            QueueState.received_ms,
            QueueState.pending,
            QueueState.oldest_wait_seconds,
        )
        .join(Environment, Environment.id == Queue.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(QueueState, QueueState.queue_id == Queue.id)
    )


def observe_waits(queues: Queues, thresholds: Sequence[ThresholdOf]) -> Reading:
    """Return the built-in condition of each queue that has no threshold of its own."""
    own = {(each.row.environment_id, each.row.target) for each in thresholds if each.row.kind == "queue.wait"}
    return Reading(
        WAIT_PREFIX,
        [
            Observed(
                key := f"{WAIT_PREFIX}{queue.queue_id}",
                queue.scope,
                "queue.wait",
                key,
                DEFAULT_WAIT,
                queue.value_of("queue.wait", queues.clock_ms),
                {"target": queue.name, "queue_id": queue.queue_id, "unit": "s"},
            )
            for place, queue in queues.by_name.items()
            if place not in own
        ],
    )


async def read_lost_workers(
    session: AsyncSession, states: Mapping[str, Remembered], clock_ms: int, blind_to_ms: int
) -> Reading:
    """Return the workers that were lost recently and those that are already known to be lost: up to 20 of a queue and
    200 of an account.

    A worker is lost if it no longer reports without having stopped, while its queue is still reported. Until
    `blind_to_ms`, Pharos may have missed reports, so for some time after that a silent worker is not considered lost.
    """
    is_blind = blind_to_ms > clock_ms - LOST_MS
    known = {key: remembered for key, remembered in states.items() if key.startswith(WORKER_PREFIX)}
    room_of_queues = Counter(key.split(" ")[1] for key in known)
    room_of_accounts = Counter(remembered.scope.account_id for remembered in known.values())
    observed = {}
    for some in _split(sorted(known)):
        names = [key.split(" ") for key in some]
        is_known = (
            QueueWorker.queue_id.in_({int(queue) for _, queue, _ in names}),
            QueueWorker.worker_id.in_([worker for *_, worker in names]),
        )
        for row in await session.execute(_select_workers().where(*is_known)):
            found = _observe_worker(row, clock_ms)
            if found.key in known:
                is_unknown = is_blind and found.value == 1.0
                observed[found.key] = replace(found, value=None) if is_unknown else found
    if is_blind:
        return Reading(WORKER_PREFIX, list(observed.values()))
    for row in await session.execute(_select_lost(clock_ms)):
        found = _observe_worker(row, clock_ms, row.lost)
        if found.key in known:
            continue
        room_of_queues[str(row.queue_id)] += 1
        room_of_accounts[found.scope.account_id] += 1
        has_room = (
            room_of_queues[str(row.queue_id)] <= MAX_LOST
            and room_of_accounts[found.scope.account_id] <= MAX_LOST_OF_ACCOUNT
        )
        if has_room:
            observed[found.key] = found
    return Reading(WORKER_PREFIX, list(observed.values()))


def _observe_worker(row: Row[Any], clock_ms: int, lost: int | None = None) -> Observed:
    """Return the condition of a worker. `lost`: the number of lost workers of its queue."""
    key = f"{WORKER_PREFIX}{row.queue_id} {row.worker_id}"
    age_ms = clock_ms - row.received_ms
    is_lost = row.status != "stopped" and LOST_MS <= age_ms < _FORGOTTEN_MS
    facts = {
        "queue": row.name,
        "queue_id": row.queue_id,
        "worker": row.worker_id,
        "status": row.status,
        "last_report_ms": row.received_ms,
    }
    if lost is not None:
        facts["lost"] = lost
    if not is_lost:
        facts["reason"] = (
            "stopped" if row.status == "stopped" else "reports" if age_ms < LOST_MS else "forgotten"
        )
    scope = Scope(row.account_id, row.project_id, row.environment_id)
    return Observed(key, scope, "queue.worker_lost", key, _KNOWN, float(is_lost), facts)


def _select_lost(clock_ms: int) -> Select[*tuple[Any, ...]]:
    """Return the query for recently lost workers, those lost the longest first. It returns twice the limit for each
    queue and account, so that enough workers remain after those that are already known."""
    active = select(QueueWorker.queue_id).where(QueueWorker.received_ms > clock_ms - LOST_MS)
    reported = select(QueueState.queue_id).where(QueueState.received_ms > clock_ms - STALE_MS)
    of_queue, order = QueueWorker.queue_id, (QueueWorker.received_ms, QueueWorker.worker_id)
    lost = (
        _select_workers()
        .add_columns(
            func.row_number().over(partition_by=of_queue, order_by=order).label("place"),
            func.count().over(partition_by=of_queue).label("lost"),
        )
        .where(
            QueueWorker.status != "stopped",
            QueueWorker.received_ms <= clock_ms - LOST_MS,
            QueueWorker.received_ms > clock_ms - _LOST_LATELY_MS,
            or_(QueueWorker.queue_id.in_(active), QueueWorker.queue_id.in_(reported)),
        )
        .subquery()
    )
    # Choose workers from the queues of an account in turns.
    turn = func.row_number().over(
        partition_by=lost.c.account_id, order_by=(lost.c.place, lost.c.received_ms, lost.c.queue_id)
    )
    ranked = select(lost, turn.label("turn")).where(lost.c.place <= 2 * MAX_LOST).subquery()
    return select(ranked).where(ranked.c.turn <= 2 * MAX_LOST_OF_ACCOUNT).order_by(ranked.c.turn)


def _select_workers() -> Select[*tuple[Any, ...]]:
    return (
        select(
            QueueWorker.queue_id,
            QueueWorker.worker_id,
            Queue.name,
            Project.account_id,
            Project.id.label("project_id"),
            Environment.id.label("environment_id"),
            QueueWorker.status,
            QueueWorker.received_ms,
        )
        .join(Queue, Queue.id == QueueWorker.queue_id)
        .join(Environment, Environment.id == Queue.environment_id)
        .join(Project, Project.id == Environment.project_id)
    )


def _split(values: Collection[Any]) -> list[list[Any]]:
    ordered = list(values)
    return [ordered[first : first + _AT_ONCE] for first in range(0, len(ordered), _AT_ONCE)]
