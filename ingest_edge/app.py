"""The edge's routes, on aiohttp's low-level server.

A request with one event takes a seventh less time with handlers in a dictionary than with aiohttp's application, router
and middlewares.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import hdrs, web

from ingest_edge.accelerator import Accelerator
from ingest_edge.accept import Accept
from ingest_edge.accept_monitors import HEARTBEATS, QUEUES, AcceptMonitors
from ingest_edge.accept_pings import PINGS, AcceptPings
from ingest_edge.anonymous_log import anonymous_logger
from ingest_edge.collect.accept import COLLECT, AcceptCollect
from ingest_edge.fast_path import Begin, FastPath
from ingest_edge.health import Readiness
from ingest_edge.http_server import BoundedServer, ServerLimits
from ingest_edge.intake import Intake
from ingest_edge.metrics import EdgeMetrics
from ingest_edge.otlp.accept import OTLP, AcceptOtlp
from ingest_edge.otlp.status import status_response
from ingest_edge.responses import REQUEST_ID, SERVER, problem_response
from ingest_edge.run_script import RUN_SCRIPT, serve_run_script
from ingest_edge.sentry.accept import ALLOW, PATHS, SENTRY, AcceptSentry
from ingest_edge.sentry.accept_cron import CRON, CRON_ALLOW, CRON_PATHS, AcceptCron
from ingest_edge.sentry.answers import problem_response as sentry_problem_response
from ingest_edge.tracker_files import TRACKER_FILES, serve_tracker
from pipeline_contracts.errors import MethodNotAllowed, MethodNotImplemented, NotFound, Problem
from pipeline_contracts.identifiers import choose_request_id
from pipeline_contracts.settings import Settings

logger = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Refuse = Callable[[web.BaseRequest, Problem], web.StreamResponse]

_SHUTDOWN_SECONDS = 10.0
# Time in which a caller that is refused in mid-body can read the response.
_LINGERING_SECONDS = 2.0
# Bytes to read ahead of the handler. aiohttp pauses after twice as many bytes, or a sixteenth as many chunks. With its
# default of 256 KiB, a body of one-byte chunks blocks all other requests for four times as long.
_BODY_BYTES = 64 * 1024
# The status with which nginx counts a request whose caller closed the connection.
_HUNG_UP = 499
_INTERNAL_ERROR = "The request failed here. It is safe to send it again."


class _Route(NamedTuple):
    name: str
    method: str
    """The allowed method; `GET` also allows `HEAD`. Empty: the handler checks the method."""
    handler: Handler
    refuse: Refuse
    allow: str
    """All allowed methods as in the header `Allow`; empty if only the handler knows them."""


class Edge:
    """The handler of every request: sets the request ID, calls the route, responds to problems, counts."""

    def __init__(self, metrics: EdgeMetrics, otherwise: Handler | None) -> None:
        self._metrics = metrics
        self._otherwise = _Route("other", "", otherwise or _nothing_here, _refuse, "")
        self._routes: dict[str, _Route] = {}
        self.begins: dict[str, tuple[str, Begin]] = {}
        """The fast paths, with the names of their routes."""
        self._prefixes: list[tuple[str, _Route]] = []
        self._patterns: list[tuple[re.Pattern[str], _Route]] = []

    @property
    def metrics(self) -> EdgeMetrics:
        """The counters of all responses."""
        return self._metrics

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Route one method at this path; other methods are 405."""
        allow = "GET, HEAD" if method == "GET" else method
        self._routes[path] = _Route(path, method, handler, _refuse, allow)

    def add_prefix(
        self, prefix: str, method: str, handler: Handler, refuse: Refuse | None = None, *, allow: str = ""
    ) -> None:
        """Route all paths with this prefix. If `method` is empty, the handler allows only the methods in `allow`.

        `refuse` builds the responses to problems.
        """
        self._prefixes.append((prefix, _Route(prefix, method, handler, refuse or _refuse, allow or method)))

    def add_pattern(
        self, name: str, pattern: re.Pattern[str], handler: Handler, refuse: Refuse, *, allow: str
    ) -> None:
        """Route all paths that match as a whole. The handler allows only the methods in `allow`; `refuse` builds the
        responses to problems."""
        self._patterns.append((pattern, _Route(name, "", handler, refuse, allow)))

    def _find(self, path: str) -> _Route:
        route = self._routes.get(path)
        if route is not None:
            return route
        for prefix, route in self._prefixes:
            if path.startswith(prefix):
                return route
        for pattern, route in self._patterns:
            if pattern.fullmatch(path):
                return route
        return self._otherwise

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        headers = request.headers
        request_id = request[REQUEST_ID] = choose_request_id(headers.get("X-Request-Id"))
        path = request.path
        route = self._find(path)
        try:
            if route.method and route.method != request.method:
                _check_method(route, request)
            response = await route.handler(request)
        except Problem as problem:
            response = route.refuse(request, problem)
            if problem.status >= 500:
                logger.warning("refused: %s", problem.detail, extra={"request_id": request_id})
        except Exception as error:
            if isinstance(error, ConnectionError) and request.transport is None:
                # The caller closed the connection in mid-body: only the metrics use this response.
                logger.debug("the caller hung up", extra={"request_id": request_id})
                response = web.Response(status=_HUNG_UP)
            else:
                logger.exception("request failed", extra={"request_id": request_id})
                response = route.refuse(request, Problem(_INTERNAL_ERROR))
        if not response.prepared:
            response_headers = response.headers
            response_headers["X-Request-Id"] = request_id
            response_headers["Server"] = SERVER
        self._metrics.observe(route.name, response.status, time.perf_counter() - started)
        return response

    def refuse_unreadable(self, request: web.BaseRequest, path: str, problem: Problem) -> web.StreamResponse:
        """Return the response to bytes that are no HTTP request. `path` is the part of the path that could be read."""
        route = self._find(path)
        if isinstance(problem, MethodNotImplemented) and route.allow:
            problem.headers[hdrs.ALLOW] = route.allow
        response = route.refuse(request, problem)
        response.headers["X-Request-Id"] = choose_request_id(None)
        response.headers["Server"] = SERVER
        self._metrics.observe("unreadable", response.status, 0.0)
        return response


def _check_method(route: _Route, request: web.BaseRequest) -> None:
    """Raise `MethodNotAllowed` unless the method is HEAD and the route's GET: the server then omits the body."""
    if not (route.method == "GET" and request.method == "HEAD"):
        raise MethodNotAllowed(f"{request.path} takes {route.allow} only.", headers={hdrs.ALLOW: route.allow})


def _refuse(_request: web.BaseRequest, problem: Problem) -> web.Response:
    return problem_response(problem)


async def _nothing_here(request: web.BaseRequest) -> web.StreamResponse:
    raise NotFound("There is nothing at this address.")


def build_edge(
    intake: Intake,
    readiness: Readiness,
    *,
    receipt_key: bytes,
    collect: AcceptCollect | None = None,
    sentry: AcceptSentry | None = None,
    protobuf: bool = False,
    accelerator: Accelerator | None = None,
    otherwise: Handler | None = None,
) -> Edge:
    """Build an edge. `collect` handles page views; `sentry` envelopes; `protobuf` enables OTLP in protobuf; `otherwise`
    handles all other paths."""
    monitors = AcceptMonitors(intake)
    edge = Edge(intake.metrics, otherwise)
    accept = Accept(intake, receipt_key, accelerator)
    accept_otlp = AcceptOtlp(intake, protobuf=protobuf, accelerator=accelerator)
    edge.add("POST", "/api/v1/ingest", accept.ingest)
    edge.begins["/api/v1/ingest"] = ("/api/v1/ingest", accept.begin)
    edge.begins.update({OTLP + path: (OTLP, begin) for path, begin in accept_otlp.begins().items()})
    edge.add_prefix(OTLP, "", accept_otlp.accept, status_response, allow="POST")
    edge.add_prefix(HEARTBEATS, "POST", monitors.heartbeat)
    edge.add_prefix(QUEUES, "POST", monitors.queue)
    if collect is not None:
        edge.add_prefix(COLLECT, "", collect.accept, allow="POST, OPTIONS")
    if sentry is not None:
        edge.add_pattern(SENTRY, PATHS, sentry.accept, sentry_problem_response, allow=ALLOW)
        cron = AcceptCron(intake)
        edge.add_pattern(CRON, CRON_PATHS, cron.accept, sentry_problem_response, allow=CRON_ALLOW)
    edge.add_prefix(PINGS, "", AcceptPings(intake).accept, allow="GET, HEAD, POST")
    for name in TRACKER_FILES:
        for root in ("/tracker/", "/api/tracker/"):
            edge.add("GET", root + name, serve_tracker)
    edge.add("GET", RUN_SCRIPT, serve_run_script)
    edge.add("GET", "/health/live", readiness.live)
    edge.add("GET", "/health/ready", readiness.ready)
    return edge


def edge_runner(edge: Edge, limits: ServerLimits | None = None) -> web.ServerRunner:
    """Return a runner that serves the edge. The handlers decompress bodies, with their own limits."""
    server = BoundedServer(
        edge,
        edge.refuse_unreadable,
        limits or ServerLimits.from_settings(Settings()),
        FastPath(edge.metrics, edge.begins),
        access_log=None,
        logger=anonymous_logger(),
        auto_decompress=False,
        keepalive_timeout=75.0,
        # A report's filters have up to 2,558 characters of four bytes, each written as %XX.
        max_line_size=32 * 1024,
        lingering_time=_LINGERING_SECONDS,
        read_bufsize=_BODY_BYTES,
    )
    return web.ServerRunner(server, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
