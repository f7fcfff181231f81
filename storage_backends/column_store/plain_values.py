"""Values of an answer as the interface has them."""

from datetime import UTC, datetime
from typing import Any


def plain(value: Any) -> Any:
    """The value with the times in it, in arrays too, as aware ones in UTC: the driver leaves the zone out where a
    column's is UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value
