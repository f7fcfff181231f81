"""`POST …/configuration/plan`, reviews, their applications, and what is done with operations."""

import hmac
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import actor_of, api_token
from control_api.document_errors import converting_configuration_faults
from control_api.idempotency import Answer, answer_once
from control_api.request_session import Session, end_transaction
from control_api.requests.deploy_bodies import read_configuration_wish
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.configurations.cancel_or_retry import cancel_or_retry_step
from control_domain.configurations.reviews import (
    create_review,
    describe_review,
    find_review,
    plan_project,
    read_planned_actions,
    requires_right_to_decide,
)
from control_domain.configurations.runs import (
    STEP_TRANSITIONS,
    describe_run,
    describe_step,
    find_run,
    find_step,
    list_steps,
)
from control_domain.configurations.start_run import start_run
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
    _, text, bindings = await read_configuration_wish(request)
    with converting_configuration_faults():
        made = await plan_project(session, request.app.state.variable_keys, found, text, bindings)
    return {"data": made.to_json()}


@router.post("/reviews", status_code=201)
async def review(project: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Freeze a plan for 15 minutes."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    await end_transaction(session)
    body, text, bindings = await read_configuration_wish(request)
    keys = request.app.state.variable_keys

    async def make() -> Answer:
        now = datetime.now(UTC)
        with converting_configuration_faults():
            made = await plan_project(session, keys, found, text, bindings)
        opened = await create_review(session, keys, found, made, actor_of(request, caller), now)
        return 201, {"data": describe_review(opened, now)}

    # Keyed: of the body, which has secrets in it, not even a digest is stored that anybody could try guesses on.
    told = hmac.digest(request.app.state.cursor_key, body, "sha256")
    return await answer_once(request, session, caller.key, told, make)


@router.post("/reviews/{review}/apply")
async def apply(project: str, review: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Start a review's application: 409 unless it is open and the project as it was."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    number = read_number(review)
    approved_by_id = None
    if requires_right_to_decide(read_planned_actions(await find_review(session, found, number))):
        await find_project(session, caller, project, Right.DECIDE)
        approved_by_id = caller.person.id
    await end_transaction(session)
    keys = request.app.state.variable_keys

    async def start() -> Answer:
        with converting_configuration_faults():
            made = await start_run(
                session, keys, found, number, actor_of(request, caller), datetime.now(UTC), approved_by_id
            )
        return 200, {"data": describe_run(made, await list_steps(session, made.id))}

    answer = await answer_once(request, session, caller.key, b"", start)
    await end_transaction(session)
    request.app.state.wake_configuration_runs()
    return answer


@router.get("/applications/{application}")
async def read_application(
    project: str, application: str, caller: _Reader, session: Session
) -> dict[str, Any]:
    """An application with its operations."""
    found = await find_project(session, caller, project, Right.READ)
    one = await find_run(session, found, read_number(application))
    return {"data": describe_run(one, await list_steps(session, one.id))}


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
    if action not in STEP_TRANSITIONS:
        raise InvalidInput(
            "Nothing was changed.",
            errors=[FieldError("action", f"must be {' or '.join(sorted(STEP_TRANSITIONS))}")],
        )

    numbers = read_number(application), read_number(operation)
    of = await find_run(session, found, numbers[0])
    approved_by_id = None
    try:
        await find_project(session, caller, project, Right.DECIDE)
        approved_by_id = caller.person.id
    except DeployNotAllowed:
        if requires_right_to_decide([describe_step(await find_step(session, of, numbers[1]))]):
            raise
    await end_transaction(session)
    keys = request.app.state.variable_keys

    async def move() -> Answer:
        actor, now = actor_of(request, caller), datetime.now(UTC)
        with converting_configuration_faults():
            moved = await cancel_or_retry_step(
                session, found, *numbers, action, actor, now, keys, approved_by_id
            )
        return 200, {"data": describe_step(moved)}

    answer = await answer_once(request, session, caller.key, b"", move)
    await end_transaction(session)
    request.app.state.wake_configuration_runs()
    return answer
