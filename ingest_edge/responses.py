"""Build responses: JSON, and problems as RFC 9457 documents."""

from collections.abc import Mapping

import orjson
from aiohttp import web

from pipeline_contracts.errors import Problem, Unavailable
from pipeline_contracts.identifiers import choose_request_id

SERVER = "pharos"
"""The `Server` header of every response. It has no version."""

REQUEST_ID = web.RequestKey("request_id", str)


def json_response(status: int, body: bytes, headers: Mapping[str, str]) -> web.Response:
    """Return a response whose body is encoded JSON."""
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")


def problem_response(problem: Problem) -> web.Response:
    """Return the RFC 9457 response for a problem."""
    return web.Response(
        status=problem.status,
        body=orjson.dumps(problem.to_document()),
        headers=problem.headers,
        content_type="application/problem+json",
    )


def raw_response(problem: Unavailable) -> bytes:
    """Return the bytes of a whole HTTP response, for a refused connection from which nothing is read."""
    body = orjson.dumps(problem.to_document())
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\nServer: pharos\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
        f"Retry-After: {problem.headers['Retry-After']}\r\nX-Request-Id: {choose_request_id(None)}\r\n\r\n"
    )
    return head.encode("ascii") + body
