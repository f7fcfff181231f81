"""`/health/live`, `/health/ready` and request metrics of a control plane that runs as its own process."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_domain.database.engine import Sessions
from pipeline_contracts.metric_names import MetricName

AsyncCheck = Callable[[], Awaitable[str | None]]
"""Returns why a component is not ready, or None if it is ready."""

_CHECK_TIMEOUT_SECONDS = 3.0


class _RequestCounter(Collector):
    """Counts responses by method and status."""

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[str, int], int] = defaultdict(int)

    def collect(self) -> Iterable[Metric]:
        name: MetricName = "pharos_control_requests"
        family = CounterMetricFamily(name, "Requests answered", labels=["method", "status"])
        for (method, status), count in sorted(self.counts.items()):
            family.add_metric([method, str(status)], count)
        yield family


class _CountingMiddleware:
    def __init__(self, app: ASGIApp, counter: _RequestCounter) -> None:
        self._app = app
        self._counter = counter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def count_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counter.counts[scope["method"], message["status"]] += 1
            await send(message)

        await self._app(scope, receive, count_and_send if scope["type"] == "http" else send)


def make_database_check(sessions: Sessions) -> AsyncCheck:
    """Return a check that the database responds to a query."""

    async def check() -> str | None:
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS), sessions() as session:
                await session.execute(text("SELECT 1"))
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            return f"does not answer ({type(error).__name__})"
        return None

    return check


def add_health(app: FastAPI, checks: Mapping[str, AsyncCheck]) -> CollectorRegistry:
    """Add the two routes and count all requests; return the registry with the counts."""
    counter = _RequestCounter()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(counter)

    async def live() -> dict[str, str]:
        return {"status": "live"}

    async def ready() -> JSONResponse:
        results = dict(
            zip(checks, await asyncio.gather(*(check() for check in checks.values())), strict=True)
        )
        reasons = {name: reason for name, reason in results.items() if reason is not None}
        if reasons:
            return JSONResponse({"status": "not ready", "reasons": reasons}, 503)
        return JSONResponse({"status": "ready"})

    app.add_middleware(_CountingMiddleware, counter=counter)
    app.add_api_route("/health/live", live, include_in_schema=False)
    app.add_api_route("/health/ready", ready, include_in_schema=False)
    return registry
