"""Deploy windows: the hours of the week in which an environment takes deploys."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 24 * 60
_TIME = re.compile("([01][0-9]|2[0-3]):([0-5][0-9])")


class BadWindow(ValueError):
    """What is no window; the message says what one looks like."""


@dataclass(frozen=True, slots=True)
class DeployWindow:
    """From `begin` to `end` on the clock of `timezone`, on `days` (`mon` … `sun`). One that ends at or before the time
    at which it begins ends on the day after."""

    days: tuple[str, ...]
    begin: time
    end: time
    timezone: str

    def is_open(self, now: datetime) -> bool:
        """Whether deploys are taken at this moment; the end is no longer in it."""
        there = now.astimezone(ZoneInfo(self.timezone))
        clock = there.time()
        if self.begin < self.end:
            return self._has(there) and self.begin <= clock < self.end
        if clock >= self.begin:
            return self._has(there)
        return clock < self.end and self._has(there - timedelta(days=1))

    def covers(self, other: "DeployWindow | None") -> bool:
        """Whether this window is open whenever the other one is; None is open always. Of another time zone none
        is covered: whether it is may change with the season."""
        if other is None or other.timezone != self.timezone:
            return False
        return other._minutes() <= self._minutes()

    def _minutes(self) -> set[int]:
        """The minutes of a week in which it is open on its clock."""
        begin, end = (one.hour * 60 + one.minute for one in (self.begin, self.end))
        lasts = (end - begin) % _DAY or _DAY
        return {
            (DAYS.index(day) * _DAY + begin + minute) % (7 * _DAY)
            for day in self.days
            for minute in range(lasts)
        }

    def _has(self, day: datetime) -> bool:
        return DAYS[day.weekday()] in self.days

    def __str__(self) -> str:
        return f"{','.join(self.days)} {self.begin:%H:%M}-{self.end:%H:%M} {self.timezone}"

    def to_document(self) -> dict[str, Any]:
        """As the configuration document has it."""
        return {
            "days": list(self.days),
            "from": f"{self.begin:%H:%M}",
            "to": f"{self.end:%H:%M}",
            "timezone": self.timezone,
        }


def read_window(document: Mapping[str, Any]) -> DeployWindow:
    """The window of such a document. Raises `BadWindow`."""
    days = document.get("days")
    if not isinstance(days, list) or not days or any(day not in DAYS for day in days):
        raise BadWindow(f"days are some of {', '.join(DAYS)}.")
    begin, end = (_read_time(document.get(name)) for name in ("from", "to"))
    timezone = document.get("timezone", "UTC")
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, TypeError, OSError):
        raise BadWindow(f"{timezone!r} is no time zone; one is Europe/Oslo.") from None
    return DeployWindow(tuple(day for day in DAYS if day in days), begin, end, timezone)


def parse_window(text: str) -> DeployWindow:
    """`mon-thu 09:00-16:00 Europe/Oslo`, `fri,sat 22:00-02:00` (UTC). Raises `BadWindow`."""
    parts = text.split()
    if len(parts) not in (2, 3) or parts[1].count("-") != 1:
        raise BadWindow("A window looks like 'mon-thu 09:00-16:00 Europe/Oslo'.")
    begin, _, end = parts[1].partition("-")
    days = [day for piece in parts[0].lower().split(",") for day in _expand(piece)]
    return read_window({"days": days, "from": begin, "to": end, "timezone": (*parts, "UTC")[2]})


def _expand(piece: str) -> list[str]:
    first, dash, last = piece.partition("-")
    if not dash:
        return [first]
    if first not in DAYS or last not in DAYS:
        raise BadWindow(f"days are some of {', '.join(DAYS)}.")
    begin, end = DAYS.index(first), DAYS.index(last)
    return [DAYS[number % 7] for number in range(begin, end + (1 if begin <= end else 8))]


def _read_time(given: Any) -> time:
    found = _TIME.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise BadWindow("Times of a window look like 09:00.")
    return time(int(found[1]), int(found[2]))


def load_window(stored: str | None) -> DeployWindow | None:
    """The window in an environment's column."""
    return None if stored is None else read_window(json.loads(stored))


def dump_window(window: DeployWindow | None) -> str | None:
    """What the column holds."""
    return None if window is None else json.dumps(window.to_document())
