"""Makes ingest bodies, as instrumented applications send them. They are prepared once, and numbered when they are
sent."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

# A placeholder in the IDs of each body and of its events. When the body is sent, the same number of digits replaces
# it, so that no length changes.
_NUMBER = b"@@@@@@@@@@"

_SERVICES = ("checkout", "catalog", "accounts", "search", "mailer")
_ROUTES = ("/orders/{id}", "/orders", "/products/{slug}", "/cart/items", "/sessions", "/search")
_REGIONS = ("eu-central-1", "us-east-1", "ap-southeast-2")
_TABLES = ("orders", "products", "cart_items", "sessions")


def make_bodies(count: int, events: int, seed: int = 1) -> list[bytes]:
    """Return `count` different JSON bodies of `events` events, about 515 bytes per event, with placeholders for
    numbers.

    The bodies must differ, because the log compresses neighbouring records together: copies would cost the log almost
    nothing.
    """
    chance = random.Random(seed)
    now = datetime.now(UTC)
    return [_body(chance, now, events) for _ in range(count)]


def number_body(body: bytes, number: int) -> bytes:
    """Return the body with `number` in the ID of the batch and in the IDs of its events. There are 10^10 different
    numbers."""
    return body.replace(_NUMBER, b"%010d" % number)


def batch_id(number: int) -> str:
    """Return the batch ID of the body with this number."""
    return f"bench-{number:010d}"


def _body(chance: random.Random, now: datetime, events: int) -> bytes:
    batch = {
        "batch_id": f"bench-{_NUMBER.decode()}",
        "events": [_event(chance, now, index) for index in range(events)],
    }
    return orjson.dumps(batch)


def _event(chance: random.Random, now: datetime, index: int) -> dict[str, Any]:
    service = chance.choice(_SERVICES)
    time = now - timedelta(microseconds=chance.randrange(60_000_000))
    common = {
        "id": f"evt-{_NUMBER.decode()}-{index:03d}",
        "timestamp": time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "trace_id": chance.randbytes(16).hex(),
        "span_id": chance.randbytes(8).hex(),
        "service": service,
        "attributes": {
            "host": f"{service}-{chance.randrange(40):02d}",
            "region": chance.choice(_REGIONS),
            "user.id": f"usr_{chance.randrange(10**8):08d}",
            "user.plan": chance.choice(("free", "team", "business")),
            "release": f"2026.11.{chance.randrange(9)}+{chance.randbytes(4).hex()}",
        },
    }
    return common | chance.choice((_request, _request, _query, _log))(chance)


def _request(chance: random.Random) -> dict[str, Any]:
    route = chance.choice(_ROUTES)
    url = route.replace("{id}", str(chance.randrange(10**7))).replace("{slug}", chance.randbytes(5).hex())
    return {
        "type": "request",
        "severity": "info",
        "name": f"GET {route}",
        "route": route,
        "url": f"https://shop.example.com{url}",
        "status_code": chance.choice((200, 200, 200, 201, 304, 404, 500)),
        "duration_ms": round(chance.lognormvariate(3, 1), 3),
        "payload": {"bytes_out": chance.randrange(60_000), "cache": chance.choice(("hit", "miss"))},
    }


def _query(chance: random.Random) -> dict[str, Any]:
    table = chance.choice(_TABLES)
    return {
        "type": "query",
        "parent_span_id": chance.randbytes(8).hex(),
        "name": f"SELECT {table}",
        "details": f"SELECT * FROM {table} WHERE account_id = $1 AND created_at > $2 LIMIT $3",
        "duration_ms": round(chance.lognormvariate(0.5, 1), 3),
        "payload": {"rows": chance.randrange(500), "pool": {"size": 20, "busy": chance.randrange(20)}},
    }


def _log(chance: random.Random) -> dict[str, Any]:
    order = chance.randrange(10**7)
    return {
        "type": "log",
        "severity": chance.choice(("debug", "info", "warning", "error")),
        "title": f"Order {order} was handed to the carrier",
        "fingerprint": chance.randbytes(8).hex(),
        "payload": {"order": order, "weight_g": chance.randrange(20_000), "note": "left at the front door"},
    }


def average_event_bytes(bodies: Sequence[bytes], events: int) -> float:
    """Return the average number of bytes per event."""
    return sum(map(len, bodies)) / len(bodies) / events
