"""Builds answers: JSON bodies with the request ID, problems as RFC 9457 documents."""

from collections.abc import Mapping

import orjson
from aiohttp import web

from pipeline_contracts.errors import Problem

SERVER = "pharos"
"""The `Server` header of every response. It has no version."""

REQUEST_ID = web.RequestKey("request_id", str)


def json_answer(status: int, body: bytes, headers: Mapping[str, str]) -> web.Response:
    """An answer whose body is JSON already."""
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")


def problem_answer(problem: Problem) -> web.Response:
    """The RFC 9457 answer of a refusal."""
    return web.Response(
        status=problem.status,
        body=orjson.dumps(problem.to_document()),
        headers=problem.headers,
        content_type="application/problem+json",
    )
