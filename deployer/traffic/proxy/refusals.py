"""The proxy's own error responses, as RFC 9457 documents."""

import orjson
from aiohttp import web

from pipeline_contracts.errors import NotFound, Problem, RequestTimeout, Unavailable

__all__ = [
    "BadGateway",
    "BadRequest",
    "ExpectationFailed",
    "GatewayTimeout",
    "HeadTooLarge",
    "NotFound",
    "NotImplementedHere",
    "RequestTimeout",
    "Unavailable",
    "build_problem_response",
]


class BadRequest(Problem):
    """The target or the end of the request is not unambiguous."""

    status = 400
    slug = "bad-request"
    title = "Bad request"


class ExpectationFailed(Problem):
    """The request has an `Expect` header with a value that HTTP does not define."""

    status = 417
    slug = "expectation-failed"
    title = "Expectation failed"


class HeadTooLarge(Problem):
    """The request line and the headers together are too long."""

    status = 431
    slug = "head-too-large"
    title = "Request headers too large"


class NotImplementedHere(Problem):
    """The proxy does not forward this method or this transfer coding."""

    status = 501
    slug = "not-implemented"
    title = "Not implemented"


class BadGateway(Problem):
    """The application did not return a valid HTTP response. It may have executed the request."""

    status = 502
    slug = "bad-gateway"
    title = "The application gave no valid answer"


class GatewayTimeout(Problem):
    """The application did not respond in time. It may still execute the request."""

    status = 504
    slug = "gateway-timeout"
    title = "The application did not answer in time"


def build_problem_response(problem: Problem) -> web.Response:
    return web.Response(
        status=problem.status,
        body=orjson.dumps(problem.to_document()),
        headers={**problem.headers, "Cache-Control": "no-store", "Server": "pharos"},
        content_type="application/problem+json",
    )
