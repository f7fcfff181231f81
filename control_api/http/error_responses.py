"""Error responses of the control plane: problem documents (RFC 9457) for every exception that a route can raise."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from pipeline_contracts.errors import (
    UNKNOWN_ADDRESS,
    UNKNOWN_METHOD,
    FieldError,
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    Problem,
)

logger = logging.getLogger(__name__)

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def problem_response(problem: Problem) -> JSONResponse:
    """Return the response that refuses a request."""
    return JSONResponse(
        problem.to_document(), problem.status, problem.headers, media_type="application/problem+json"
    )


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _on_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [
        FieldError(".".join(str(part) for part in fault["loc"][1:]), str(fault["msg"]))
        for fault in error.errors()
    ]
    return problem_response(
        InvalidInput("Fix the fields listed below and send the request again.", errors=errors)
    )


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem_response(NotFound(UNKNOWN_ADDRESS))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": _allowed_methods(request)}
        return problem_response(MethodNotAllowed(UNKNOWN_METHOD, headers=headers))
    problem = Problem(str(error.detail), headers=error.headers)
    problem.status = error.status_code
    return problem_response(problem)


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    request_id = request.scope["state"]["request_id"]
    logger.error("request failed", exc_info=error, extra={"request_id": request_id})
    return problem_response(Problem("The request failed because of an error in Pharos."))


def _allowed_methods(request: Request) -> str:
    """Return the value of `Allow`: the methods of all routes with this path. FastAPI itself only lists the methods of
    the first route."""
    routes = request.app.routes
    path_scope = {"type": "http", "path": request.scope["path"], "root_path": "", "headers": []}
    allowed = [
        method
        for method in _METHODS
        if any(route.matches({**path_scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    if "GET" in allowed:
        allowed.insert(1, "HEAD")
    return ", ".join(allowed)


EXCEPTION_HANDLERS: dict[Any, Any] = {
    Problem: _on_problem,
    RequestValidationError: _on_validation,
    HTTPException: _on_http,
    Exception: _on_unexpected,
}
