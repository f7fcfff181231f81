"""When is the next message of a group due, and what does it contain? Pure.

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
    """The waits before messages."""

    first: timedelta = timedelta(seconds=30)
    """From the first change that is not sent yet to the message."""
    change: timedelta = timedelta(minutes=5)
    """The least time between two messages of a group, reminders included."""


@dataclass(frozen=True, slots=True)
class Group:
    """What a group has to send, as it is at the time of the plan."""

    sent_at: datetime | None
    """When the last message was written."""
    pending_since: datetime | None
    """The oldest change that may be sent now; None: there is none."""
    begins: bool
    """True if an incident opened that may be sent now, and no incident of the group is open for the recipient."""
    held_until: datetime | None
    """When the first change that is held by a silence or by quiet hours may be sent; None: none is held."""
    remind_at: datetime | None
    can_remind: bool
    """True if an incident may be repeated now: open, not acknowledged, neither silenced nor in quiet hours."""
    remind_held_until: datetime | None
    """When an incident may be repeated that is held now; None: none is held."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again."""

    send: Literal["change", "reminder"] | None
    due_at: datetime | None
    """When the group is looked at again unless an incident changes; None: never. Only without a message: after one the
    group is looked at again at once."""


def plan_group(group: Group, now: datetime, timings: Timings) -> Plan:
    """Return what the group sends now, and when it is looked at again."""
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
    """Return when a group is reminded next, after a message.

    `opens`: the message says of an incident that it opened. `is_open`: an incident of the group is open that is
    repeated at all.
    """
    if not is_open:
        return None
    if sent == "reminder":
        return now + NEXT_REMINDER
    if not opens:
        return remind_at
    first = now + FIRST_REMINDER
    # One that is past had nothing to repeat: everything was acknowledged.
    return first if remind_at is None or remind_at <= now else min(remind_at, first)
