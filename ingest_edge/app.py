"""The edge's routes, on aiohttp's low-level server: a dictionary finds the handler, which costs a single-event
request a seventh less than an application with its router and middlewares."""

import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ingest_edge.accept import Accept
from ingest_edge.answers import REQUEST_ID, problem_answer, request_id
from ingest_edge.health import Readiness
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.errors import MethodNotAllowed, NotFound, Problem

logger = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_SHUTDOWN_SECONDS = 10.0


class Edge:
    """The handler of every request: finds the route, gives the request its ID, answers problems, counts."""

    def __init__(self, metrics: EdgeMetrics, otherwise: Handler | None) -> None:
        self._metrics = metrics
        self._otherwise = otherwise or _nothing_here
        self._routes: dict[str, tuple[str, Handler]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        """One method at this path; any other is 405, whatever else answers paths that nothing matched."""
        self._routes[path] = (method, handler)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        begun = time.perf_counter()
        headers = request.headers
        identity = request[REQUEST_ID] = request_id(headers.get("X-Request-Id"))
        path = request.path
        method, handler = self._routes.get(path, (request.method, self._otherwise))
        try:
            if method != request.method:
                raise MethodNotAllowed(f"{path} takes {method} only.", headers={hdrs.ALLOW: method})
            response = await handler(request)
        except Problem as problem:
            response = problem_answer(problem)
            if problem.status >= 500:
                logger.warning("refused: %s", problem.detail, extra={"request_id": identity})
        except ConnectionError:
            # The caller went away in mid-body; there is nobody to answer.
            raise
        except Exception:
            logger.exception("request failed", extra={"request_id": identity})
            response = problem_answer(Problem("The request failed here. It is safe to send it again."))
        if not response.prepared:
            response.headers["X-Request-Id"] = identity
        route = path if path in self._routes else "other"
        self._metrics.observe(route, response.status, time.perf_counter() - begun)
        return response


async def _nothing_here(request: web.BaseRequest) -> web.StreamResponse:
    raise NotFound("There is nothing at this address.")


def build_edge(
    accept: Accept,
    readiness: Readiness,
    registry: CollectorRegistry,
    *,
    otherwise: Handler | None = None,
) -> Edge:
    """One edge. `otherwise` answers all paths that are not the edge's."""

    async def show_metrics(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=generate_latest(registry), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    edge = Edge(accept.metrics, otherwise)
    edge.add("POST", "/api/v1/ingest", accept.ingest)
    edge.add("GET", "/health/live", readiness.live)
    edge.add("GET", "/health/ready", readiness.ready)
    edge.add("GET", "/metrics", show_metrics)
    return edge


def edge_runner(edge: Edge) -> web.ServerRunner:
    """Serves the edge. Content encodings are undone by the handlers, with their own limits."""
    server = web.Server(
        edge,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=75.0,
        # A caller that is refused in mid-body gets this long to read the answer.
        lingering_time=2.0,
    )
    return web.ServerRunner(server, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
