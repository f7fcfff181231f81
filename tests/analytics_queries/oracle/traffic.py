"""Random traffic with many edge cases of counting. All times are in milliseconds since 1970, UTC."""

import random
import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tests.analytics_queries.oracle.edges import DAYS, ZONES, edges, from_ms, moments, period_edges, to_ms
from tests.analytics_queries.oracle.sent import Sent
from tests.analytics_queries.oracle.visits import DAY, HOUR, MINUTE, SECOND

__all__ = ["ZONES", "moments", "random_traffic"]

AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.4 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
)
PATHS = ("/", "/pricing", "/docs", "/blog/ærlig", "/Zoo", "/thanks", "/a", "/missing")
SOURCES: tuple[dict[str, str], ...] = (
    {},
    {"referrer_host": "www.google.no"},
    {"referrer_host": "google.com"},
    {"referrer_host": "bing.com"},
    {"referrer_host": "l.facebook.com"},
    {"referrer_host": "t.co"},
    {"referrer_host": "news.ycombinator.com"},
    {"referrer_host": "www.partner.example"},
    {"referrer_host": "www.shop.example"},
    {"referrer_host": "shop.example"},
    {"utm_source": "newsletter", "utm_medium": "email", "utm_campaign": "spring"},
    {"utm_source": "newsletter", "utm_campaign": "autumn"},
    {"utm_source": "Google", "utm_campaign": "spring", "referrer_host": "www.google.no"},
    {"utm_campaign": "loose"},
)
DEVICES = ("Desktop", "Mobile", "Tablet")
BROWSERS = ("Chrome", "Safari", "Firefox")
SYSTEMS = ("Windows", "macOS", "Linux", "iOS", "Android")
COUNTRIES = ("NO", "SE", "US", "IN", "DE", "FR", None)
URLS = ("https://a.example/x", "https://b.example/y", "https://c.example/Z.pdf")
VITALS = ("LCP", "INP", "CLS", "FCP", "TTFB", "lcp", "Cls", "FID")
PAUSES = (30 * MINUTE, 30 * MINUTE + 1, 30 * MINUTE - 1, 29 * MINUTE)


@dataclass(frozen=True)
class Person:
    """A visitor: the properties that the edge sees, and the usual members of their events."""

    address: str
    user_agent: str
    country: str | None
    usual: dict[str, str]


def person(rng: random.Random, number: int) -> Person:
    """Return one of the run's few visitors; some share an address and differ only in their User-Agent."""
    return Person(
        f"203.0.113.{10 + number // 2}", AGENTS[number % 2], rng.choice(COUNTRIES), random_attributes(rng)
    )


def random_attributes(rng: random.Random) -> dict[str, str]:
    """Return the members of an event that describe source and device."""
    device = {"device": rng.choice(DEVICES), "browser": rng.choice(BROWSERS), "os": rng.choice(SYSTEMS)}
    return {**device, **rng.choice(SOURCES)}


def random_id(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def engagement(rng: random.Random) -> dict[str, Any]:
    seconds = rng.choice([0, 3, 5, 5.5, 4.5, 9, 9.999, 10, 12, rng.randint(0, 12), -4, "8"])
    return {"name": "Engagement", "visible_seconds": seconds}


def vital(rng: random.Random) -> dict[str, Any]:
    metric = rng.choice(VITALS)
    limits = [0.1, 0.25, 0.05, 0.3, 0] if metric.upper() == "CLS" else [200, 500, 800, 1800, 2500, 3000, 4000]
    value = rng.choice([*limits, rng.choice(limits) + 0.5, round(rng.uniform(0, 5000), 1)])
    if rng.random() < 0.06:
        value = rng.choice([-1, "1200"])
    id = f"v{rng.randint(1, 12)}" if rng.random() < 0.96 else ""
    return {"name": "Web Vital", "metric": metric, "value": value, "id": id}


def purchase(rng: random.Random) -> dict[str, Any]:
    properties: dict[str, Any] = {"name": "purchase"}
    if rng.random() < 0.9:
        properties["revenue"] = rng.choice([10, 19.99, "5.50", 0.1, 0.2, "0.0000005", 1.2345675, 0, "abc"])
    if rng.random() < 0.9:
        properties["currency"] = rng.choice(["EUR", "EUR", "usd", "NOK", "EURO"])
    return properties


def presence_properties(rng: random.Random) -> dict[str, Any]:
    """Return the properties of an event that counts as presence."""
    kind = rng.choice(["purchase", "signup", "link", "file", "404", "nameless"])
    if kind == "purchase":
        return purchase(rng)
    if kind == "link":
        return {"name": "Outbound Link: Click", "url": rng.choice(URLS)}
    if kind == "file":
        return {"name": "File Download", "url": rng.choice(URLS)}
    return {} if kind == "nameless" else {"name": kind}


def visit_events(rng: random.Random) -> list[tuple[int, dict[str, Any]]]:
    """Return a visit's events in order: milliseconds after its start, and type, path and properties."""
    style, at = rng.random(), 0
    found: list[tuple[int, dict[str, Any]]] = []
    for step in range(rng.choice([1, 1, 1, 2, 3, 4, 6])):
        if step:
            at += rng.choice([SECOND, rng.randint(SECOND, 29 * MINUTE), rng.choice(PAUSES)])
        path = rng.choice(PATHS)
        views = [{"type": "pageview", "path": path}] if style > 0.12 else []
        others: list[dict[str, Any]] = []
        if style < 0.07 or rng.random() < 0.4:
            others.append(rng.choice([engagement, vital])(rng))
        if 0.07 <= style < 0.12 or (style > 0.12 and rng.random() < 0.2):
            others.append(presence_properties(rng))
        found += [(at, view) for view in views]
        for properties in others:
            # Often at the time of the view before, so that only the ids decide which is first.
            at += rng.choice([0, 0, 1, SECOND, rng.randint(0, 20 * SECOND)])
            found.append((at, {"type": "event", "path": path, "properties": properties}))
    return found


def receipt(rng: random.Random, ms: int, now_ms: int) -> tuple[int, int | None] | None:
    """Return when an event of `ms` is received, and the time that it states (None: no time).

    Returns None if the event could not have been received by now.
    """
    kind, received = rng.random(), ms + rng.choice([0, 0, 1, rng.randint(0, 3 * SECOND)])
    stated: int | None = ms
    if kind < 0.15:
        received, stated = ms, None
    elif kind < 0.27:
        received = ms + rng.choice([rng.randint(0, 20 * MINUTE), rng.randint(0, DAY), DAY])
    elif kind < 0.37:
        received = ms - rng.choice([5 * MINUTE, rng.randint(0, 5 * MINUTE)])
    elif kind < 0.41:
        received, stated = ms, ms - DAY - rng.choice([1, SECOND, HOUR])
    elif kind < 0.45:
        received, stated = ms, ms + 5 * MINUTE + rng.choice([1, SECOND, HOUR])
    if received > now_ms:
        # Events of times up to now, and a little later, must be received by now.
        received, stated = now_ms, ms
        if ms > now_ms + 5 * MINUTE:
            return None
    return received, stated


def format_time(rng: random.Random, ms: int) -> str:
    """Return the time in RFC 3339, in UTC or with another offset."""
    moment = from_ms(ms)
    if rng.random() < 0.15:
        hours = rng.choice([-9, 2, 5])
        return from_ms(ms + hours * HOUR).strftime("%Y-%m-%dT%H:%M:%S.") + (
            f"{moment.microsecond // 1000:03d}{hours:+03d}:00"
        )
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def random_visit(rng: random.Random, who: Person, start: int, now_ms: int) -> list[Sent]:
    """Return the events of one visit, most of them with the person's usual members."""
    found = []
    identity: dict[str, str] = {}
    if rng.random() < 0.12:
        identity["visitor"] = f"user-{rng.randint(1, 3)}"
    if rng.random() < 0.14:
        identity["session"] = f"session-{rng.randint(1, 4)}"
    for after, body in visit_events(rng):
        times = receipt(rng, start + after, now_ms)
        if times is None:
            continue
        received, stated = times
        other = rng.random() < 0.12
        event = {"id": random_id(rng), **body, **(random_attributes(rng) if other else who.usual)}
        if rng.random() < 0.95:
            event |= identity
        if stated is not None:
            event["occurred_at"] = format_time(rng, stated)
        country = rng.choice(COUNTRIES) if other else who.country
        found.append(Sent(received, who.address, who.user_agent, country, event))
    return found


def long_visit(rng: random.Random, who: Person, midnight: int, now_ms: int) -> list[Sent]:
    """Return a visit of about 24 h that starts just after a UTC midnight, by session or by views with short pauses."""
    begin = midnight + rng.choice([0, 10 * MINUTE, rng.randint(0, 20 * MINUTE)])
    by_session = rng.random() < 0.7
    if by_session:
        last = rng.choice([DAY, DAY + 1, DAY - 1, DAY + rng.randint(0, 10 * MINUTE)])
        at = [0, 9 * HOUR, last, last + MINUTE]
    else:
        at = [step * 30 * MINUTE for step in range(48)] + [DAY, DAY + 1, DAY + 5 * MINUTE]
    identity = {"session": f"session-{rng.randint(1, 4)}"} if by_session else {}
    return [
        Sent(
            begin + after,
            who.address,
            who.user_agent,
            who.country,
            {"id": random_id(rng), "type": "pageview", "path": rng.choice(PATHS), **who.usual, **identity},
        )
        for after in at
        if begin + after <= now_ms
    ]


def repeats(rng: random.Random, sent: list[Sent], now_ms: int) -> list[Sent]:
    """Return repetitions of some events, which differ only in the time of receipt."""
    found = []
    for event in sent:
        if rng.random() < 0.08:
            after = rng.choice([0, 1, SECOND, rng.randint(0, 47 * HOUR), 49 * HOUR, 49 * HOUR])
            if event.received_ms + after <= now_ms:
                found.append(replace(event, received_ms=event.received_ms + after))
    return found


def random_traffic(rng: random.Random, zone: str, now: datetime) -> list[Sent]:
    """Return 150 to 400 events of one site in order of arrival, received by `now`, most of them near edges of `zone`.

    The site's own host is `shop.example`.
    """
    now_ms = to_ms(now)
    people = [person(rng, number) for number in range(rng.randint(3, 6))]
    moments_of_zone = edges(zone, now_ms)
    days = rng.choice(DAYS)
    cut = period_edges(zone, now_ms, days)[3]
    # Few edges at a time, so that the same people have several visits near each.
    near = [
        *rng.sample(moments_of_zone, min(len(moments_of_zone), rng.randint(2, 6))),
        *period_edges(zone, now_ms, days),
    ]
    near = [*(edge for edge in near if edge <= now_ms), now_ms, now_ms, cut, cut]
    target_count = rng.randint(140, 330)
    sent: list[Sent] = []
    while len(sent) < target_count:
        who, edge = rng.choice(people), rng.choice(near)
        if rng.random() < 0.02:
            sent += long_visit(rng, who, edge - edge % DAY - rng.choice([0, DAY]), now_ms)
            continue
        if rng.random() < 0.08:
            edge = now_ms - rng.randint(0, rng.choice([2, 60, 730]) * DAY)
        spread = rng.choice([0, 1, SECOND, MINUTE, 30 * MINUTE, 40 * MINUTE, 3 * HOUR])
        start = edge + rng.choice([-spread, spread, rng.randint(-spread, spread)])
        sent += random_visit(rng, who, start, now_ms)
    sent += repeats(rng, sent, now_ms)
    rng.shuffle(sent)
    return sorted(sent, key=lambda event: event.received_ms)
