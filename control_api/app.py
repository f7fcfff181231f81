"""The control plane's application."""

import hmac
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from control_api.http.allowed_methods import allowed_methods
from control_api.http.layers import HeadRequests, LimitedRequests, RequestIds, SmallPieces, problem_response
from control_api.limits.fair_queue import FairQueue, QueueLimits
from control_api.limits.report_queue import REPORT_LIMITS
from control_api.limits.request_limits import RequestLimits
from control_api.limits.webhook_bodies import WebhookBodies
from control_api.live_logs.log_streams import LogStreams
from control_api.routes.accounts import router as accounts
from control_api.routes.configurations import router as configuration
from control_api.routes.deployments import router as deployments
from control_api.routes.environments import router as environments
from control_api.routes.projects import router as projects
from control_api.routes.receipts import router as receipts
from control_api.routes.recorded_deployments import router as recorded_deployments
from control_api.routes.reference import router as reference
from control_api.routes.schemas import router as schemas
from control_api.routes.sites import router as sites
from control_api.routes.start_page import router as start_page
from control_api.routes.webhooks import router as webhooks
from control_api.routes.workflows import router as workflows
from control_domain.database.engine import Sessions
from control_domain.sealing import SealingKeys
from pipeline_contracts.client_address import ClientAddresses
from pipeline_contracts.errors import FieldError, InvalidInput, MethodNotAllowed, NotFound, Problem
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _on_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [
        FieldError(".".join(str(part) for part in fault["loc"][1:]), str(fault["msg"]))
        for fault in error.errors()
    ]
    return problem_response(InvalidInput("Mend the fields below and send the request again.", errors=faults))


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem_response(NotFound("There is nothing at this address."))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": allowed_methods(request)}
        return problem_response(MethodNotAllowed("This address does not take the method.", headers=headers))
    problem = Problem(str(error.detail), headers=error.headers)
    problem.status = error.status_code
    return problem_response(problem)


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    identity = request.scope["state"]["request_id"]
    logger.error("request failed", exc_info=error, extra={"request_id": identity})
    return problem_response(Problem("The request failed here."))


def build_control(
    sessions: Sessions,
    column_store: ColumnStore,
    receipt_key: bytes,
    variable_keys: SealingKeys,
    addresses: ClientAddresses | None = None,
    wake_configuration_runs: Callable[[], None] = lambda: None,
    *,
    directory: KeyDirectory | None = None,
    git_app_secret: str | None = None,
    report_store: ColumnStore | None = None,
    report_limits: QueueLimits = REPORT_LIMITS,
    request_limits: RequestLimits | None = None,
) -> FastAPI:
    """The application over resources that the caller has opened. `addresses` tells callers from trusted proxies;
    `wake_configuration_runs` is called once a configuration run has a step to apply; `directory` is told of keys
    that end with a preview; without `git_app_secret` there is no application of a Git host. Reports read
    `report_store`, which need not be the store that answers everything else; without `request_limits` callers have no
    limits."""
    handlers: dict[Any, Any] = {
        Problem: _on_problem,
        RequestValidationError: _on_validation,
        HTTPException: _on_http,
        Exception: _on_fault,
    }
    app = FastAPI(
        title="Pharos",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A redirect names the scheme that is spoken here, and a token would follow it out of TLS.
        redirect_slashes=False,
        exception_handlers=handlers,
    )
    app.state.sessions = sessions
    app.state.column_store = column_store
    app.state.receipt_key = receipt_key
    # Another secret, made of the same one: what seals a page must not seal a receipt.
    app.state.cursor_key = hmac.digest(receipt_key, b"cursors of lists", "sha256")
    app.state.variable_keys = variable_keys
    app.state.wake_configuration_runs = wake_configuration_runs
    app.state.key_directory = directory
    app.state.git_app_secret = git_app_secret
    app.state.webhook_bodies = WebhookBodies()
    app.state.client_addresses = addresses or ClientAddresses(())
    app.state.log_streams = LogStreams(sessions)
    app.state.report_store = report_store or column_store
    app.state.report_queue = FairQueue(report_limits)
    app.state.request_limits = request_limits
    if request_limits is not None:
        # Inside of the request IDs: what is refused here has one, too.
        app.add_middleware(LimitedRequests, limits=request_limits, addresses=app.state.client_addresses)
    app.add_middleware(RequestIds)
    app.add_middleware(HeadRequests)
    app.add_middleware(SmallPieces)
    api = APIRouter(prefix="/api")
    api.include_router(accounts)
    api.include_router(receipts)
    api.include_router(recorded_deployments)
    api.include_router(projects)
    api.include_router(deployments)
    api.include_router(environments)
    api.include_router(workflows)
    api.include_router(configuration)
    api.include_router(webhooks)
    api.include_router(sites)
    api.include_router(schemas)
    api.include_router(reference)
    app.include_router(api)
    app.include_router(start_page)
    return app
