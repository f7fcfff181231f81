"""`POST …/configuration/plan`, reviews, their applications, and what is done with operations."""

import hmac
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import actor_of, api_token
from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.request_session import Session, end_transaction
from control_api.requests.deploy_bodies import read_configuration_request
from control_api.responses.configuration_faults import refusing_configuration
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.configurations.application_status import WISHES
from control_domain.configurations.applications import (
    describe_application,
    describe_operation,
    find_application,
    find_operation,
    operations_of,
)
from control_domain.configurations.apply_review import apply_review
from control_domain.configurations.control_operation import control_operation
from control_domain.configurations.reviews import (
    actions_of,
    describe_review,
    find_review,
    open_review,
    plan_project,
    touches_protection,
)
from control_domain.database.public_ids import read_number
from control_domain.projects.find import find_project
from pipeline_contracts.errors import DeployNotAllowed, FieldError, InvalidInput

router = APIRouter(prefix="/v1/projects/{project}/configuration", tags=["Deploy"])

_Reader = Annotated[Caller, Depends(api_token("deploy:read"))]
_Writer = Annotated[Caller, Depends(api_token("deploy:write"))]


@router.post("/plan")
async def plan(project: str, request: Request, caller: _Writer, session: Session) -> dict[str, Any]:
    """What a document would change. Nothing is."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    await end_transaction(session)
    _, text, bindings = await read_configuration_request(request)
    with refusing_configuration():
        made = await plan_project(session, request.app.state.variable_keys, found, text, bindings)
    return {"data": made.to_json()}


@router.post("/reviews", status_code=201)
async def review(project: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Freeze a plan for 15 minutes."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    await end_transaction(session)
    body, text, bindings = await read_configuration_request(request)
    keys = request.app.state.variable_keys

    async def make() -> RouteResponse:
        now = datetime.now(UTC)
        with refusing_configuration():
            made = await plan_project(session, keys, found, text, bindings)
        opened = await open_review(session, keys, found, made, actor_of(request, caller), now)
        return 201, {"data": describe_review(opened, now)}

    # Keyed: of the body, which has secrets in it, not even a digest is stored that anybody could try guesses on.
    told = hmac.digest(request.app.state.cursor_key, body, "sha256")
    return await respond_idempotently(request, session, caller.key, told, make)


@router.post("/reviews/{review}/apply")
async def apply(project: str, review: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Start a review's application: 409 unless it is open and the project as it was."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    number = read_number(review)
    agreed_by_id = None
    if touches_protection(actions_of(await find_review(session, found, number))):
        await find_project(session, caller, project, Right.DECIDE)
        agreed_by_id = caller.person.id
    await end_transaction(session)
    keys = request.app.state.variable_keys

    async def start() -> RouteResponse:
        with refusing_configuration():
            made = await apply_review(
                session, keys, found, number, actor_of(request, caller), datetime.now(UTC), agreed_by_id
            )
        return 200, {"data": describe_application(made, await operations_of(session, made.id))}

    answer = await respond_idempotently(request, session, caller.key, b"", start)
    await end_transaction(session)
    request.app.state.wake_configuration_runs()
    return answer


@router.get("/applications/{application}")
async def read_application(
    project: str, application: str, caller: _Reader, session: Session
) -> dict[str, Any]:
    """An application with its operations."""
    found = await find_project(session, caller, project, Right.READ)
    one = await find_application(session, found, read_number(application))
    return {"data": describe_application(one, await operations_of(session, one.id))}


@router.post("/applications/{application}/operations/{operation}/{action}")
async def operate(
    project: str,
    application: str,
    operation: str,
    action: str,
    request: Request,
    caller: _Writer,
    session: Session,
) -> Response:
    """Cancel an operation, or have it tried again: for those who might have applied it."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    if action not in WISHES:
        raise InvalidInput(
            "Nothing was changed.", errors=[FieldError("action", f"must be {' or '.join(sorted(WISHES))}")]
        )

    numbers = read_number(application), read_number(operation)
    of = await find_application(session, found, numbers[0])
    agreed_by_id = None
    try:
        await find_project(session, caller, project, Right.DECIDE)
        agreed_by_id = caller.person.id
    except DeployNotAllowed:
        if touches_protection([describe_operation(await find_operation(session, of, numbers[1]))]):
            raise
    await end_transaction(session)
    keys = request.app.state.variable_keys

    async def move() -> RouteResponse:
        actor, now = actor_of(request, caller), datetime.now(UTC)
        with refusing_configuration():
            moved = await control_operation(session, found, *numbers, action, actor, now, keys, agreed_by_id)
        return 200, {"data": describe_operation(moved)}

    answer = await respond_idempotently(request, session, caller.key, b"", move)
    await end_transaction(session)
    request.app.state.wake_configuration_runs()
    return answer
