"""Computes the weight of a record in a chunk: the number of its rows, and the table partition to which
they go."""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, TypeVar

import msgspec

from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import DAY_MS, from_epoch_ms


def day_of_receipt(received_ms: int) -> int:
    """Return the partition number for a table that is partitioned by the day of receipt."""
    return received_ms // DAY_MS


def month_of_receipt(received_ms: int) -> int:
    """Return the partition number for a table that is partitioned by the month of receipt."""
    return _month_of_day(received_ms // DAY_MS)


@lru_cache(1024)
def _month_of_day(day: int) -> int:
    received = from_epoch_ms(day * DAY_MS)
    return received.year * 12 + received.month


class Received(Protocol):
    """An object with a time of receipt, in milliseconds since 1970."""

    @property
    def received_ms(self) -> int: ...


M = TypeVar("M", bound=Received)


def weigh(
    record: LogRecord,
    decode_meta: Callable[[bytes], M],
    rows: Callable[[M], int],
    partition: Callable[[int], int] = day_of_receipt,
) -> tuple[int, int]:
    """Return the result for `Transform.weight`. `partition`: a function from the time of receipt to the
    table partition."""
    try:
        meta = decode_meta(record.meta)
    except msgspec.DecodeError:
        return (0, -1)
    return (rows(meta), partition(meta.received_ms))
