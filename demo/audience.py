"""The audience of the demo shop: browsers, countries and traffic sources, with weights."""

import random
from collections.abc import Iterable
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Weighted(Generic[T]):
    """Items to draw from at random, in proportion to their weights."""

    __slots__ = ("_items", "_weights")

    def __init__(self, items: Iterable[tuple[T, float]]) -> None:
        pairs = list(items)
        self._items = [item for item, _ in pairs]
        self._weights = list(accumulate(weight for _, weight in pairs))

    def pick(self, rng: random.Random) -> T:
        return rng.choices(self._items, cum_weights=self._weights)[0]


class Browser(NamedTuple):
    """A browser: its name in reports, and its User-Agent."""

    device: str
    name: str
    os: str
    user_agent: str
    reports_tablet: bool = False
    """True if the User-Agent looks like a desktop, and the tracker reports the device."""


class TrafficSource(NamedTuple):
    """The origin of a visit: a page that links to the shop, a link with `utm_` parameters, or neither."""

    referrer_host: str
    entry: str
    """The kind of entry page: a key of `journeys._ENTRIES`."""
    utm_source: str = ""
    utm_medium: str = ""
    utm_campaign: str = ""


_APPLE = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
_BLINK = "AppleWebKit/537.36 (KHTML, like Gecko)"
_WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64"
_MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
_PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X)"
_ANDROID = "Mozilla/5.0 (Linux; Android 10; K)"

BROWSERS = Weighted(
    [
        (Browser("Desktop", "Chrome", "Windows", f"{_WINDOWS}) {_BLINK} Chrome/138.0.0.0 Safari/537.36"), 24),
        (
            Browser(
                "Desktop",
                "Edge",
                "Windows",
                f"{_WINDOWS}) {_BLINK} Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
            ),
            7,
        ),
        (
            Browser("Desktop", "Firefox", "Windows", f"{_WINDOWS}; rv:140.0) Gecko/20100101 Firefox/140.0"),
            4,
        ),
        (Browser("Desktop", "Chrome", "macOS", f"{_MAC} {_BLINK} Chrome/138.0.0.0 Safari/537.36"), 9),
        (Browser("Desktop", "Safari", "macOS", f"{_MAC} {_APPLE} Version/18.5 Safari/605.1.15"), 7),
        (
            Browser(
                "Desktop",
                "Firefox",
                "Linux",
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            ),
            2.5,
        ),
        (
            Browser(
                "Desktop",
                "Chrome",
                "Linux",
                f"Mozilla/5.0 (X11; Linux x86_64) {_BLINK} Chrome/138.0.0.0 Safari/537.36",
            ),
            2,
        ),
        (
            Browser("Mobile", "Safari", "iOS", f"{_PHONE} {_APPLE} Version/18.5 Mobile/15E148 Safari/604.1"),
            21,
        ),
        (
            Browser(
                "Mobile", "Chrome", "iOS", f"{_PHONE} {_APPLE} CriOS/138.0.7204.53 Mobile/15E148 Safari/604.1"
            ),
            3,
        ),
        (
            Browser(
                "Mobile", "Chrome", "Android", f"{_ANDROID} {_BLINK} Chrome/138.0.0.0 Mobile Safari/537.36"
            ),
            13,
        ),
        (
            Browser(
                "Mobile",
                "Samsung Internet",
                "Android",
                f"{_ANDROID} {_BLINK} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
            ),
            3,
        ),
        (
            Browser(
                "Mobile",
                "Firefox",
                "Android",
                "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0",
            ),
            1,
        ),
        (
            Browser(
                "Tablet",
                "Safari",
                "macOS",
                f"{_MAC} {_APPLE} Version/18.5 Safari/605.1.15",
                reports_tablet=True,
            ),
            2.5,
        ),
        (
            Browser("Tablet", "Chrome", "Android", f"{_ANDROID} {_BLINK} Chrome/138.0.0.0 Safari/537.36"),
            1,
        ),
    ]
)

COUNTRIES = Weighted(
    [
        ("NO", 30),
        ("SE", 14),
        ("DE", 12),
        ("GB", 10),
        ("US", 9),
        ("DK", 7),
        ("NL", 4),
        ("FI", 4),
        ("FR", 3),
        ("PL", 2),
        ("ES", 1.5),
        ("CH", 1.2),
        ("CA", 1),
        ("AT", 0.8),
        ("IS", 0.5),
    ]
)
COUNTRIES_OF_LAUNCH = Weighted(
    [
        ("US", 46),
        ("GB", 10),
        ("DE", 9),
        ("CA", 7),
        ("IN", 6),
        ("NL", 4),
        ("FR", 4),
        ("AU", 4),
        ("NO", 3),
        ("SE", 3),
        ("BR", 2),
        ("JP", 2),
    ]
)

LAUNCH = TrafficSource("news.ycombinator.com", "launch")
NEWSLETTER = TrafficSource("", "new", "newsletter", "email", "new-arrivals")
TRAFFIC_SOURCES = Weighted(
    [
        (TrafficSource("", "any"), 33),
        (TrafficSource("www.google.com", "found"), 19),
        (TrafficSource("www.google.no", "found"), 9),
        (TrafficSource("www.google.de", "found"), 4),
        (TrafficSource("www.bing.com", "found"), 5),
        (TrafficSource("duckduckgo.com", "found"), 3.5),
        (TrafficSource("www.ecosia.org", "found"), 1),
        (TrafficSource("l.facebook.com", "product"), 2.5),
        (TrafficSource("m.facebook.com", "product"), 2.5),
        (TrafficSource("l.instagram.com", "product", "Instagram", "social", "studio-tour"), 3),
        (TrafficSource("www.pinterest.com", "product"), 2),
        (TrafficSource("www.reddit.com", "post"), 4),
        (TrafficSource("news.ycombinator.com", "launch"), 0.6),
        (TrafficSource("chatgpt.com", "found"), 3),
        (TrafficSource("www.perplexity.ai", "found"), 0.7),
        (TrafficSource("t.co", "post"), 1.2),
        (TrafficSource("www.linkedin.com", "about"), 1),
        (TrafficSource("www.youtube.com", "product"), 1),
        (TrafficSource("slow-living.example", "post"), 2.5),
        (TrafficSource("", "new", "newsletter", "email", "welcome"), 1.5),
    ]
)
