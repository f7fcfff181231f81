"""Turns events in order of arrival into stored events and visits. Times are integer milliseconds since 1970, UTC."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.analytics_queries.oracle.sent import Sent

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

PAUSE = 30 * MINUTE
LONGEST_VISIT = 24 * HOUR
OLDEST, NEWEST = 24 * HOUR, 5 * MINUTE
REPEAT_WINDOW = 48 * HOUR
SALT_LIFE = 48 * HOUR

SILENT = frozenset({"Engagement", "Web Vital"})
NO_INTERACTION = SILENT | {"404"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Visitor = tuple[str, ...]
# Kind ("visitor" or "session"), number of the UTC day since 1970, and visitor: the input of a hash with the day's salt.
Identity = tuple[str, int, Visitor]


@dataclass(frozen=True)
class StoredEvent:
    """A stored event: `ms` is its time, `sent` its original."""

    ms: int
    sent: Sent

    @property
    def id(self) -> str:
        return str(self.sent.event["id"])

    @property
    def order(self) -> tuple[int, str]:
        return (self.ms, self.id)

    @property
    def is_view(self) -> bool:
        return bool(self.sent.event["type"] == "pageview")

    @property
    def path(self) -> str:
        return text(self.sent.event.get("path"))

    @property
    def properties(self) -> dict[str, Any]:
        return self.sent.event.get("properties") or {}

    @property
    def name(self) -> str:
        """The event's name; empty for a page view or an event without a name."""
        return "" if self.is_view else text(self.properties.get("name"))

    @property
    def is_presence(self) -> bool:
        return self.is_view or self.name not in SILENT

    @property
    def is_interaction(self) -> bool:
        return not self.is_view and self.name not in NO_INTERACTION

    @property
    def visitor(self) -> Identity:
        visitor = text(self.sent.event.get("visitor"))
        who = ("given", visitor) if visitor else ("seen", self.sent.address, self.sent.user_agent)
        return ("visitor", self.ms // DAY, who)

    @property
    def lookup_identity(self) -> Identity:
        """The identity by which the event's visit is found: its session if it has one, else its visitor."""
        session = text(self.sent.event.get("session"))
        return ("session", self.ms // DAY, (session,)) if session else self.visitor


@dataclass(eq=False)
class Visit:
    """A visit with its events in order of arrival; never empty."""

    events: list[StoredEvent] = field(default_factory=list)

    @property
    def first(self) -> StoredEvent:
        return min(self.events, key=lambda event: event.order)

    @property
    def first_ms(self) -> int:
        return min(event.ms for event in self.events)

    @property
    def last_ms(self) -> int:
        return max(event.ms for event in self.events)

    @property
    def duration_ms(self) -> int:
        return self.last_ms - self.first_ms

    @property
    def visitor(self) -> Identity:
        return self.first.visitor

    @property
    def is_present(self) -> bool:
        return any(event.is_presence for event in self.events)

    @property
    def views(self) -> list[StoredEvent]:
        """Page views by time, then by id."""
        return sorted((event for event in self.events if event.is_view), key=lambda event: event.order)

    @property
    def entry(self) -> str | None:
        return self.views[0].path if self.views else None

    @property
    def exit(self) -> str | None:
        return self.views[-1].path if self.views else None

    def accepts(self, event: StoredEvent) -> bool:
        """Return whether the event may join: within the pause unless by session, and within the longest visit."""
        near = self.first_ms - PAUSE <= event.ms <= self.last_ms + PAUSE
        span = max(self.last_ms, event.ms) - min(self.first_ms, event.ms)
        return (near or event.lookup_identity[0] == "session") and span <= LONGEST_VISIT


def text(value: Any) -> str:
    """Return the value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def event_ms(sent: Sent) -> int:
    """Return the event's time: `occurred_at` if it is within bounds, else the time of receipt."""
    occurred_at = sent.event.get("occurred_at")
    if not occurred_at:
        return sent.received_ms
    # Floor division removes fractions of a millisecond.
    occurred_ms = (datetime.fromisoformat(occurred_at) - EPOCH) // timedelta(milliseconds=1)
    in_bounds = sent.received_ms - OLDEST <= occurred_ms <= sent.received_ms + NEWEST
    return occurred_ms if in_bounds else sent.received_ms


def stored_events(sent: Sequence[Sent]) -> list[StoredEvent]:
    """Return events without repetitions: an id counts again more than 48 h after the receipt of its stored event."""
    stored_at: dict[str, int] = {}
    stored = []
    for event in sent:
        before = stored_at.get(event.event["id"])
        if before is not None and event.received_ms - before <= REPEAT_WINDOW:
            continue
        stored_at[event.event["id"]] = event.received_ms
        stored.append(StoredEvent(event_ms(event), event))
    return stored


def identities(event: StoredEvent) -> list[Identity]:
    """Return the identities by which an event's visit is found: of its day, and near midnight of the day before."""
    kind, day, who = event.lookup_identity
    own = (kind, day, who)
    # The former day's salt may be deleted when a late event arrives; then only the own day remains.
    bridged = event.ms - day * DAY <= PAUSE and event.sent.received_ms < (day - 1) * DAY + SALT_LIFE
    return [own, (kind, day - 1, who)] if bridged else [own]


def all_visits(sent: Sequence[Sent]) -> list[Visit]:
    """Return the visits of events in order of arrival, including visits without an event of presence."""
    visits: list[Visit] = []
    known: dict[Identity, list[Visit]] = {}
    for event in stored_events(sent):
        names = identities(event)
        visit = None
        for name in names:
            fitting = [candidate for candidate in known.get(name, []) if candidate.accepts(event)]
            if fitting:
                # Of equally recent visits the longer one.
                visit = max(fitting, key=lambda candidate: (candidate.last_ms, -candidate.first_ms))
                break
        if visit is None:
            visit = Visit()
            visits.append(visit)
        visit.events.append(event)
        for name in names:
            visits_of_name = known.setdefault(name, [])
            if not any(other is visit for other in visits_of_name):
                visits_of_name.append(visit)
    return visits


def visits_of(sent: Sequence[Sent]) -> list[Visit]:
    """Return the visits that count: those with an event of presence."""
    return [visit for visit in all_visits(sent) if visit.is_present]
