"""Converts values from the driver to values that the interface promises."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

# Column types whose values may be times.
_TIMES = ("DateTime", "Dynamic", "Variant", "JSON")


def plain_rows(rows: Sequence[Sequence[Any]], column_types: Sequence[Any]) -> list[list[Any]]:
    """Return the rows with naive times converted to aware UTC times, also inside arrays: the driver omits the time
    zone of UTC columns. `column_types`: the driver's types of the columns. Only columns that may have times are
    converted."""
    times = [
        index
        for index, column_type in enumerate(column_types)
        if any(name in column_type.name for name in _TIMES)
    ]
    if not times:
        return list(map(list, rows))
    return [_with_aware_times(row, times) for row in rows]


def _with_aware_times(row: Sequence[Any], times: Sequence[int]) -> list[Any]:
    values = list(row)
    for index in times:
        values[index] = _to_aware(values[index])
    return values


def _to_aware(value: Any) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [_to_aware(member) for member in value]
    return value
