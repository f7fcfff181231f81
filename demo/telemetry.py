"""Simulates the telemetry of a small web shop, for `pharos up --demo`.

`DemoShop` generates events from a random generator and a clock; `send_demo_telemetry` posts them.
"""

import asyncio
import logging
import math
import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from pipeline_contracts.times import format_time

logger = logging.getLogger(__name__)

_SECONDS_PER_DAY = 86_400
# Events a second: the mean, and the amplitude of the daily wave.
_MEAN_RATE = 34.0
_DAILY_AMPLITUDE = 13.0
# A second wave of ten minutes makes changes of the rate visible in a short demo.
_RIPPLE_SECONDS = 600
_RIPPLE_AMPLITUDE = 5.0
_BURST_EVERY_SECONDS = 240
_MAX_WAIT_SECONDS = 30.0
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Page:
    method: str
    route: str
    weight: int
    typical_ms: float
    queries: tuple[str, ...]


_PAGES = (
    _Page("GET", "/", 20, 35.0, ("SELECT * FROM products WHERE featured ORDER BY rank LIMIT 12",)),
    _Page("GET", "/products", 26, 60.0, ("SELECT * FROM products ORDER BY rank LIMIT 48 OFFSET $1",)),
    _Page(
        "GET",
        "/products/{id}",
        34,
        45.0,
        ("SELECT * FROM products WHERE id = $1", "SELECT * FROM reviews WHERE product_id = $1 LIMIT 10"),
    ),
    _Page("GET", "/search", 10, 120.0, ("SELECT id, name FROM products WHERE search @@ $1 LIMIT 24",)),
    _Page("POST", "/cart/items", 6, 40.0, ("INSERT INTO cart_items (cart_id, product_id) VALUES ($1, $2)",)),
    _Page(
        "POST",
        "/checkout",
        3,
        310.0,
        (
            "SELECT * FROM carts WHERE id = $1 FOR UPDATE",
            "INSERT INTO orders (cart_id, total) VALUES ($1, $2)",
        ),
    ),
    _Page("GET", "/account/orders", 4, 70.0, ("SELECT * FROM orders WHERE customer_id = $1 LIMIT 20",)),
)
_JOBS = (("SendOrderConfirmation", 180.0), ("ResizeProductImage", 900.0), ("SyncStock", 2400.0))
_LOGS = (
    ("info", "Cart recovered from session"),
    ("info", "Newsletter subscription confirmed"),
    ("debug", "Cache miss for the featured products"),
    ("warning", "Stock of a product is below its threshold"),
    ("warning", "Payment provider took over 2 s"),
)
_FAULTS = (
    ("PaymentDeclinedError", "The payment provider answered 502", "app/payments.py", 88, "charge"),
    ("OperationalError", "canceling statement due to statement timeout", "app/catalogue.py", 41, "load_page"),
    ("KeyError", "'shipping_country'", "app/checkout.py", 132, "delivery_options"),
)


class DemoShop:
    """Generates the shop's telemetry second by second. The same generator and times give the same events."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._burst_until: datetime | None = None

    def events_of_second(self, now: datetime) -> list[dict[str, Any]]:
        """Return the events of the second that ends at `now`, oldest first, in the format of the public API."""
        rng = self._rng
        failing = self._is_failing(now)
        target = max(8.0, expected_rate(now) + rng.gauss(0.0, 3.0))
        events: list[dict[str, Any]] = []
        while len(events) < target:
            at = now - timedelta(seconds=rng.random())
            draw = rng.random()
            if draw < 0.80:
                events += self._visit(at, failing)
            elif draw < 0.88:
                events.append(self._job(at, failing))
            elif draw < 0.95:
                severity, title = rng.choice(_LOGS)
                events.append(self._event("log", at, "shop-web", severity=severity, title=title))
            else:
                events += self._measurements(at, len(events), failing)
        events.sort(key=lambda event: event["timestamp"])
        return events

    def _is_failing(self, now: datetime) -> bool:
        if self._burst_until is not None and now < self._burst_until:
            return True
        if self._rng.random() < 1 / _BURST_EVERY_SECONDS:
            self._burst_until = now + timedelta(seconds=self._rng.uniform(10, 40))
        return False

    def _event(self, kind: str, at: datetime, service: str, **fields: Any) -> dict[str, Any]:
        return {
            "type": kind,
            "id": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "timestamp": format_time(at),
            "service": service,
            **fields,
        }

    def _visit(self, at: datetime, failing: bool) -> list[dict[str, Any]]:
        """Return the events of one trace: a request, its queries, and sometimes the exception that ended it."""
        rng = self._rng
        page = rng.choices(_PAGES, [page.weight for page in _PAGES])[0]
        trace, span = f"{rng.getrandbits(128):032x}", f"{rng.getrandbits(64):016x}"
        fails = rng.random() < (0.25 if failing else 0.006)
        duration = page.typical_ms * rng.lognormvariate(0.0, 0.5) * (4.0 if failing else 1.0)
        status = 500 if fails else self._status(page)
        path = page.route.replace("{id}", str(rng.randint(1, 400)))
        request = self._event(
            "request",
            at,
            "shop-web",
            name=f"{page.method} {page.route}",
            severity="error" if fails else "info",
            trace_id=trace,
            span_id=span,
            route=page.route,
            url=f"https://shop.example{path}",
            status_code=status,
            duration_ms=round(duration, 2),
            attributes={"http.request.method": page.method, "region": rng.choice(("eu-north", "eu-west"))},
        )
        events = [request]
        share = duration * 0.7 / len(page.queries)
        for number, statement in enumerate(page.queries):
            events.append(
                self._event(
                    "query",
                    at + timedelta(milliseconds=number * share),
                    "shop-db",
                    name=statement.split(" ", 1)[0],
                    title=statement,
                    trace_id=trace,
                    span_id=f"{rng.getrandbits(64):016x}",
                    parent_span_id=span,
                    duration_ms=round(share * rng.uniform(0.5, 1.0), 2),
                    attributes={"db.system": "postgresql"},
                )
            )
        if fails:
            events.append(self._exception(at + timedelta(milliseconds=duration), trace, span, page.route))
        return events

    def _status(self, page: _Page) -> int:
        if page.method == "POST":
            return self._rng.choices((201, 422), (96, 4))[0]
        return self._rng.choices((200, 304, 404), (90, 7, 3))[0]

    def _exception(self, at: datetime, trace: str, span: str, route: str) -> dict[str, Any]:
        kind, message, file, line, function = self._rng.choice(_FAULTS)
        frame = f'File "{file}", line {line}, in {function}'
        return self._event(
            "exception",
            at,
            "shop-web",
            name=kind,
            title=message,
            severity=self._rng.choices(("error", "critical"), (9, 1))[0],
            trace_id=trace,
            parent_span_id=span,
            route=route,
            fingerprint=f"{kind}:{file}:{function}",
            affected_users=self._rng.randint(1, 5),
            details=f"Traceback (most recent call last):\n  {frame}\n{kind}: {message}",
            attributes={"file": file, "line": line},
        )

    def _job(self, at: datetime, failing: bool) -> dict[str, Any]:
        name, typical_ms = self._rng.choice(_JOBS)
        fails = self._rng.random() < (0.3 if failing else 0.02)
        return self._event(
            "job",
            at,
            "shop-worker",
            name=name,
            severity="error" if fails else "info",
            duration_ms=round(typical_ms * self._rng.lognormvariate(0.0, 0.4), 1),
            attributes={"queue": "default", "status": "failed" if fails else "done"},
        )

    def _measurements(self, at: datetime, busy: int, failing: bool) -> list[dict[str, Any]]:
        values = {
            "process.cpu.percent": round(min(99.0, 12 + busy + self._rng.gauss(0, 3) + 40 * failing), 1),
            "queue.pending": self._rng.randint(0, 12) + 150 * failing,
        }
        return [
            self._event("metric", at, "shop-worker", name=name, payload={"value": value})
            for name, value in values.items()
        ]


def expected_rate(now: datetime) -> float:
    """Return the events a second at `now` (UTC): a daily wave with its peak at 15:00, and a wave of ten minutes."""
    seconds = (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    day = math.sin(2 * math.pi * (seconds / _SECONDS_PER_DAY - 9 / 24))
    return (
        _MEAN_RATE
        + _DAILY_AMPLITUDE * day
        + _RIPPLE_AMPLITUDE * math.sin(2 * math.pi * seconds / _RIPPLE_SECONDS)
    )


async def send_demo_telemetry(base_url: str, ingest_key: str) -> None:
    """Post the shop's events to `base_url` (which ends in `/api`), a batch a second, until cancelled.

    Failed requests are followed by a pause of up to 30 s. Raises only `CancelledError`.
    """
    rng = random.Random()
    shop = DemoShop(rng)
    headers = {"Authorization": f"Bearer {ingest_key}"}
    run = uuid.uuid4().hex
    number = failures = 0
    async with aiohttp.ClientSession(
        headers=headers, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    ) as session:
        while True:
            number += 1
            batch = {"batch_id": f"demo-{run}-{number}", "events": shop.events_of_second(datetime.now(UTC))}
            fault = await _post(session, f"{base_url}/v1/ingest", batch)
            if fault is None:
                failures = 0
                await asyncio.sleep(1.0)
                continue
            failures += 1
            wait = min(_MAX_WAIT_SECONDS, 2.0 ** min(failures, 10)) * rng.uniform(0.5, 1.0)
            logger.warning("demo telemetry was not accepted (%s); continuing in %.0f s", fault, wait)
            await asyncio.sleep(wait)


async def _post(session: aiohttp.ClientSession, url: str, batch: dict[str, Any]) -> str | None:
    """Return why the batch failed; None if it was accepted."""
    try:
        async with session.post(url, json=batch) as response:
            await response.read()
            return None if response.status == 202 else f"status {response.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return type(error).__name__
