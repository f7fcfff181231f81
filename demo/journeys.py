"""Plans visits of the demo shop: the sequence of pages, and the events that the tracker sends on each."""

import math
import random
from dataclasses import dataclass
from typing import Any

from demo.audience import Weighted
from pipeline_contracts.collected import ENGAGEMENT, FILE_DOWNLOAD, NOT_FOUND, OUTBOUND_LINK, WEB_VITAL

SHOP = "https://lanterns.example"

PRODUCTS = {
    "beacon-table-lamp": ("Beacon table lamp", 89.0),
    "harbour-lantern": ("Harbour lantern", 59.0),
    "keeper-desk-lamp": ("Keeper desk lamp", 119.0),
    "tide-pendant": ("Tide pendant", 149.0),
    "gull-reading-light": ("Gull reading light", 64.5),
    "skerry-candle-holder": ("Skerry candle holder", 29.9),
    "fresnel-floor-lamp": ("Fresnel floor lamp", 239.0),
    "pier-wall-light": ("Pier wall light", 79.0),
    "storm-lantern": ("Storm lantern", 49.0),
    "driftwood-night-light": ("Driftwood night light", 34.5),
    "linen-shade": ("Linen shade", 24.9),
    "spare-wicks": ("Spare wicks, six", 9.9),
}
POSTS = {
    "how-a-fresnel-lens-bends-light": "How a Fresnel lens bends light",
    "a-lamp-that-lasts-forty-years": "A lamp that lasts forty years",
    "choosing-light-for-dark-winters": "Choosing light for dark winters",
    "a-day-in-the-workshop": "A day in the workshop",
    "caring-for-oiled-wood": "Caring for oiled wood",
}
LAUNCH_POST = "/blog/how-a-fresnel-lens-bends-light"
CARE_GUIDE = "/files/care-guide.pdf"

_LINKS = (
    "https://en.wikipedia.org/wiki/Fresnel_lens",
    "https://www.openstreetmap.org/",
    "https://pixelfed.social/",
)
_MISSING = (
    "/products/harbor-lantern",
    "/sale",
    "/blog/summer-2019",
    "/wp-login.php",
    "/favicon.png",
    "/shop",
)
_CURRENCIES = Weighted([("EUR", 62), ("NOK", 38)])
_NOK_FOR_EUR = 11.5

# The first products and posts are the most popular.
_PRODUCT = Weighted([(f"/products/{slug}", 1 / (n + 2)) for n, slug in enumerate(PRODUCTS)])
_POST = Weighted([(f"/blog/{slug}", 1 / (n + 2)) for n, slug in enumerate(POSTS)])
_ENTRIES = {
    "any": Weighted(
        [("/", 62), ("product", 18), ("post", 8), ("/products", 9), ("missing", 1.5), ("/about", 2)]
    ),
    "found": Weighted([("product", 38), ("/", 30), ("post", 19), ("/products", 11), ("missing", 2.5)]),
    "product": Weighted([("product", 78), ("/", 14), ("/products", 8)]),
    "post": Weighted([("post", 80), ("/", 14), ("missing", 3), ("product", 3)]),
    "about": Weighted([("/about", 50), ("/", 50)]),
    "new": Weighted([("/products", 45), ("product", 45), ("/", 10)]),
    "launch": Weighted([("launch", 82), ("/", 18)]),
}
_NEXT = {
    "/": Weighted([("/products", 45), ("product", 32), ("post", 12), ("/about", 9), ("missing", 1)]),
    "/products": Weighted([("product", 85), ("/", 8), ("/cart", 4), ("/about", 3)]),
    "product": Weighted([("product", 38), ("/products", 27), ("/cart", 23), ("/", 6), ("post", 6)]),
    "/cart": Weighted([("/checkout", 52), ("/products", 23), ("product", 25)]),
    "/checkout": Weighted([("/thanks", 62), ("/cart", 22), ("product", 16)]),
    "/thanks": Weighted([("/", 50), ("/products", 30), ("post", 20)]),
    "/about": Weighted([("/", 30), ("/products", 45), ("post", 25)]),
    "post": Weighted([("post", 28), ("product", 36), ("/products", 20), ("/", 11), ("/about", 5)]),
    "missing": Weighted([("/", 60), ("/products", 40)]),
}
# The typical time on a page, in seconds.
_STAY_SECONDS = {
    "post": 62.0,
    "launch": 75.0,
    "product": 30.0,
    "/checkout": 55.0,
    "/products": 20.0,
    "/thanks": 12.0,
    "missing": 7.0,
}
_MAX_STAY_SECONDS = 20 * 60.0

_SINGLE_PAGE_RATE = 0.53
_NEXT_PAGE_RATE = 0.56
_MAX_PAGES = 9
_BOUNCE_RATE = 0.85
_VITALS_RATE = 0.33
# Median, standard deviation of the logarithm, and the factor of a phone. In milliseconds, except for CLS.
_VITALS = Weighted(
    [
        (("LCP", 1650.0, 0.50, 1.35), 1),
        (("INP", 85.0, 0.75, 1.5), 1),
        (("CLS", 0.045, 0.9, 1.1), 1),
        (("FCP", 980.0, 0.45, 1.3), 1),
        (("TTFB", 290.0, 0.60, 1.25), 1),
    ]
)


@dataclass(slots=True)
class Step:
    """One event that the tracker sends: a page view, or the event called `name`."""

    at_ms: int
    """Time since the start of the visit."""
    path: str
    name: str = ""
    url: str = ""
    visible_ms: int = 0
    metric: str = ""
    value: float = 0.0
    revenue: float = 0.0
    currency: str = ""

    def properties(self, measurement: str) -> dict[str, Any]:
        """Return the properties that the tracker sends; `measurement` is the ID of a Web Vital."""
        properties: dict[str, Any] = {"name": self.name}
        if self.url:
            properties["url"] = self.url
        if self.name == ENGAGEMENT:
            properties["visible_seconds"] = self.visible_ms / 1000
        if self.metric:
            properties |= {"metric": self.metric, "value": self.value, "id": measurement}
        if self.currency:
            properties |= {"revenue": self.revenue, "currency": self.currency}
        return properties


def plan_visit(rng: random.Random, entry: str, *, is_phone: bool) -> list[Step]:
    """Return the events of one visit with 1 to 9 page views, in order of time. `entry` is a key of `_ENTRIES`."""
    steps: list[Step] = []
    page_kind = _ENTRIES[entry].pick(rng)
    pages = 1
    if rng.random() >= _SINGLE_PAGE_RATE:
        pages = 2
        while pages < _MAX_PAGES and rng.random() < _NEXT_PAGE_RATE:
            pages += 1
    bounces = pages == 1 and rng.random() < _BOUNCE_RATE
    at_ms = 0
    for number in range(pages):
        if number:
            page_kind = _NEXT["post" if page_kind == "launch" else page_kind].pick(rng)
        at_ms = _view(rng, steps, at_ms, page_kind, bounces=bounces, is_phone=is_phone)
    return steps


def group_into_requests(steps: list[Step], limit: int, span_ms: int) -> list[list[Step]]:
    """Group events into requests of at most `limit` events that are at most `span_ms` apart."""
    requests: list[list[Step]] = []
    for step in steps:
        if requests and len(requests[-1]) < limit and step.at_ms - requests[-1][0].at_ms <= span_ms:
            requests[-1].append(step)
        else:
            requests.append([step])
    return requests


def _path(rng: random.Random, page_kind: str) -> str:
    match page_kind:
        case "product":
            return _PRODUCT.pick(rng)
        case "post":
            return _POST.pick(rng)
        case "launch":
            return LAUNCH_POST
        case "missing":
            return rng.choice(_MISSING)
    return page_kind


def _view(
    rng: random.Random, steps: list[Step], at_ms: int, page_kind: str, *, bounces: bool, is_phone: bool
) -> int:
    """Append a page view and the events on its page; return the time of the next page view."""
    path = _path(rng, page_kind)
    steps.append(Step(at_ms, path))
    if page_kind == "missing":
        steps.append(Step(at_ms + 1, path, NOT_FOUND))
    if bounces:
        stay_ms = round(min(9.9, rng.lognormvariate(1.1, 0.8)) * 1000)
        visible_ms = stay_ms
    else:
        stay_ms = round(
            min(_MAX_STAY_SECONDS, 2 + _STAY_SECONDS.get(page_kind, 16.0) * math.exp(rng.gauss(0.0, 0.8)))
            * 1000
        )
        visible_ms = round(stay_ms * rng.uniform(0.6, 1.0))
        if rng.random() < 0.12:
            _interact(rng, steps, at_ms + round(stay_ms * 0.8), path, page_kind)
    if page_kind == "/thanks":
        steps.append(_purchase(rng, at_ms + 400))
        steps.sort(key=lambda step: step.at_ms)
    left_ms = at_ms + stay_ms
    # The tracker reports tenths of seconds, and no time below half a second.
    if visible_ms >= 500:
        steps.append(Step(left_ms, path, ENGAGEMENT, visible_ms=round(visible_ms, -2)))
    if rng.random() < _VITALS_RATE:
        metric, median, spread, slower = _VITALS.pick(rng)
        value = median * math.exp(rng.gauss(0.0, spread)) * (slower if is_phone else 1.0)
        if metric == "CLS" and rng.random() < 0.4:
            value = 0.0
        steps.append(
            Step(left_ms, path, WEB_VITAL, metric=metric, value=round(value, 4 if metric == "CLS" else 1))
        )
    return left_ms + rng.randint(150, 900)


def _interact(rng: random.Random, steps: list[Step], at_ms: int, path: str, page_kind: str) -> None:
    """Append an interaction that some visitors make before they leave a page."""
    match page_kind:
        case "post" | "launch" | "/about":
            if rng.random() < 0.6:
                steps.append(Step(at_ms, path, OUTBOUND_LINK, url=rng.choice(_LINKS)))
            elif rng.random() < 0.4:
                steps.append(Step(at_ms, path, "signup"))
        case "product":
            if rng.random() < 0.4:
                steps.append(Step(at_ms, path, FILE_DOWNLOAD, url=SHOP + CARE_GUIDE))
        case "/" | "/cart" | "/checkout":
            steps.append(Step(at_ms, path, "signup"))


def _purchase(rng: random.Random, at_ms: int) -> Step:
    price = sum(
        PRODUCTS[_PRODUCT.pick(rng).rpartition("/")[2]][1] for _ in range(rng.choice((1, 1, 1, 2, 3)))
    )
    currency = _CURRENCIES.pick(rng)
    if currency == "NOK":
        price *= _NOK_FOR_EUR
    return Step(at_ms, "/thanks", "purchase", revenue=round(price, 2), currency=currency)
