"""What the proxy answers by itself, each as an RFC 9457 document."""

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
    """It cannot be told where the request is meant to go or where it ends."""

    status = 400
    slug = "bad-request"
    title = "Bad request"


class ExpectationFailed(Problem):
    """`Expect` asks for something that HTTP does not define."""

    status = 417
    slug = "expectation-failed"
    title = "Expectation failed"


class HeadTooLarge(Problem):
    """Request line and headers are too long."""

    status = 431
    slug = "head-too-large"
    title = "Request headers too large"


class NotImplementedHere(Problem):
    """A method or a transfer coding that is not passed on."""

    status = 501
    slug = "not-implemented"
    title = "Not implemented"


class BadGateway(Problem):
    """The application did not answer as HTTP asks. It may have carried the request out."""

    status = 502
    slug = "bad-gateway"
    title = "The application gave no valid answer"


class GatewayTimeout(Problem):
    """The application has thought for too long. It may still carry the request out."""

    status = 504
    slug = "gateway-timeout"
    title = "The application did not answer in time"


def build_problem_response(problem: Problem) -> web.Response:
    """The answer; the connection is closed after it where the request may not have been read to its end."""
    return web.Response(
        status=problem.status,
        body=orjson.dumps(problem.to_document()),
        headers={**problem.headers, "Cache-Control": "no-store", "Server": "pharos"},
        content_type="application/problem+json",
    )
