"""The weight of a record in a chunk: its rows, and the table partition that they go to."""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, TypeVar

import msgspec

from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import DAY_MS, from_epoch_ms


def day_of_receipt(received_ms: int) -> int:
    """Return the partition of a table that is partitioned by the day of receipt."""
    return received_ms // DAY_MS


def month_of_receipt(received_ms: int) -> int:
    """Return the partition of a table that is partitioned by the month of receipt."""
    return _month_of_day(received_ms // DAY_MS)


@lru_cache(1024)
def _month_of_day(day: int) -> int:
    received = from_epoch_ms(day * DAY_MS)
    return received.year * 12 + received.month


class Received(Protocol):
    """Has a time of receipt, milliseconds since 1970."""

    @property
    def received_ms(self) -> int: ...


M = TypeVar("M", bound=Received)


def weigh(
    record: LogRecord,
    decode_meta: Callable[[bytes], M],
    rows: Callable[[M], int],
    partition: Callable[[int], int] = day_of_receipt,
) -> tuple[int, int]:
    """Return what `Transform.weight` does. `partition` maps the time of receipt to the table partition."""
    try:
        meta = decode_meta(record.meta)
    except msgspec.DecodeError:
        return (0, -1)
    return (rows(meta), partition(meta.received_ms))
