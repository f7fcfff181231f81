"""Reads conditions of Pharos itself: the lag of the consumers, dead letters, disks, and backups. Their events belong
to the oldest account, which runs the installation."""

import asyncio
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from analytics_queries.alerts.disk_space import DiskSpace, disk_space
from analytics_queries.alerts.stored_receipts_lag import ReceiptsLag, receipts_lag
from control_domain.database.engine import Sessions
from control_domain.storage.backups import LAST_ATTEMPT, read_document
from control_domain.tables.accounts import Account
from control_domain.tables.monitors import MonitorProgress
from control_workers.alert_scan.conditions import Observed, Reading, Scope
from control_workers.alert_scan.phases import Limits
from pipeline_contracts import topics
from pipeline_contracts.blind_times import INTAKE_CLOCK, SCAN_CLOCK
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore, QueryRefused
from storage_backends.event_log.sqlite_offline import count_records
from storage_backends.monitor_states.interface import BLIND_CLOCK

logger = logging.getLogger(__name__)

LAG_PREFIX = "platform lag"
DEAD_PREFIX = "platform dead letters"
DISK_PREFIX = "platform disk "
BACKUP_PREFIX = "platform backup"
LAG = Limits(120.0, 30.0, pending=timedelta(seconds=60))
"""Seconds for which a record waits until it is stored. After a start, the consumers catch up before the condition
fires."""
DISK = Limits(90.0, 85.0)
"""Percentage of the disk that is used."""
_ANY = Limits(0.5, 0.5)
_LAG_SECONDS = 120
_DEAD_SECONDS = 3600
_DEAD_TOPICS = [topics.dead_letter_topic(topic) for topic in topics.ALL_TOPICS]
# The name of the embedded log's file in the data folder.
_LOG_FILE = "event-log.sqlite"
# Maximum age of an edge's clock. An edge writes its clock every ten seconds.
_CLOCK_MS = 60_000


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the consumers of heartbeats and queues, and the clocks of edges and of the heartbeat scan."""

    applied_ms: int | None
    """The time up to which all records of heartbeats and queues are applied. None if it is unknown."""
    intake_ms: int | None
    """When an edge last reported that it accepts requests. None if it is unknown."""
    blind_to_ms: int
    """When the last pause of an edge or of the heartbeat scan ended."""

    def lag_seconds(self, now: datetime) -> float | None:
        """Return the lag of the consumers in seconds. None if it is unknown."""
        if self.applied_ms is None:
            return None
        return max(0, to_epoch_ms(now) - self.applied_ms) / 1000

    def has_intake(self, now: datetime, since: datetime) -> bool:
        """Return True unless events that were sent since `since` may be missing."""
        if self.intake_ms is not None and self.intake_ms < to_epoch_ms(now) - _CLOCK_MS:
            return False
        return self.blind_to_ms < to_epoch_ms(since)


async def read_progress(sessions: Sessions) -> Progress:
    """Return the progress that consumers and edges store in the database."""
    names = [*topics.MONITOR_TOPICS, INTAKE_CLOCK, SCAN_CLOCK, BLIND_CLOCK]
    query = (
        select(MonitorProgress.topic, func.min(MonitorProgress.applied_through_ms))
        .where(MonitorProgress.topic.in_(names))
        .group_by(MonitorProgress.topic)
    )
    async with sessions() as session:
        found: dict[str, int] = {row[0]: row[1] for row in await session.execute(query)}
    applied = [found[topic] for topic in topics.MONITOR_TOPICS if topic in found]
    return Progress(min(applied, default=None), found.get(INTAKE_CLOCK), found.get(BLIND_CLOCK, 0))


async def find_operator(sessions: Sessions) -> Scope | None:
    """Return the scope of events about the installation. None if there is no account."""
    async with sessions() as session:
        account = await session.scalar(select(func.min(Account.id)))
    return None if account is None else Scope(account)


class PlatformScan:
    """Reads the conditions of Pharos itself."""

    def __init__(self, store: ColumnStore, data_folder: Path | None) -> None:
        """`data_folder`: the data folder of the embedded platform. None if the engines are servers."""
        self._store = store
        self._data_folder = data_folder
        self._dead_letters: int | None = None
        self._dead_letters_grew_at: datetime | None = None

    async def read(
        self, operator: Scope, progress: Progress, now: datetime, *, is_readable: bool
    ) -> tuple[list[Reading], float | None]:
        """Return the readings, and the lag in seconds or None if it is unknown.

        `is_readable`: True if the column store can be read.
        """
        receipts = await self._read_receipts() if is_readable else None
        lag = max(_known_lags(progress, receipts, now), default=None)
        dead = await self._count_dead_letters(receipts, now)
        readings = [
            Reading(
                LAG_PREFIX, [_observe(operator, LAG_PREFIX, "platform.consumer_lag", LAG, lag, {"unit": "s"})]
            ),
            Reading(
                DEAD_PREFIX,
                [
                    _observe(
                        operator,
                        DEAD_PREFIX,
                        "platform.dead_letters",
                        _ANY,
                        dead,
                        {"window_seconds": _DEAD_SECONDS},
                    )
                ],
            ),
            await self._read_disks(operator, is_readable=is_readable),
        ]
        if self._data_folder is not None:
            attempt = await asyncio.to_thread(read_document, self._data_folder / LAST_ATTEMPT)
            readings.append(Reading(BACKUP_PREFIX, [_observe_backup(operator, attempt)]))
        return readings, lag

    async def _read_receipts(self) -> ReceiptsLag | None:
        try:
            return await receipts_lag(self._store, _LAG_SECONDS, _DEAD_SECONDS)
        except (StorageUnavailable, QueryRefused) as error:
            logger.warning("receipts cannot be read now: %s", error)
            return None

    async def _count_dead_letters(self, receipts: ReceiptsLag | None, now: datetime) -> float | None:
        """Return the number of recent dead letters of telemetry. If the embedded log has recently received dead
        letters of any kind, return at least 1. Return None if the number is unknown."""
        of_telemetry = None if receipts is None else float(receipts.failed)
        if self._data_folder is None:
            return of_telemetry
        try:
            count = await asyncio.to_thread(count_records, self._data_folder / _LOG_FILE, _DEAD_TOPICS)
        except StorageUnavailable as error:
            logger.warning("dead letters cannot be counted now: %s", error)
            return of_telemetry
        if self._dead_letters is not None and count > self._dead_letters:
            self._dead_letters_grew_at = now
        self._dead_letters = count
        if self._dead_letters_grew_at is not None and now - self._dead_letters_grew_at < timedelta(
            seconds=_DEAD_SECONDS
        ):
            return max(1.0, of_telemetry or 0.0)
        return of_telemetry

    async def _read_disks(self, operator: Scope, *, is_readable: bool) -> Reading:
        try:
            disks = await self._measure_disks(is_readable=is_readable)
        except (OSError, StorageUnavailable, QueryRefused) as error:
            logger.warning("disks cannot be measured now: %s", error)
            disks = None
        if disks is None:
            return Reading(DISK_PREFIX, None)
        return Reading(DISK_PREFIX, [_observe_disk(operator, disk) for disk in disks])

    async def _measure_disks(self, *, is_readable: bool) -> Sequence[DiskSpace] | None:
        if self._data_folder is not None:
            usage = await asyncio.to_thread(shutil.disk_usage, self._data_folder)
            return [DiskSpace("data folder", usage.free, usage.total)]
        return await disk_space(self._store) if is_readable else None


def _known_lags(progress: Progress, receipts: ReceiptsLag | None, now: datetime) -> list[float]:
    lags = [] if receipts is None or not receipts.stored else [receipts.lag_ms / 1000]
    applied = progress.lag_seconds(now)
    return lags if applied is None else [*lags, applied]


def _observe_disk(operator: Scope, disk: DiskSpace) -> Observed:
    used = round(100 * (disk.total - disk.free) / disk.total, 1)
    facts = {"disk": disk.name, "free_bytes": disk.free, "total_bytes": disk.total, "unit": "%"}
    return _observe(operator, f"{DISK_PREFIX}{disk.name}", "platform.disk", DISK, used, facts)


def _observe_backup(operator: Scope, attempt: Mapping[str, Any] | None) -> Observed:
    """Return the condition of scheduled backups. A backup that a person starts with `pharos backup create` is left
    out, because that person sees the failure."""
    error, source = (None, None) if attempt is None else (attempt.get("error"), attempt.get("source"))
    value = 0.0 if error is None else 1.0 if source == "schedule" else None
    facts = {} if error is None or attempt is None else {"error": error, "folder": attempt.get("folder")}
    return _observe(operator, BACKUP_PREFIX, "platform.backup", _ANY, value, facts)


def _observe(
    operator: Scope, key: str, kind: str, limits: Limits, value: float | None, facts: Mapping[str, object]
) -> Observed:
    return Observed(key, operator, kind, key.removeprefix("platform "), limits, value, facts)
