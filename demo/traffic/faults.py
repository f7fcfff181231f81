"""The exceptions of the demo shop, and the requests that raise them."""

import random
from typing import NamedTuple

from demo.traffic.catalogue import CHECKOUT, INVENTORY, SEARCH, STOREFRONT
from demo.traffic.rhythm import Troubles


class Fault(NamedTuple):
    """An exception, raised in the server span of `service`."""

    service: str
    kind: str
    message: str
    stack: str


def _python_stack(*frames: tuple[str, int, str, str]) -> str:
    lines = ["Traceback (most recent call last):"]
    for file, line, function, source in frames:
        lines += [f'  File "/app/{file}", line {line}, in {function}', f"    {source}"]
    return "\n".join(lines)


PAYMENT_DECLINED = Fault(
    CHECKOUT,
    "PaymentDeclined",
    "the payment provider answered 502 for order {number}",
    _python_stack(
        ("checkout/api.py", 61, "place_order", "charge = await payments.charge(order)"),
        ("checkout/payments.py", 88, "charge", "raise PaymentDeclined(order.number, response.status)"),
    ),
)
MISSING_COUNTRY = Fault(
    CHECKOUT,
    "KeyError",
    "'shipping_country'",
    _python_stack(
        ("checkout/api.py", 58, "place_order", "options = delivery_options(cart)"),
        ("checkout/delivery.py", 132, "delivery_options", 'zone = ZONES[cart["shipping_country"]]'),
    ),
)
STATEMENT_TIMEOUT = Fault(
    INVENTORY,
    "OperationalError",
    "canceling statement due to statement timeout",
    _python_stack(
        ("inventory/api.py", 27, "read_stock", "return await stock.load(sku)"),
        ("inventory/stock.py", 41, "load", "row = await connection.fetchrow(SELECT_STOCK, sku)"),
    ),
)
CLIENT_LEFT = Fault(
    STOREFRONT,
    "ConnectionResetError",
    "Cannot write to closing transport",
    _python_stack(
        ("storefront/middleware.py", 19, "respond", "await response.write(chunk)"),
        ("storefront/middleware.py", 34, "write", "transport.write(chunk)"),
    ),
)
INDEX_MISSING = Fault(
    SEARCH,
    "IndexNotReady",
    "index products has no segment for language '{language}'",
    "Error: index products has no segment\n"
    "    at openSegment (/app/src/segments.js:44:11)\n"
    "    at query (/app/src/query.js:112:23)\n"
    "    at handle (/app/src/server.js:38:9)",
)


class ReleaseTimes(NamedTuple):
    """The times at which the release with the fault in the check-out went live, and at which the fixed release did:
    seconds since 1970."""

    faulty_s: float
    fixed_s: float


def pick_fault(
    rng: random.Random, route: str, at_s: float, troubles: Troubles, releases: ReleaseTimes
) -> Fault | None:
    """Return the exception that a request of this route raises; None for most."""
    draw = rng.random()
    match route:
        case "/checkout":
            if releases.faulty_s <= at_s < releases.fixed_s and draw < 0.55:
                return MISSING_COUNTRY
            return PAYMENT_DECLINED if draw > 0.975 else None
        case "/products/{slug}" | "/cart/items" if troubles.is_database_slow(at_s):
            return STATEMENT_TIMEOUT if draw < 0.9 else None
        case "/products/{slug}":
            return STATEMENT_TIMEOUT if draw < 0.0015 else None
        case "/products":
            return CLIENT_LEFT if draw < 0.012 else None
        case "/search":
            return INDEX_MISSING if draw < 0.008 else None
    return None
