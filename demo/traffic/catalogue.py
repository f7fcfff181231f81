"""The services of the demo shop: their routes, the calls behind each route, and the texts of their logs."""

from typing import NamedTuple

STOREFRONT, CHECKOUT, INVENTORY, SEARCH, WORKER = "storefront", "checkout", "inventory", "search", "worker"
SERVICES = (STOREFRONT, CHECKOUT, INVENTORY, SEARCH)
"""The services that send OpenTelemetry; the worker sends events of the ingest API."""


class Call(NamedTuple):
    """A part of a request: a span in `service`, and the calls within it."""

    service: str
    name: str
    kind: int
    """A span kind of OTLP: 1 internal, 2 server, 3 client."""
    share: float
    """Share of the duration of the span around it."""
    attributes: tuple[tuple[str, str], ...] = ()
    calls: tuple["Call", ...] = ()


class Route(NamedTuple):
    """A route of the storefront."""

    method: str
    path: str
    weight: float
    typical_ms: float
    calls: tuple[Call, ...]


INTERNAL, SERVER, CLIENT = 1, 2, 3


def _sql(service: str, statement: str, share: float) -> Call:
    verb, table = statement.split(" ", 1)[0], _table_of(statement)
    attributes = (
        ("db.system.name", "postgresql"),
        ("db.namespace", "shop"),
        ("db.query.text", statement),
    )
    return Call(service, f"{verb} {table}", CLIENT, share, attributes)


def _table_of(statement: str) -> str:
    words = statement.replace("(", " ").split()
    for word in ("FROM", "INTO", "UPDATE"):
        if word in words:
            return words[words.index(word) + 1]
    return "shop"


def _cache(key: str) -> Call:
    attributes = (("db.system.name", "redis"), ("db.query.text", f"GET {key}"))
    return Call(STOREFRONT, "GET", CLIENT, 0.04, attributes)


def _remote(service: str, method: str, path: str, share: float, *calls: Call) -> Call:
    """Return a call over HTTP: a client span in the storefront with a server span in the other service."""
    attributes = (("http.request.method", method), ("server.address", f"{service}.lanterns.example"))
    served = Call(
        service,
        f"{method} {path}",
        SERVER,
        0.9,
        (("http.request.method", method), ("http.route", path)),
        calls,
    )
    return Call(STOREFRONT, f"{method} {service}", CLIENT, share, attributes, (served,))


def _render(template: str) -> Call:
    return Call(STOREFRONT, f"render {template}", INTERNAL, 0.18, (("template", template),))


ROUTES = (
    Route(
        "GET",
        "/",
        24,
        38.0,
        (
            _cache("featured"),
            _sql(STOREFRONT, "SELECT * FROM products WHERE featured ORDER BY rank LIMIT 12", 0.35),
            _render("home.html"),
        ),
    ),
    Route(
        "GET",
        "/products",
        22,
        64.0,
        (
            _sql(STOREFRONT, "SELECT * FROM products ORDER BY rank LIMIT 48 OFFSET $1", 0.45),
            _render("products.html"),
        ),
    ),
    Route(
        "GET",
        "/products/{slug}",
        32,
        72.0,
        (
            _sql(STOREFRONT, "SELECT * FROM products WHERE slug = $1", 0.12),
            _remote(
                INVENTORY,
                "GET",
                "/stock/{sku}",
                0.45,
                _sql(INVENTORY, "SELECT sku, on_hand, reserved FROM stock WHERE sku = $1", 0.7),
            ),
            _render("product.html"),
        ),
    ),
    Route(
        "GET",
        "/search",
        9,
        130.0,
        (
            _remote(
                SEARCH,
                "GET",
                "/query",
                0.7,
                Call(SEARCH, "rank results", INTERNAL, 0.35, (("search.index", "products"),)),
            ),
            _render("search.html"),
        ),
    ),
    Route(
        "POST",
        "/cart/items",
        7,
        58.0,
        (
            _remote(
                INVENTORY,
                "POST",
                "/reservations",
                0.5,
                _sql(INVENTORY, "UPDATE stock SET reserved = reserved + $2 WHERE sku = $1", 0.8),
            ),
            _sql(STOREFRONT, "INSERT INTO cart_items (cart_id, sku, quantity) VALUES ($1, $2, $3)", 0.2),
        ),
    ),
    Route(
        "POST",
        "/checkout",
        4,
        420.0,
        (
            _remote(
                CHECKOUT,
                "POST",
                "/orders",
                0.85,
                _sql(CHECKOUT, "SELECT * FROM carts WHERE id = $1 FOR UPDATE", 0.06),
                Call(
                    CHECKOUT,
                    "POST payments",
                    CLIENT,
                    0.68,
                    (("http.request.method", "POST"), ("server.address", "payments.example")),
                ),
                _sql(CHECKOUT, "INSERT INTO orders (cart_id, total, currency) VALUES ($1, $2, $3)", 0.1),
            ),
        ),
    ),
    Route(
        "GET",
        "/account/orders",
        3,
        85.0,
        (
            _sql(
                STOREFRONT,
                "SELECT * FROM orders WHERE customer_id = $1 ORDER BY placed_at DESC LIMIT 20",
                0.6,
            ),
            _render("orders.html"),
        ),
    ),
)

SKUS = ("BCN-01", "HRB-02", "KPR-01", "TDP-04", "GLL-01", "SKR-02", "FRS-01", "PIR-03", "STM-01", "DRF-02")
REGIONS = ("eu-north-1", "eu-west-1")
CUSTOMERS = tuple(f"customer-{number}" for number in range(101, 261))
