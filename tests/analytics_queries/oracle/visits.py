"""From events in order of arrival to kept events and visits. All times are integer milliseconds since 1970, UTC."""

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
# Kind ("visitor" or "session"), number of the UTC day since 1970, who: what a hash under the day's salt tells apart.
Identity = tuple[str, int, Visitor]


@dataclass(frozen=True)
class Kept:
    """A stored event: `ms` is its own time, `sent` what it came as."""

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
        """The event's name; empty for a page view and where none is given."""
        return "" if self.is_view else text(self.properties.get("name"))

    @property
    def is_presence(self) -> bool:
        return self.is_view or self.name not in SILENT

    @property
    def is_interaction(self) -> bool:
        return not self.is_view and self.name not in NO_INTERACTION

    @property
    def visitor(self) -> Identity:
        given = text(self.sent.event.get("visitor"))
        who = ("given", given) if given else ("seen", self.sent.address, self.sent.user_agent)
        return ("visitor", self.ms // DAY, who)

    @property
    def looked_up_as(self) -> Identity:
        """The identity that the event's visit is looked up by: of its session if it has one, else its visitor."""
        session = text(self.sent.event.get("session"))
        return ("session", self.ms // DAY, (session,)) if session else self.visitor


@dataclass(eq=False)
class Visit:
    """A visit with its events in order of arrival; never empty."""

    events: list[Kept] = field(default_factory=list)

    @property
    def first(self) -> Kept:
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
    def views(self) -> list[Kept]:
        """Page views by time, then by id."""
        return sorted((event for event in self.events if event.is_view), key=lambda event: event.order)

    @property
    def entry(self) -> str | None:
        return self.views[0].path if self.views else None

    @property
    def exit(self) -> str | None:
        return self.views[-1].path if self.views else None

    def can_take(self, event: Kept) -> bool:
        """Whether the event may join: near enough unless by session, and the visit stays within its longest time."""
        near = self.first_ms - PAUSE <= event.ms <= self.last_ms + PAUSE
        span = max(self.last_ms, event.ms) - min(self.first_ms, event.ms)
        return (near or event.looked_up_as[0] == "session") and span <= LONGEST_VISIT


def text(value: Any) -> str:
    """The value if it is a text, else the empty one."""
    return value if isinstance(value, str) else ""


def event_ms(sent: Sent) -> int:
    """The event's time: `occurred_at` where it is given and within bounds, else the time of receipt."""
    given = sent.event.get("occurred_at")
    if not given:
        return sent.received_ms
    # Floor division: what is finer than a millisecond is cut off.
    occurred_ms = (datetime.fromisoformat(given) - EPOCH) // timedelta(milliseconds=1)
    in_bounds = sent.received_ms - OLDEST <= occurred_ms <= sent.received_ms + NEWEST
    return occurred_ms if in_bounds else sent.received_ms


def kept_events(sent: Sequence[Sent]) -> list[Kept]:
    """Events without repeats: an id counts again only when over 48 h have passed since its stored event's receipt."""
    stored_at: dict[str, int] = {}
    kept = []
    for one in sent:
        before = stored_at.get(one.event["id"])
        if before is not None and one.received_ms - before <= REPEAT_WINDOW:
            continue
        stored_at[one.event["id"]] = one.received_ms
        kept.append(Kept(event_ms(one), one))
    return kept


def identities(event: Kept) -> list[Identity]:
    """Under what an event's visit is looked up, and known afterwards: its day's own, then over the midnight bridge."""
    kind, day, who = event.looked_up_as
    own = (kind, day, who)
    # The day before's salt may be gone when a late event arrives; then there is nothing to bridge with.
    bridged = event.ms - day * DAY <= PAUSE and event.sent.received_ms < (day - 1) * DAY + SALT_LIFE
    return [own, (kind, day - 1, who)] if bridged else [own]


def all_visits(sent: Sequence[Sent]) -> list[Visit]:
    """Visits of events in order of arrival, in order of their beginning, with those that nobody was present in."""
    visits: list[Visit] = []
    known: dict[Identity, list[Visit]] = {}
    for event in kept_events(sent):
        names = identities(event)
        visit = None
        for name in names:
            fitting = [one for one in known.get(name, []) if one.can_take(event)]
            if fitting:
                # Of equally new ones the longer one.
                visit = max(fitting, key=lambda one: (one.last_ms, -one.first_ms))
                break
        if visit is None:
            visit = Visit()
            visits.append(visit)
        visit.events.append(event)
        for name in names:
            under = known.setdefault(name, [])
            if not any(one is visit for one in under):
                under.append(visit)
    return visits


def visits_of(sent: Sequence[Sent]) -> list[Visit]:
    """Visits that count: those with an event of presence."""
    return [visit for visit in all_visits(sent) if visit.is_present]
