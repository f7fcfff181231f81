"""The OpenAPI document lists exactly the routes that are served."""

from types import SimpleNamespace
from typing import Any, cast

from control_api.app import build_control_app
from control_api.reference.load_document import load_document
from ingest_edge.app import build_edge
from ingest_edge.health import Readiness
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from ingest_edge.otlp.accept import _SIGNALS
from pipeline_contracts.settings import Settings

_NOTHING = cast(Any, None)
# The browser's script, which is not an operation.
_SCRIPTS = {"/api/tracker/v1.js", "/api/tracker/vitals.js"}
# Below these addresses the edge's handlers parse the rest of the path themselves.
_BELOW = {
    "/api/v1/otlp/": {("POST", f"/api/v1/otlp/{signal}") for signal in _SIGNALS},
    "/api/v1/heartbeats/": {("POST", "/api/v1/heartbeats/{heartbeat}")},
    "/api/v1/queues/": {
        ("POST", "/api/v1/queues/{queue}/snapshots"),
        ("POST", "/api/v1/queues/{queue}/workers"),
    },
    "/ping/": {
        (method, path)
        for method in ("GET", "POST")
        for path in (
            "/ping/{ping_key}",
            "/ping/{ping_key}/{action}",
            "/ping/{ping_key}/{name}/{action}",
        )
    },
    "/api/v1/collect/": {
        ("POST", "/api/v1/collect/{publicId}"),
        ("OPTIONS", "/api/v1/collect/{publicId}"),
    },
}

# Sentry's protocol, whose clients are its SDKs: docs/guides/sentry.md.
_OF_SENTRY = {"/api/{project}/envelope", "/api/{project}/cron"}


def _operations(paths: dict[str, Any], prefix: str = "") -> set[tuple[str, str]]:
    methods = {"get", "put", "post", "patch", "delete", "options", "head", "trace"}
    return {(method.upper(), prefix + path) for path, item in paths.items() for method in methods & set(item)}


def _of_control() -> set[tuple[str, str]]:
    app = build_control_app(_NOTHING, _NOTHING, b"receipts", _NOTHING)
    return _operations(app.openapi()["paths"])


def _of_edge() -> set[tuple[str, str]]:
    intake = cast(Any, SimpleNamespace(limits=Limits.from_settings(Settings()), metrics=EdgeMetrics()))
    collect = cast(Any, SimpleNamespace(accept=None))
    edge = build_edge(intake, Readiness({}), receipt_key=b"receipts", collect=collect, sentry=collect)
    assert {prefix for prefix, _ in edge._prefixes} == set(_BELOW)
    assert {route.name for _, route in edge._patterns} == _OF_SENTRY
    whole = {(route.method, path) for path, route in edge._routes.items() if path.startswith("/api/")}
    return {found for found in whole if found[1] not in _SCRIPTS}.union(*_BELOW.values())


def test_document_lists_exactly_the_served_routes() -> None:
    control, edge = _of_control(), _of_edge()
    assert not control & edge
    paths = load_document()["paths"]
    at_the_root = {path: item for path, item in paths.items() if "servers" in item}
    below = {path: item for path, item in paths.items() if path not in at_the_root}
    assert _operations(below, "/api") | _operations(at_the_root) == control | edge
