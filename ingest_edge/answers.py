"""Builds answers: JSON bodies with the request ID, problems as RFC 9457 documents."""

import itertools
import re
import secrets
from collections.abc import Mapping

import orjson
from aiohttp import web

from pipeline_contracts.errors import Problem

REQUEST_ID = web.RequestKey("request_id", str)

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
# Unique to this process and counted from there: as unlike any other as a random one, for a tenth of the cost.
_ID_PREFIX = secrets.token_hex(8)
_ids = itertools.count(1)


def request_id(given: str | None) -> str:
    """The caller's request ID if it is sane (1 to 128 plain characters), else a new one."""
    if given is not None and _SANE_ID.fullmatch(given):
        return given
    return f"{_ID_PREFIX}{next(_ids):08x}"


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
