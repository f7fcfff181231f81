"""Makes the query parameters for the last minutes before a time."""

from datetime import datetime, timedelta

from analytics_queries.telemetry.time_range import to_nanoseconds

# A sender's clock may be this much ahead of the store's clock.
_CLOCKS_DIFFER = timedelta(minutes=5)


def recent_time(end: datetime, minutes: int) -> dict[str, int]:
    """Return `begin_us`, `end_us` and `received_us` in microseconds since 1970. Rows in this time range were
    received after `received_us`."""
    begin = end - timedelta(minutes=minutes)
    return {
        "begin_us": to_nanoseconds(begin) // 1000,
        "end_us": to_nanoseconds(end) // 1000,
        "received_us": to_nanoseconds(begin - _CLOCKS_DIFFER) // 1000,
    }
