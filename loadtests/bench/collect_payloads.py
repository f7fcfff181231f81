"""Makes requests that browsers send: page views of many visitors of a shop."""

import random
from collections.abc import Sequence

import msgspec

from ingest_edge.collect.events import Client, collect_events
from ingest_edge.collect.visitors import VisitorHashes
from pipeline_contracts.collected import Collected, SentEvents, encode_collected
from pipeline_contracts.times import DAY_MS

ORIGIN = "https://shop.example"
VIEWS = 20
"""Maximum number of page views in a request."""
_PATHS = ["/", "/products", "/cart", "/about", *(f"/products/{number}" for number in range(60))]
_REFERRERS = (
    None,
    None,
    None,
    "www.google.com",
    "www.google.no",
    "news.ycombinator.com",
    "www.reddit.com",
    "blog.example",
)
_SYSTEMS = (
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_7",
    "X11; Linux x86_64",
    "Linux; Android 14; Pixel 8",
)


def user_agents() -> list[str]:
    """Return 64 different User-Agent values. Most visitors of a site have one of about as many."""
    return [
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 "
        f"{'Mobile ' if 'Android' in system else ''}Safari/537.36"
        for version in range(125, 141)
        for system in _SYSTEMS
    ]


def collect_bodies(count: int, views: int, first: int = 0) -> list[bytes]:
    """Return `count` bodies of `views` page views each. The last 12 digits of each ID number the views, beginning with
    those of body `first`."""
    rng = random.Random(7 + first)
    encode = msgspec.json.Encoder().encode
    bodies = []
    for body in range(first, first + count):
        events = []
        for view in range(views):
            event = {
                "id": f"0197a5c4-0000-7000-8000-{body * views + view:012d}",
                "type": "pageview",
                "path": rng.choice(_PATHS),
            }
            if view == 0 and (referrer := rng.choice(_REFERRERS)) is not None:
                event["referrer_host"] = referrer
            events.append(event)
        bodies.append(encode({"events": events}))
    return bodies


def collected_records(bodies: Sequence[bytes], received_ms: int, first: int = 0) -> list[bytes]:
    """Return the records that the edge makes of the bodies. Four records in a row belong to the same visitor."""
    decode = msgspec.json.Decoder(SentEvents).decode
    day = received_ms // DAY_MS
    salts = {one: bytes(16) for one in (day - 1, day, day + 1)}
    agents = user_agents()
    records = []
    for number, body in enumerate(bodies, first):
        hashes = VisitorHashes(salts, 1, f"10.0.0.{number // 4}", agents[number // 4 % len(agents)])
        client = Client("Desktop", "Chrome", "Windows")
        events = collect_events(decode(body).events, received_ms, (ORIGIN,), client, hashes)
        records.append(encode_collected(Collected("NO", events)))
    return records
