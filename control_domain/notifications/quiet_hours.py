"""Quiet hours: the daily span in which messages below critical wait."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct, field

from pipeline_contracts.errors import FieldError, InvalidInput

Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
DAYS: tuple[Day, ...] = get_args(Day)
"""Names of weekdays in the order of `date.weekday`."""

_CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
_RULE = {"rule": "must be a time of day like 22:00"}
_ClockTime = Annotated[str, Meta(pattern=_CLOCK, extra=_RULE)]


class QuietHours(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A daily span of local time. Messages below critical wait for its end."""

    start: Annotated[
        _ClockTime, Meta(description="Local time at which the span begins.", examples=["22:00"])
    ] = field(name="from")
    end: Annotated[
        _ClockTime,
        Meta(
            description="Local time at which the span ends, on the next day if it is not later than `from`.",
            examples=["07:00"],
        ),
    ] = field(name="to")
    timezone: Annotated[
        str, Meta(max_length=64, description="The IANA time zone of both.", examples=["Europe/Berlin"])
    ] = "UTC"
    days: Annotated[
        list[Day] | None,
        Meta(
            description="Days on which the span begins; without it, every day.",
            examples=[["saturday", "sunday"]],
        ),
    ] = None

    def ends_at(self, now: datetime) -> datetime | None:
        """Return when the span that includes `now` ends, in UTC; None outside of quiet hours.

        Spans that follow each other without a gap are one. A local time that a clock change skips is read by the clock
        before the change. A local time that occurs twice is the first of the two.
        """
        end = None
        for span_start, span_end in self._spans(now):
            if end is None:
                end = span_end if span_start <= now < span_end else None
            elif span_start <= end:
                end = max(end, span_end)
        return end

    def _spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the spans that begin between yesterday and a week from now."""
        zone = ZoneInfo(self.timezone)
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        next_day = timedelta(days=1 if end <= start else 0)
        today = now.astimezone(zone).date()
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            if self.days is None or DAYS[day.weekday()] in self.days:
                yield _at(day, start, zone), _at(day + next_day, end, zone)


def check_quiet_hours(hours: QuietHours) -> None:
    """Raise `InvalidInput`, with fields named `quiet_hours.NAME`, unless the time zone is known and the hours have an
    end."""
    errors = []
    try:
        ZoneInfo(hours.timezone)
    except (KeyError, ValueError, OSError):
        errors.append(
            FieldError("quiet_hours.timezone", "must be an IANA name of a time zone, like Europe/Berlin")
        )
    if hours.days is not None and (not hours.days or len(set(hours.days)) < len(hours.days)):
        errors.append(FieldError("quiet_hours.days", "must name at least one day, and each once"))
    if hours.start == hours.end and len(set(hours.days or DAYS)) == len(DAYS):
        errors.append(
            FieldError(
                "quiet_hours.to",
                "must differ from `from` unless `days` leaves out a day: quiet hours must have an end",
            )
        )
    if errors:
        raise InvalidInput(
            "Nothing was changed. Fix the fields listed below and send the request again.", errors=errors
        )


def read_quiet_hours(text: str) -> QuietHours:
    """Return the quiet hours of a column."""
    return _decode(text)


def write_quiet_hours(hours: QuietHours | None) -> str | None:
    """Return the quiet hours for a column; null: none."""
    return None if hours is None else msgspec.json.encode(hours).decode()


def describe_quiet_hours(text: str | None) -> dict[str, Any] | None:
    """Return the quiet hours of a column as the API shows them."""
    if text is None:
        return None
    hours = read_quiet_hours(text)
    return {"from": hours.start, "to": hours.end, "timezone": hours.timezone, "days": hours.days}


_decode = msgspec.json.Decoder(QuietHours).decode


def _at(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)
