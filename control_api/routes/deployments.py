"""`GET /v1/deployments…`, `POST …/rollback` and `POST …/promote`."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.authentication import actor_of, signed_in
from control_api.http.json_response import json_response
from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.live_logs.log_streams import Reader
from control_api.live_logs.stream_log import accepts_event_stream, stream_log
from control_api.operations.access import At, at
from control_api.operations.reader_check import FindCaller, ReaderCheck
from control_api.request_session import Session, end_transaction
from control_api.requests.deploy_bodies import read_promote
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.database.public_ids import parse_number
from control_domain.deployments import operations
from control_domain.deployments.describe import describe_deployment, describe_log
from control_domain.deployments.find import FoundDeployment, find_deployment_of_caller
from control_domain.deployments.listing import list_deployments
from control_domain.deployments.log_tail import tail_log_as_json
from control_domain.paging import DEFAULT_LIMIT, Cursors, Page, read_page

router = APIRouter(prefix="/api", tags=["Deploy"])

_authenticate_reader = signed_in("deploy:read")
_Reader = Annotated[Caller, Depends(_authenticate_reader)]
_Writer = Annotated[Caller, Depends(signed_in("deploy:write"))]
_Deploy = Annotated[At[FoundDeployment], at(find_deployment_of_caller, "build", "deploy:write", Right.DEPLOY)]


@router.get("/v1/deployments", response_model=None)
async def read_deployments(request: Request, caller: _Reader, session: Session) -> Response:
    """Return a page of deployments, newest first."""
    cursors = Cursors(request.app.state.cursor_key, caller.account.public_id, "deployments")
    # There may be hundreds of thousands: without parameters the caller gets the first page.
    page = read_page(request.query_params.multi_items(), cursors) or Page(DEFAULT_LIMIT, None)
    rows, has_more = await list_deployments(session, caller, page)
    return json_response(
        {
            "data": [describe_deployment(*listed) for listed in rows],
            "next_cursor": cursors.write(rows[-1][0].id) if has_more else None,
        }
    )


@router.get("/v1/deployments/{build}", response_model=None)
async def read_deployment(build: str, caller: _Reader, session: Session) -> Response:
    """Return one deployment."""
    found, _ = await operations.find_deployment(session, caller, parse_number(build), Right.READ)
    return json_response({"data": describe_deployment(*found)})


@router.get("/v1/deployments/{build}/log", response_model=None)
async def read_log(build: str, request: Request, caller: _Reader, session: Session) -> Response:
    """Return the last 1,000 lines of a deployment's log, or stream them and new lines until the deployment is
    finished."""
    (deployment, _), _ = await operations.find_deployment(session, caller, parse_number(build), Right.READ)
    if accepts_event_stream(request):
        await end_transaction(session)
        check = ReaderCheck(request, caller.account.id, _check_reader(parse_number(build)))
        return stream_log(request, check, deployment, Reader(caller.account.id, caller.person.id))
    lines, is_truncated = await tail_log_as_json(session, deployment.id)
    return json_response({"data": describe_log(deployment, lines, is_truncated)})


def _check_reader(number: int | None) -> FindCaller:
    async def find_caller(request: Request, session: AsyncSession) -> Caller:
        caller = await _authenticate_reader(request, session)
        await operations.find_deployment(session, caller, number, Right.READ)
        return caller

    return find_caller


@router.post("/v1/deployments/{build}/rollback", status_code=202)
async def roll_back(build: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Queue a rollback to the deployment's release."""
    number = parse_number(build)
    await operations.find_deployment(session, caller, number, Right.DEPLOY)

    async def queue() -> RouteResponse:
        queued = await operations.roll_back(
            session, caller, number, actor_of(request, caller), datetime.now(UTC)
        )
        return 202, {"data": describe_deployment(*queued)}

    return await respond_idempotently(request, session, caller.key, b"", queue)


@router.post("/v1/deployments/{build}/promote", status_code=202)
async def promote(at: _Deploy) -> Response:
    """Queue a deployment of the same build to a later environment."""
    body, target, note = await at.read_body(read_promote)

    async def queue() -> RouteResponse:
        queued = await operations.promote(
            at.session, at.caller, at.number("build"), target, note, at.actor, at.now
        )
        return 202, {"data": describe_deployment(*queued)}

    return await respond_idempotently(at.request, at.session, at.caller.key, body, queue)
