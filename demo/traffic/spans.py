"""Generates the requests of the demo shop as OTLP spans with their log records."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from demo.traffic.catalogue import (
    CLIENT,
    CUSTOMERS,
    REGIONS,
    ROUTES,
    SERVER,
    SKUS,
    STOREFRONT,
    Call,
    Route,
)
from demo.traffic.faults import STATEMENT_TIMEOUT, Fault, ReleaseTimes, pick_fault
from demo.traffic.otlp import attribute, texts
from demo.traffic.rhythm import SLICE_SECONDS, Troubles, expected_rate

_WEIGHTS = [route.weight for route in ROUTES]
_ERROR, _WARNING, _INFO, _DEBUG = (17, "ERROR"), (13, "WARN"), (9, "INFO"), (5, "DEBUG")
_SLOW_FACTOR = 9.0
_RELOADS = 2.0
_LANGUAGES = ("nb", "sv", "de", "en")
_SEARCHES = ("lantern", "desk lamp", "brass", "storm", "candle", "linen shade", "gift")


@dataclass(slots=True)
class Records:
    """Spans and log records by service."""

    spans: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    logs: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class Traffic:
    """The parameters of the traffic; the same parameters give the same traffic at the same time."""

    seed: int
    troubles: Troubles
    releases: ReleaseTimes

    def add_slice(self, records: Records, begin_s: int) -> None:
        """Add the requests that begin in the slice from `begin_s` on, a multiple of `SLICE_SECONDS`."""
        rng = random.Random(f"{self.seed} requests {begin_s}")
        # Customers reload pages that fail.
        reloads = _RELOADS if self.troubles.is_database_slow(begin_s) else 1.0
        for _ in range(_poisson(rng, expected_rate(begin_s) * reloads * SLICE_SECONDS)):
            at_s = begin_s + rng.random() * SLICE_SECONDS
            (route,) = rng.choices(ROUTES, _WEIGHTS)
            fault = pick_fault(rng, route.path, at_s, self.troubles, self.releases)
            is_slow = fault is STATEMENT_TIMEOUT or (
                "inventory" in str(route.calls) and self.troubles.is_database_slow(at_s)
            )
            _Request(records, rng, route, fault, is_slow).add(at_s)


class _Request:
    """One request: its trace, with the fault in the first span of the fault's service."""

    def __init__(
        self, records: Records, rng: random.Random, route: Route, fault: Fault | None, is_slow: bool
    ) -> None:
        self._records, self._rng, self._route, self._fault = records, rng, route, fault
        self._slow = _SLOW_FACTOR if is_slow else 1.0
        self._trace = f"{rng.getrandbits(128) or 1:032x}"
        self._failed = False
        self._customer = rng.choice(CUSTOMERS)

    def add(self, at_s: float) -> None:
        rng, route = self._rng, self._route
        duration_ms = route.typical_ms * rng.lognormvariate(0.0, 0.42) * self._slow
        root = Call(
            STOREFRONT,
            f"{route.method} {route.path}",
            SERVER,
            1.0,
            (("http.request.method", route.method), ("http.route", route.path)),
            route.calls,
        )
        begin_ns = round(at_s * 1e9)
        self._add_call(root, "", begin_ns, round(duration_ms * 1e6))

    def _add_call(self, call: Call, parent: str, begin_ns: int, length_ns: int) -> bool:
        """Add the span of a call and the spans within it; return True if it failed."""
        rng = self._rng
        span_id = f"{rng.getrandbits(64) or 1:016x}"
        failed, at_ns = False, begin_ns + round(length_ns * rng.uniform(0.01, 0.05))
        for inner in call.calls:
            inner_ns = max(1000, round(length_ns * inner.share * rng.uniform(0.75, 1.0)))
            failed |= self._add_call(inner, span_id, at_ns, inner_ns)
            at_ns += inner_ns + round(length_ns * 0.01)
        end_ns = max(begin_ns + length_ns, at_ns)
        raises = self._raises(call)
        failed |= raises
        span: dict[str, Any] = {
            "traceId": self._trace,
            "spanId": span_id,
            "name": call.name,
            "kind": call.kind,
            "startTimeUnixNano": str(begin_ns),
            "endTimeUnixNano": str(end_ns),
            "attributes": self._attributes(call, parent, failed),
        }
        if parent:
            span["parentSpanId"] = parent
        if raises and self._fault is not None:
            span["events"] = [self._exception(self._fault, end_ns)]
            if parent:
                span["attributes"] += texts((("user.id", self._customer),))
        if failed and call.kind in (SERVER, CLIENT):
            span["status"] = {"code": 2}
        self._records.spans[call.service].append(span)
        if call.kind == SERVER:
            self._log(call, span_id, end_ns, (end_ns - begin_ns) / 1e6, failed, raises)
        return failed

    def _raises(self, call: Call) -> bool:
        fault = self._fault
        if self._failed or fault is None:
            return False
        self._failed = call.kind == SERVER and call.service == fault.service
        return self._failed

    def _attributes(self, call: Call, parent: str, failed: bool) -> list[dict[str, Any]]:
        attributes = texts(call.attributes)
        if call.kind == SERVER:
            status = 500 if failed else 201 if call.name.startswith("POST") else 200
            attributes.append(attribute("http.response.status_code", status))
        if not parent:
            path = self._route.path.replace("{slug}", self._rng.choice(SKUS).lower())
            attributes += texts(
                (("url.path", path), ("cloud.region", self._rng.choice(REGIONS)), ("user.id", self._customer))
            )
        return attributes

    def _message(self, fault: Fault) -> str:
        number, language = self._rng.randint(20_000, 60_000), self._rng.choice(_LANGUAGES)
        return fault.message.replace("{number}", str(number)).replace("{language}", language)

    def _exception(self, fault: Fault, at_ns: int) -> dict[str, Any]:
        message = self._message(fault)
        details = f"{fault.stack}\n{fault.kind}: {message}" if "Traceback" in fault.stack else fault.stack
        return {
            "timeUnixNano": str(at_ns),
            "name": "exception",
            "attributes": texts(
                (
                    ("exception.type", fault.kind),
                    ("exception.message", message),
                    ("exception.stacktrace", details),
                )
            ),
        }

    def _log(self, call: Call, span_id: str, at_ns: int, took_ms: float, failed: bool, raises: bool) -> None:
        text, severity = self._write_line(call, took_ms, failed, raises)
        record = {
            "timeUnixNano": str(at_ns),
            "severityNumber": severity[0],
            "severityText": severity[1],
            "body": {"stringValue": text},
            "traceId": self._trace,
            "spanId": span_id,
            "attributes": texts((("logger", call.service),)),
        }
        self._records.logs[call.service].append(record)

    def _write_line(
        self, call: Call, took_ms: float, failed: bool, raises: bool
    ) -> tuple[str, tuple[int, str]]:
        if raises and self._fault is not None:
            return f"{call.name} failed: {self._fault.kind}", _ERROR
        if failed:
            return f"{call.name} answered 500 in {took_ms:.0f} ms: an upstream request failed", _ERROR
        if self._slow > 1 and took_ms > 300:
            return f"{call.name} took {took_ms:.0f} ms, over the budget of 300 ms", _WARNING
        return _DETAILS.get(call.name, _plain)(self._rng, call.name, took_ms)


_Line = tuple[str, tuple[int, str]]


def _plain(rng: random.Random, name: str, took_ms: float) -> _Line:
    return f"{name} 200 in {took_ms:.0f} ms", _INFO


def _order(rng: random.Random, name: str, took_ms: float) -> _Line:
    return f"Order {rng.randint(20_000, 60_000)} placed: {rng.randint(1, 4)} items, {took_ms:.0f} ms", _INFO


def _query(rng: random.Random, name: str, took_ms: float) -> _Line:
    return f'Search "{rng.choice(_SEARCHES)}": {rng.randint(0, 24)} results in {took_ms:.0f} ms', _INFO


def _stock(rng: random.Random, name: str, took_ms: float) -> _Line:
    sku, left = rng.choice(SKUS), rng.randint(0, 90)
    if left < 4:
        return f"Stock of {sku} is low: {left} left", _WARNING
    return f"Stock of {sku}: {left} on hand", _DEBUG


_DETAILS: dict[str, Callable[[random.Random, str, float], _Line]] = {
    "POST /orders": _order,
    "GET /query": _query,
    "GET /stock/{sku}": _stock,
}


def _poisson(rng: random.Random, mean: float) -> int:
    """Return a Poisson-distributed number, for small means: the number of exponential waits that fit into 1."""
    count, total = 0, rng.expovariate(mean)
    while total < 1:
        count += 1
        total += rng.expovariate(mean)
    return count
