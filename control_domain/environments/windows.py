"""Deploy windows: the hours of the week in which an environment accepts deploys."""

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
    """An invalid deploy window. The message shows a valid one."""


@dataclass(frozen=True, slots=True)
class DeployWindow:
    """The time from `begin` to `end` in `timezone`, on `days` (`mon` … `sun`).

    A window with `end` at or before `begin` ends on the next day.
    """

    days: tuple[str, ...]
    begin: time
    end: time
    timezone: str

    def is_open(self, now: datetime) -> bool:
        """Return True if the window is open at `now`; `end` is exclusive."""
        local = now.astimezone(ZoneInfo(self.timezone))
        clock = local.time()
        if self.begin < self.end:
            return self._has(local) and self.begin <= clock < self.end
        if clock >= self.begin:
            return self._has(local)
        return clock < self.end and self._has(local - timedelta(days=1))

    def covers(self, other: "DeployWindow | None") -> bool:
        """Return True if this window is open whenever `other` is open; `other` None is always open.

        False for another time zone: the result would change with daylight saving time.
        """
        if other is None or other.timezone != self.timezone:
            return False
        return other._minutes() <= self._minutes()

    def _minutes(self) -> set[int]:
        """Return the minutes of a local week in which the window is open."""
        begin, end = (time_.hour * 60 + time_.minute for time_ in (self.begin, self.end))
        duration = (end - begin) % _DAY or _DAY
        return {
            (DAYS.index(day) * _DAY + begin + minute) % (7 * _DAY)
            for day in self.days
            for minute in range(duration)
        }

    def _has(self, day: datetime) -> bool:
        return DAYS[day.weekday()] in self.days

    def __str__(self) -> str:
        return f"{','.join(self.days)} {self.begin:%H:%M}-{self.end:%H:%M} {self.timezone}"

    def to_document(self) -> dict[str, Any]:
        """Return the window as it appears in a configuration document."""
        return {
            "days": list(self.days),
            "from": f"{self.begin:%H:%M}",
            "to": f"{self.end:%H:%M}",
            "timezone": self.timezone,
        }


def read_window(document: Mapping[str, Any]) -> DeployWindow:
    """Return the window of a configuration document. Raises `BadWindow`."""
    days = document.get("days")
    if not isinstance(days, list) or not days or any(day not in DAYS for day in days):
        raise BadWindow(f"days are some of {', '.join(DAYS)}.")
    begin, end = (_read_time(document.get(name)) for name in ("from", "to"))
    timezone = document.get("timezone", "UTC")
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, TypeError, OSError):
        raise BadWindow(f"{timezone!r} is not a time zone like Europe/Oslo.") from None
    return DeployWindow(tuple(day for day in DAYS if day in days), begin, end, timezone)


def parse_window(text: str) -> DeployWindow:
    """Parse `mon-thu 09:00-16:00 Europe/Oslo` or `fri,sat 22:00-02:00` (UTC). Raises `BadWindow`."""
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


def _read_time(value: Any) -> time:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise BadWindow("Times of a window look like 09:00.")
    return time(int(found[1]), int(found[2]))


def load_window(stored: str | None) -> DeployWindow | None:
    """Return the window in the column `Environment.deploy_window`."""
    return None if stored is None else read_window(json.loads(stored))


def dump_window(window: DeployWindow | None) -> str | None:
    """Return the value of the column `Environment.deploy_window`."""
    return None if window is None else json.dumps(window.to_document())
