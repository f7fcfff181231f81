"""How much a record weighs in a chunk, whatever its topic."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from pipeline_contracts.records import LogRecord

_DAY_MS = 86_400_000


class Received(Protocol):
    """What came at a time, milliseconds since 1970."""

    @property
    def received_ms(self) -> int: ...


M = TypeVar("M", bound=Received)


def weigh(record: LogRecord, decode_meta: Callable[[bytes], M], rows: Callable[[M], int]) -> tuple[int, int]:
    """As `Transform.weight` has it: the tables' partitions are days of receipt."""
    try:
        meta = decode_meta(record.meta)
    except msgspec.DecodeError:
        return (0, -1)
    return (rows(meta), meta.received_ms // _DAY_MS)
