"""The stored amount of each kind of data, its growth, and the time until the disk is full."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from analytics_queries.alerts.disk_space import DiskSpace
from analytics_queries.storage.stored_partitions import StoredPartition
from storage_backends.column_store.change_retention import is_expired
from storage_backends.column_store.stored_kinds import KINDS, partition_end, partition_start

DataKind = Literal[
    "telemetry_events",
    "otel_traces",
    "otel_logs",
    "otel_metrics",
    "exceptions",
    "pageviews",
    "daily_rollups",
    "dropped_pageviews",
    "queue_history",
    "ingest_receipts",
]
_WINDOW = timedelta(days=7)
_DAY = timedelta(days=1)
_MAX_DAYS_LEFT = 3650


class StoredDays(TypedDict):
    """A part of the data that is deleted as a whole."""

    until: Annotated[str, Meta(description="The first UTC day after the part.", examples=["2026-11-27"])]
    rows: int
    bytes: Annotated[int, Meta(description="On disk, compressed.")]


class StoredKindDocument(TypedDict):
    """The stored data of one kind, of all accounts together."""

    kind: DataKind
    rows: int
    bytes: Annotated[int, Meta(description="On disk, compressed.")]
    bytes_per_day: Annotated[int, Meta(description="Bytes added per day, averaged over the last 7 days.")]
    retention_days: Annotated[
        int | None, Meta(description="Older data is deleted. Null if data is kept forever.")
    ]
    parts: Annotated[list[StoredDays], Meta(description="The oldest first.")]


class DiskDocument(TypedDict):
    """A disk of the column store."""

    name: str
    free_bytes: int
    total_bytes: int


class StorageDocument(TypedDict):
    """The data that the installation stores."""

    kinds: list[StoredKindDocument]
    other_bytes: Annotated[int, Meta(description="Bytes of the column store's tables for Pharos itself.")]
    database: Annotated[
        Literal["sqlite", "postgresql"],
        Meta(description="The database of accounts, projects and deployments."),
    ]
    database_bytes: int
    event_log_bytes: Annotated[
        int | None,
        Meta(description="Bytes of the embedded event log. Null with Kafka, which has its own disks."),
    ]
    disks: list[DiskDocument]
    bytes_per_day: Annotated[int, Meta(description="Compressed bytes added per day.")]
    days_left: Annotated[
        int | None,
        Meta(
            description="Days until the fullest disk is full, if it grows as in the last 7 days, less the data that "
            "the retention deletes in the next 7 days. Null if it does not grow, or lasts for over 10 years."
        ),
    ]


@dataclass(slots=True)
class _Stored:
    """Partitions of the tables of one kind, by their end."""

    rows: int = 0
    bytes: int = 0
    grown: float = 0.0
    parts: dict[date, StoredDays] = field(default_factory=dict)

    def add(self, end: date, rows: int, size: int) -> None:
        self.rows += rows
        self.bytes += size
        part = self.parts.setdefault(end, {"until": end.isoformat(), "rows": 0, "bytes": 0})
        part["rows"] += rows
        part["bytes"] += size

    def expiring(self, days: int, today: date) -> int:
        """Return the bytes of the parts that are deleted in the next days."""
        later = today + _WINDOW
        return sum(part["bytes"] for end, part in self.parts.items() if is_expired(end, days, later))


def describe_storage(
    partitions: Sequence[StoredPartition],
    retention: Mapping[str, int],
    disks: Iterable[DiskSpace],
    database: tuple[Literal["sqlite", "postgresql"], int],
    event_log_bytes: int | None,
    now: datetime,
) -> StorageDocument:
    """Return the document; `database` is its engine and its size in bytes."""
    stored = {kind: _collect(kind, partitions, now) for kind in KINDS}
    known = {table.name for tables in KINDS.values() for table in tables}
    growth = sum(kind.grown for kind in stored.values())
    freed = sum(stored[kind].expiring(days, now.date()) for kind, days in retention.items()) / _WINDOW.days
    found = [*disks]
    return {
        "kinds": [_describe_kind(kind, stored[kind], retention.get(kind)) for kind in KINDS],
        "other_bytes": sum(part.bytes for part in partitions if part.table not in known),
        "database": database[0],
        "database_bytes": database[1],
        "event_log_bytes": event_log_bytes,
        "disks": [{"name": disk.name, "free_bytes": disk.free, "total_bytes": disk.total} for disk in found],
        "bytes_per_day": round(growth),
        "days_left": _count_days_left(min((disk.free for disk in found), default=None), growth - freed),
    }


def _collect(kind: str, partitions: Iterable[StoredPartition], now: datetime) -> _Stored:
    stored = _Stored()
    units = {table.name: table.unit for table in KINDS[kind]}
    for table, partition_id, rows, size in partitions:
        if table not in units:
            continue
        stored.add(partition_end(units[table], partition_id), rows, size)
        stored.grown += _growth_per_day(
            partition_start(units[table], partition_id), partition_end(units[table], partition_id), size, now
        )
    return stored


def _growth_per_day(start: date, end: date, size: int, now: datetime) -> float:
    """Return the bytes per day that the part contributes to the average of the last 7 days."""
    since, today = now.date() - _WINDOW + _DAY, now.date() + _DAY
    covered = (min(end, today) - start).days
    recent = (min(end, today) - max(start, since)).days
    return size * max(0, recent) / covered / _WINDOW.days if covered > 0 else 0.0


def _count_days_left(free: int | None, net_growth: float) -> int | None:
    if free is None or net_growth <= 0:
        return None
    days = free / net_growth
    return int(days) if days <= _MAX_DAYS_LEFT else None


def _describe_kind(kind: str, stored: _Stored, retention: int | None) -> StoredKindDocument:
    return {
        "kind": kind,  # type: ignore[typeddict-item]
        "rows": stored.rows,
        "bytes": stored.bytes,
        "bytes_per_day": round(stored.grown),
        "retention_days": retention,
        "parts": [stored.parts[end] for end in sorted(stored.parts)],
    }
