"""Decides when the next message of a group is due and what it contains. Does no I/O.

The first message waits a moment for further incidents of the group. Changes follow at most every few minutes, until
all incidents have ended. After that, a new incident begins the group again. While an incident is open and not
acknowledged, a reminder follows after an hour, and then daily.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

FIRST_REMINDER = timedelta(hours=1)
NEXT_REMINDER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a group waits before it sends a message."""

    first: timedelta = timedelta(seconds=30)
    """The time from the first unsent change to the message."""
    change: timedelta = timedelta(minutes=5)
    """The minimum time between two messages of a group, including reminders."""


@dataclass(frozen=True, slots=True)
class Group:
    """What a group has to send when it is checked."""

    sent_at: datetime | None
    """When the last message was written."""
    pending_since: datetime | None
    """When the oldest change happened that may be sent now. None if there is none."""
    begins: bool
    """True if a newly opened incident may be sent now, and no incident of the group is open for the recipient."""
    held_until: datetime | None
    """When the first change may be sent that a silence or quiet hours hold back. None if nothing is held back."""
    remind_at: datetime | None
    can_remind: bool
    """True if an incident may be reminded of now: it is open, not acknowledged, not silenced, and not in quiet
    hours."""
    remind_held_until: datetime | None
    """When the first reminder may be sent that is held back now. None if none is held back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send now, and when to check the group again."""

    send: Literal["change", "reminder"] | None
    due_at: datetime | None
    """When to check the group again if no incident changes. None: never. This is only used if no message is sent:
    after a message, the group is checked again at once."""


def plan_group(group: Group, now: datetime, timings: Timings) -> Plan:
    """Return what the group sends now, and when to check the group again."""
    times: list[datetime] = []
    if group.pending_since is not None:
        due = group.pending_since + timings.first
        if group.sent_at is not None and not group.begins:
            due = max(due, group.sent_at + timings.change)
        if due <= now:
            return Plan("change", None)
        times.append(due)
    if group.held_until is not None:
        times.append(group.held_until)
    if group.remind_at is not None:
        if group.remind_at > now:
            times.append(group.remind_at)
        elif group.can_remind:
            return Plan("reminder", None)
        elif group.remind_held_until is not None:
            times.append(group.remind_held_until)
    return Plan(None, min(times, default=None))


def next_reminder(
    remind_at: datetime | None,
    now: datetime,
    *,
    sent: Literal["change", "reminder"],
    opens: bool,
    is_open: bool,
) -> datetime | None:
    """Return the time of the group's next reminder, after a message.

    `opens`: True if the message reports a newly opened incident. `is_open`: True if the group has an open incident of
    a kind that has reminders.
    """
    if not is_open:
        return None
    if sent == "reminder":
        return now + NEXT_REMINDER
    if not opens:
        return remind_at
    first = now + FIRST_REMINDER
    # At a time in the past there was nothing to remind of, because everything was acknowledged.
    return first if remind_at is None or remind_at <= now else min(remind_at, first)
