"""The time range of a query, and the parts of it in which the newest rows are searched first."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

SECOND_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Rows are not stored in the order of their times, so a query sorts all rows of its window. The first window suffices
# for most pages. It covers the last 15 minutes, because lists also include the next 10 minutes.
_WINDOWS_NS = tuple(seconds * SECOND_NS for seconds in (25 * 60, 4 * 3600, 2 * 86_400))


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The times from `start` (inclusive) to `end` (exclusive), in nanoseconds since 1970."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / SECOND_NS

    def newest_windows(self, *, has_index: bool = False) -> Iterator["TimeRange"]:
        """Yield consecutive parts of the range, the newest first. Each part is longer than the one before.

        Each part begins at a whole second, except for the last one. `has_index`: True if an index finds the rows, so
        that fewer parts suffice.
        """
        end = self.end
        for width in _WINDOWS_NS[::2] if has_index else _WINDOWS_NS:
            begin = max(self.start, (end - width) // SECOND_NS * SECOND_NS)
            if begin < end:
                yield TimeRange(begin, end)
            end = begin
        if self.start < end:
            yield TimeRange(self.start, end)

    def oldest_windows(self) -> Iterator["TimeRange"]:
        """Yield ranges that all begin at `start`. Each is longer than the one before, and the last one is the whole
        range."""
        for width in _WINDOWS_NS:
            if self.start + width >= self.end:
                break
            yield TimeRange(self.start, self.start + width)
        yield self


def to_nanoseconds(moment: datetime) -> int:
    """Return the time in nanoseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND * 1000


def from_nanoseconds(nanoseconds: int) -> datetime:
    """Return the time as a UTC `datetime`, cut to microseconds."""
    return _EPOCH + nanoseconds // 1000 * _MICROSECOND


def microseconds_from(nanoseconds: int) -> int:
    """Return the first microsecond since 1970 that is not before this time. A time in microseconds is before the result
    exactly if it is before the given time."""
    return -(-nanoseconds // 1000)
