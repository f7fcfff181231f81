"""Computes the report with plain loops over visits."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from tests.analytics_queries.oracle.figures import mean, metric, number, percent, revenue
from tests.analytics_queries.oracle.local_days import Period, current_period, local_date, previous_period
from tests.analytics_queries.oracle.sent import Filters, Goal, Sent, Site
from tests.analytics_queries.oracle.visits import DAY, Identity, StoredEvent, Visit, text, visits_of

DIRECT = "Direct / None"
WELL_KNOWN = {
    "bing.com": "Bing",
    "duckduckgo.com": "DuckDuckGo",
    "facebook.com": "Facebook",
    "m.facebook.com": "Facebook",
    "l.facebook.com": "Facebook",
    "t.co": "X",
    "chatgpt.com": "ChatGPT",
    "news.ycombinator.com": "Hacker News",
}
# Key in the report, unit, the highest good value, the highest one that only needs improvement.
SPEEDS = (
    ("lcp", "ms", Decimal(2500), Decimal(4000)),
    ("inp", "ms", Decimal(200), Decimal(500)),
    ("cls", "", Decimal("0.1"), Decimal("0.25")),
    ("fcp", "ms", Decimal(1800), Decimal(3000)),
    ("ttfb", "ms", Decimal(800), Decimal(1800)),
)
LONGEST_LIST = 5
RATES = ("conversion_rate", "bounce_rate")

VisitorDay = tuple[Identity, date]
# The entries that a list counts: name and visitor-day.
Counted = Iterable[tuple[str | None, VisitorDay]]


def source_of(event: dict[str, Any], hosts: frozenset[str]) -> str:
    """Return the name of an event's traffic source, for a site with these hosts."""
    if utm := text(event.get("utm_source")).strip():
        return utm
    host = text(event.get("referrer_host")).lower().removeprefix("www.")
    if not host or host in hosts:
        return DIRECT
    return "Google" if host.startswith("google.") else WELL_KNOWN.get(host, host)


class Counter:
    """The figures of some visits in one period."""

    def __init__(self, visits: list[Visit], period: Period, site: Site, path: str | None) -> None:
        self.period = period
        self.site = site
        self.path = path
        # Events in the period with their visits.
        self.events = [(visit, event) for visit in visits for event in visit.events if period.has(event.ms)]
        self.started = [visit for visit in visits if period.has(visit.first_ms)]
        self.visitor_days = {
            self.visitor_day(visit, event) for visit, event in self.events if event.is_presence
        }

    def visitor_day(self, visit: Visit, event: StoredEvent) -> VisitorDay:
        return (visit.visitor, local_date(event.ms, self.period.zone))

    def days_with(self, matches: Callable[[StoredEvent], bool]) -> set[VisitorDay]:
        """Return the visitor-days with a matching event in the period."""
        found = {self.visitor_day(visit, event) for visit, event in self.events if matches(event)}
        return found & self.visitor_days

    def metrics(self) -> dict[str, float]:
        rated = [visit for visit in self.started if self.path is None or visit.entry == self.path]
        converted = self.days_with(lambda event: any(converts(event, goal) for goal in self.site.goals))
        return {
            "pageviews": sum(event.is_view for _, event in self.events),
            "visitors": mean(len(self.visitor_days), self.period.days),
            "visits": len(self.started),
            "conversion_rate": percent(len(converted), len(self.visitor_days)),
            "bounce_rate": percent(sum(is_bounce(visit) for visit in rated), len(rated)),
            "visit_duration": mean(sum(visit.duration_ms for visit in rated), 1000 * len(rated)),
        }

    def series(self) -> list[dict[str, Any]]:
        entries = []
        for at, start, end in self.period.slots():
            inside = [(visit, event) for visit, event in self.events if start <= event.ms < end]
            entries.append(
                {
                    "at": at,
                    "pageviews": sum(event.is_view for _, event in inside),
                    "visitors": len({visit.visitor for visit, event in inside if event.is_presence}),
                    "visits": sum(start <= visit.first_ms < end for visit in self.started),
                }
            )
        return entries

    def list_of_visits(self, name_of: Callable[[Visit], str | None]) -> list[dict[str, Any]]:
        counted = [(name_of(visit), self.visitor_day(visit, visit.first)) for visit in self.started]
        return listed(counted, "visits")

    def list_of_events(
        self, matches: Callable[[StoredEvent], bool], name_of: Callable[[StoredEvent], str], unit: str
    ) -> list[dict[str, Any]]:
        chosen = [(visit, event) for visit, event in self.events if matches(event)]
        return listed([(name_of(event), self.visitor_day(visit, event)) for visit, event in chosen], unit)

    def list_of_urls(self, name: str) -> list[dict[str, Any]]:
        return self.list_of_events(
            lambda event: event.name == name, lambda event: text(event.properties.get("url")), "events"
        )

    def list_of_first(self, key: str) -> list[dict[str, Any]]:
        return self.list_of_visits(lambda visit: text(visit.first.sent.event.get(key)))

    def lists(self) -> dict[str, list[dict[str, Any]]]:
        hosts = self.site.hosts
        return {
            "pages": self.list_of_events(lambda event: event.is_view, lambda event: event.path, "pageviews"),
            "entry_pages": self.list_of_visits(lambda visit: visit.entry),
            "exit_pages": self.list_of_visits(lambda visit: visit.exit),
            "sources": self.list_of_visits(lambda visit: source_of(visit.first.sent.event, hosts)),
            "countries": self.list_of_visits(lambda visit: visit.first.sent.country),
            "campaigns": self.list_of_first("utm_campaign"),
            "devices": self.list_of_first("device"),
            "browsers": self.list_of_first("browser"),
            "operating_systems": self.list_of_first("os"),
            "outbound_links": self.list_of_urls("Outbound Link: Click"),
            "file_downloads": self.list_of_urls("File Download"),
            "missing_pages": self.list_of_events(
                lambda event: event.name == "404", lambda event: event.path, "events"
            ),
        }

    def goals(self) -> list[dict[str, Any]]:
        entries = []
        for goal in sorted(self.site.goals, key=lambda goal: goal.id):
            conversions = [event for _, event in self.events if converts(event, goal)]
            visitors = {
                self.visitor_day(visit, event) for visit, event in self.events if converts(event, goal)
            }
            visitors &= self.visitor_days
            entries.append(
                {
                    "id": goal.id,
                    "name": goal.name,
                    "conversions": len(conversions),
                    "visitors": len(visitors),
                    "conversion_rate": percent(len(visitors), len(self.visitor_days)),
                    "revenue": [] if goal.event is None else revenues(conversions),
                }
            )
        return entries

    def page_speed(self) -> dict[str, dict[str, Any]]:
        # A value replaces an earlier one with the same id, visit, local day and UTC day.
        last: dict[str, dict[tuple[Any, ...], tuple[tuple[int, str], Decimal]]] = {
            key: {} for key, *_ in SPEEDS
        }
        for visit, event in self.events:
            if event.name != "Web Vital":
                continue
            key, id = text(event.properties.get("metric")).lower(), text(event.properties.get("id"))
            value = number(event.properties.get("value"))
            if key not in last or not id or value is None or value < 0:
                continue
            key_of_value = (id, visit, local_date(event.ms, self.period.zone), event.ms // DAY)
            if key_of_value not in last[key] or last[key][key_of_value][0] < event.order:
                last[key][key_of_value] = (event.order, value)
        return {
            key: speed([value for _, value in last[key].values()], unit, good, fair)
            for key, unit, good, fair in SPEEDS
        }


def converts(event: StoredEvent, goal: Goal) -> bool:
    """Return whether the event is a conversion of the goal."""
    if goal.event is not None:
        return not event.is_view and event.name == goal.event
    return event.is_view and event.path == goal.path


def is_bounce(visit: Visit) -> bool:
    """Return whether the visit has one page view, no interaction, and less than ten visible seconds."""
    seconds = Decimal(0)
    for event in visit.events:
        if event.name == "Engagement":
            visible = number(event.properties.get("visible_seconds"))
            if visible is not None and visible >= 0:
                seconds += visible
    return len(visit.views) == 1 and not any(event.is_interaction for event in visit.events) and seconds < 10


def listed(counted: Counted, unit: str) -> list[dict[str, Any]]:
    """Return a list of the report; `unit` names the count of its entries besides visitors."""
    days: dict[str, set[VisitorDay]] = {}
    counts: dict[str, int] = {}
    for name, visitor_day in counted:
        if name:
            days.setdefault(name, set()).add(visitor_day)
            counts[name] = counts.get(name, 0) + 1
    names = sorted(days, key=lambda name: (-len(days[name]), name))[:LONGEST_LIST]
    return [{"name": name, "visitors": len(days[name]), unit: counts[name]} for name in names]


def revenues(conversions: list[StoredEvent]) -> list[dict[str, Any]]:
    """Return the sums by currency."""
    sums: dict[str, Decimal] = {}
    for event in conversions:
        if found := revenue(event.properties):
            sums[found[0]] = sums.get(found[0], Decimal(0)) + found[1]
    return [{"currency": currency, "amount": float(sums[currency])} for currency in sorted(sums)]


def speed(values: list[Decimal], unit: str, good: Decimal, fair: Decimal) -> dict[str, Any]:
    """Return a page speed metric from the last values of its ids."""
    if not values:
        return {"p75": None, "unit": unit, "rating": None, "samples": 0}
    enough = [value for value in values if 4 * sum(other <= value for other in values) >= 3 * len(values)]
    p75 = min(enough)
    rating = "good" if p75 <= good else "needs-improvement" if p75 <= fair else "poor"
    return {"p75": float(p75), "unit": unit, "rating": rating, "samples": len(values)}


def matches_filters(filters: Filters, visit: Visit, site: Site) -> bool:
    """Return whether the visit passes the filters."""
    first = visit.first.sent
    found = [
        (filters.source, source_of(first.event, site.hosts)),
        (filters.campaign, text(first.event.get("utm_campaign"))),
        (filters.device, text(first.event.get("device"))),
        (filters.country and filters.country.upper(), first.country),
    ]
    viewed = filters.path is None or any(view.path == filters.path for view in visit.views)
    return viewed and all(expected is None or expected == value for expected, value in found)


def report(sent: Sequence[Sent], site: Site, days: int, filters: Filters, now_ms: int) -> dict[str, Any]:
    """Return the `data` of a report's response. `sent` is in order of arrival, `now_ms` since 1970, UTC."""
    visits = [visit for visit in visits_of(sent) if matches_filters(filters, visit, site)]
    period = current_period(site.timezone, days, now_ms)
    current = Counter(visits, period, site, filters.path)
    before = Counter(visits, previous_period(site.timezone, days, now_ms), site, filters.path).metrics()
    return {
        "site": {"id": site.id, "name": site.name, "timezone": site.timezone},
        "period": {
            "days": days,
            "from": period.dates[0].isoformat(),
            "to": period.last.isoformat(),
            "interval": "hour" if days == 1 else "day",
            "timezone": site.timezone,
        },
        "filters": {
            "path": filters.path,
            "source": filters.source,
            "campaign": filters.campaign,
            "device": filters.device,
            "country": filters.country,
        },
        "metrics": {
            name: metric(value, before[name], name in RATES) for name, value in current.metrics().items()
        },
        "series": current.series(),
        **current.lists(),
        "goals": current.goals(),
        "page_speed": current.page_speed(),
    }
