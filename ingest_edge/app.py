"""The edge's routes."""

import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ingest_edge.accept import Accept
from ingest_edge.answers import REQUEST_ID, problem_answer, request_id
from ingest_edge.health import Readiness
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.errors import MethodNotAllowed, NotFound, Problem

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _answer_problems(metrics: EdgeMetrics) -> Middleware:
    """Around every request: its ID, its problem as a document, its count."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        begun = time.perf_counter()
        identity = request[REQUEST_ID] = request_id(request.headers.get("X-Request-Id"))
        try:
            response = await handler(request)
        except Problem as problem:
            response = problem_answer(problem)
            if problem.status >= 500:
                logger.warning("refused: %s", problem.detail, extra={"request_id": identity})
        except web.HTTPNotFound:
            response = problem_answer(NotFound("There is nothing at this address."))
        except web.HTTPException:
            raise
        except ConnectionError:
            # The caller went away in mid-body; there is nobody to answer.
            raise
        except Exception:
            logger.exception("request failed", extra={"request_id": identity})
            response = problem_answer(Problem("The request failed here. It is safe to send it again."))
        if not response.prepared:
            response.headers["X-Request-Id"] = identity
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "none"
        metrics.observe(route, response.status, time.perf_counter() - begun)
        return response

    return middleware


def _only(method: str, router: web.UrlDispatcher, path: str, handler: Handler) -> None:
    """One method at this path; any other is 405, whatever else answers paths that nothing matched."""

    async def refuse(request: web.Request) -> web.StreamResponse:
        raise MethodNotAllowed(f"{path} takes {method} only.", headers={hdrs.ALLOW: method})

    resource = router.add_resource(path)
    resource.add_route(method, handler)
    resource.add_route(hdrs.METH_ANY, refuse)


def build_edge(
    accept: Accept,
    readiness: Readiness,
    registry: CollectorRegistry,
    *,
    otherwise: Handler | None = None,
) -> web.Application:
    """The application of one edge. `otherwise` answers all paths that are not the edge's."""
    app = web.Application(middlewares=[_answer_problems(accept.metrics)])

    async def show_metrics(request: web.Request) -> web.StreamResponse:
        return web.Response(body=generate_latest(registry), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    _only("POST", app.router, "/api/v1/ingest", accept.ingest)
    _only("GET", app.router, "/health/live", readiness.live)
    _only("GET", app.router, "/health/ready", readiness.ready)
    _only("GET", app.router, "/metrics", show_metrics)
    if otherwise is not None:
        app.router.add_route(hdrs.METH_ANY, "/{path:.*}", otherwise)
    return app


def edge_runner(app: web.Application) -> web.AppRunner:
    """Serves the application. Content encodings are undone by the handlers, with their own limits."""
    return web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        handle_signals=False,
        keepalive_timeout=75.0,
        # A caller that is refused in mid-body gets this long to read the answer.
        lingering_time=2.0,
    )
