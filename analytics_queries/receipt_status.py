"""What is the status of one ingest batch?"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


@dataclass(frozen=True, slots=True)
class ReceiptStatus:
    """Numbers of events of a batch. `received`: events when the batch was first accepted. `duplicates`: events of
    its repetitions."""

    batch_id: str
    status: Literal["stored", "duplicate", "failed"]
    received: int
    stored: int
    duplicates: int
    clamped: int
    received_at: datetime
    stored_at: datetime | None
    errors: list[str]


async def receipt_status(store: ColumnStore, environment_id: str, name: str) -> ReceiptStatus | None:
    """Return the status of the receipt `name`. None while no consumer has reported on it.

    Raises `StorageUnavailable`.
    """
    (row,) = (await store.query(_SQL, {"receipt": name, "environment": environment_id})).records()
    if row["reports"] == 0:
        return None
    status: Literal["stored", "duplicate", "failed"] = "duplicate"
    if row["times_stored"]:
        status = "stored"
    elif row["times_failed"]:
        status = "failed"
    return ReceiptStatus(
        batch_id=row["stored_batch_id"] or row["any_batch_id"],
        status=status,
        received=row["received"],
        stored=row["stored"],
        duplicates=row["duplicates"],
        clamped=row["clamped"],
        received_at=row["first_received_at"],
        stored_at=row["first_stored_at"] if row["times_stored"] else None,
        errors=sorted(row["errors"]),
    )
