"""Decides when the next message of a group is due and what it contains. Pure.

The first message waits for further incidents of its group. Changes follow at most every few minutes, until all
incidents have ended; a new one then begins the group again. While an incident is open and not acknowledged, a reminder
follows after an hour, and then daily.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

FIRST_REMINDER = timedelta(hours=1)
NEXT_REMINDER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Timings:
    """Waiting times before messages."""

    first: timedelta = timedelta(seconds=30)
    """From the first unsent change to the message."""
    change: timedelta = timedelta(minutes=5)
    """The minimum time between two messages of a group, including reminders."""


@dataclass(frozen=True, slots=True)
class Group:
    """What a group has to send at the time of the plan."""

    sent_at: datetime | None
    """Time at which the last message was written."""
    pending_since: datetime | None
    """Time of the oldest change that may be sent now; None if there is none."""
    begins: bool
    """True if a newly opened incident may be sent now, and no incident of the group is open for the recipient."""
    held_until: datetime | None
    """When the first change that a silence or quiet hours hold may be sent; None if none is held."""
    remind_at: datetime | None
    can_remind: bool
    """True if a reminder of an incident may be sent now: the incident is open, not acknowledged, not silenced, and it
    is not in quiet hours."""
    remind_held_until: datetime | None
    """When the reminder of an incident that is held now may be sent; None if none is held."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send now, and when to check the group again."""

    send: Literal["change", "reminder"] | None
    due_at: datetime | None
    """When to check the group again unless an incident changes; None: never. Used only without a message: after a
    message the group is checked again at once."""


def plan_group(group: Group, now: datetime, timings: Timings) -> Plan:
    """Return what the group sends now, and when to check it again."""
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

    `opens`: the message reports a newly opened incident. `is_open`: the group has an open incident of a kind that has
    reminders.
    """
    if not is_open:
        return None
    if sent == "reminder":
        return now + NEXT_REMINDER
    if not opens:
        return remind_at
    first = now + FIRST_REMINDER
    # A time in the past had nothing to remind of, because everything was acknowledged.
    return first if remind_at is None or remind_at <= now else min(remind_at, first)
