"""Shared parts of all reads of telemetry: the time range, its pages, and the queue for the column store."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from analytics_queries.telemetry.time_range import TimeRange
from control_api.limits.report_queue import run_queued_report
from control_api.operations.access import At
from control_api.operations.pages import PageOf, PageQuery, SortedPages, read_sorted_pages
from control_domain.telemetry.range_cursors import Part, RangeCursor, read_range_cursor, write_range_cursor
from control_domain.telemetry.time_ranges import CLOCK_AHEAD, DURATION, MAX_RANGE, read_range, whole_range
from pipeline_contracts.errors import StorageUnavailable, Unavailable

T = TypeVar("T")
D = TypeVar("D")

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
_ZONED = "must be a time with its zone, like 2026-11-26T03:10:00Z"
_STORE_UNAVAILABLE = (
    "The column store does not answer now, or this read takes too long: choose a shorter time range."
)

Text = Annotated[str, Meta(min_length=1, max_length=500)]
Service = Annotated[Text | None, Meta(description="The name of a service.")]
Trace = Annotated[Text | None, Meta(description="The ID of a trace.")]
Duration = Annotated[
    str,
    Meta(
        pattern=f"^{DURATION}$",
        extra={"rule": "must be a duration like 15m, 1h or 7d; for times, use from and to"},
    ),
]
Since = Annotated[
    Duration | None,
    Meta(
        description="The length of a range up to now in seconds, minutes, hours, days or weeks, up "
        f"to {MAX_RANGE.days} days, instead of "
        "`from` and `to`. Requests and calls are counted from the beginning of a minute, from `12h` on of an "
        "hour, and from `14d` on of a day in UTC.",
        examples=["15m", "1h", "7d"],
    ),
]
_Moment = Annotated[datetime, Meta(tz=True, extra={"rule": _ZONED})]
From = Annotated[_Moment | None, Meta(description="When the time range begins, in RFC 3339.")]
To = Annotated[
    _Moment | None,
    Meta(
        description="When the time range ends; now unless it is given. Lists that end now also show "
        f"items up to {CLOCK_AHEAD // timedelta(minutes=1)} minutes ahead, because the clock of a "
        "sender may be ahead."
    ),
]


Step = Annotated[
    Duration | None,
    Meta(
        description="The length of a step. By default, there are about a hundred steps.",
        examples=["30s", "5m"],
    ),
]
TrendSteps = Annotated[
    int, Meta(ge=0, le=60, description="If given, each item has a `trend` with about this number of steps.")
]


class RangeQuery(msgspec.Struct, kw_only=True):
    """The time range of a read."""

    since: Since = None
    from_: From = msgspec.field(default=None, name="from")
    to: To = None

    def read(
        self,
        default: timedelta,
        now: datetime,
        *,
        ahead: timedelta = timedelta(0),
        longest: timedelta = MAX_RANGE,
    ) -> TimeRange:
        """Return the range; without parameters, the last `default`. A range that ends now is `ahead` longer. Raises
        `InvalidInput`."""
        return read_range(self.since, self.from_, self.to, default, now, ahead=ahead, longest=longest)


class FiguresRange(NamedTuple):
    """The range that figures are read from, and the range of rates."""

    within: TimeRange
    elapsed: TimeRange
    """The same range, but up to now."""


def has_no_times(query: "RangeQuery | RangePageQuery") -> bool:
    """True if neither `from` nor `to` is given."""
    return query.from_ is None and query.to is None


def figures_range(within: TimeRange, *, is_whole: bool) -> FiguresRange:
    """Return the range of figures; if it `is_whole`, a range that ends now is extended to whole minutes, hours or
    days."""
    whole = whole_range(within) if is_whole else within
    return FiguresRange(whole, TimeRange(whole.start, within.end))


class RangePageQuery(PageQuery, kw_only=True):
    """The time range and the page of a list. All pages have the range of the first one, which their cursors contain."""

    since: Since = None
    from_: From = msgspec.field(default=None, name="from")
    to: To = None


@dataclass(frozen=True, slots=True)
class RangePages(Generic[D]):
    """The requested page of a list with a time range."""

    within: TimeRange
    limit: int
    after: Sequence[Part] | None
    """The parts of the key after which the page begins; None for the first page."""
    _pages: SortedPages

    def answer(self, documents: Sequence[D], last: Sequence[Part] | None) -> PageOf[D]:
        """Return the page. `last`: the parts of the key of the last row if more rows follow, else None."""
        key = None if last is None else write_range_cursor(RangeCursor(self.within, last))
        return self._pages.answer(documents, key)


def read_range_pages(
    at: At[Any],
    query: RangePageQuery,
    name: str,
    kinds: Sequence[type[Part]],
    default: timedelta,
    *,
    ahead: timedelta = CLOCK_AHEAD,
) -> RangePages[Any]:
    """Return the page that a query requests, by default of the last `default`. `kinds` are the types of the parts of a
    key. A range that ends now is `ahead` longer. Raises `InvalidInput`."""
    within = read_range(query.since, query.from_, query.to, default, at.now, ahead=ahead)
    pages = read_sorted_pages(at, query, name)
    if pages.after is None:
        return RangePages(within, query.limit, None, pages)
    cursor = read_range_cursor(pages.after, kinds)
    return RangePages(cursor.within, query.limit, cursor.parts, pages)


async def read_store(at: At[Any], make: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `make`, which reads the column store, in the queue of reports. Accounts take turns, and no
    transaction is open meanwhile.

    Raises `TooManyRequests` and `Unavailable`.
    """
    await at.end_transaction()
    try:
        return await run_queued_report(at.request, at.account.id, make)
    except StorageUnavailable as error:
        raise Unavailable(_STORE_UNAVAILABLE) from error
