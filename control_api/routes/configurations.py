"""`POST …/configuration/plan`, reviews, and the runs (`applications`) and steps (`operations`) that apply them."""

import hmac
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import actor_of, require_scope, signed_in
from control_api.document_errors import converting_configuration_faults
from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.operations.access import At, at
from control_api.request_session import Session, end_transaction
from control_api.requests.deploy_bodies import read_configuration_request
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.configurations.cancel_or_retry import cancel_or_retry_step
from control_domain.configurations.reviews import (
    create_review,
    describe_review,
    find_required_right,
    find_required_scopes,
    find_review,
    plan_project,
    read_planned_actions,
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
from control_domain.database.public_ids import parse_number
from control_domain.projects.find import find_project
from control_domain.tables.projects import Project
from pipeline_contracts.errors import DeployNotAllowed, FieldError, InvalidInput

router = APIRouter(prefix="/api/v1/projects/{project}/configuration", tags=["Deploy"])

_Reader = Annotated[Caller, Depends(signed_in("deploy:read"))]
_Writer = Annotated[Caller, Depends(signed_in("deploy:write"))]
_Deploy = Annotated[At[Project], at(find_project, "project", "deploy:write", Right.DEPLOY)]


@router.post("/plan")
async def plan(at: _Deploy) -> dict[str, Any]:
    """Plan what a document would change, without changing anything."""
    _, text, bindings = await at.read_body(read_configuration_request)
    with converting_configuration_faults():
        planned = await plan_project(at.session, at.sealing_keys, at.found, text, bindings)
    return {"data": planned.to_json()}


@router.post("/reviews", status_code=201)
async def review(at: _Deploy) -> Response:
    """Freeze a plan for 15 minutes."""
    body, text, bindings = await at.read_body(read_configuration_request)

    async def make() -> RouteResponse:
        with converting_configuration_faults():
            planned = await plan_project(at.session, at.sealing_keys, at.found, text, bindings)
        created = await create_review(at.session, at.sealing_keys, at.found, planned, at.actor, at.now)
        return 201, {"data": describe_review(created, at.now)}

    # Keyed: the body contains secrets, and a plain digest of it could be used to check guesses.
    body_digest = hmac.digest(at.request.app.state.cursor_key, body, "sha256")
    return await respond_idempotently(at.request, at.session, at.caller.key, body_digest, make)


@router.post("/reviews/{review}/apply")
async def apply(project: str, review: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Start the configuration run of a review: 409 unless the review is open and the project unchanged."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    number = parse_number(review)
    approved_by_id = None
    actions = read_planned_actions(await find_review(session, found, number))
    for scope in find_required_scopes(actions):
        require_scope(caller, scope)
    required = find_required_right(actions)
    if required > Right.DEPLOY:
        await find_project(session, caller, project, required)
        approved_by_id = caller.person.id
    await end_transaction(session)
    keys = request.app.state.variable_keys

    async def start() -> RouteResponse:
        with converting_configuration_faults():
            run = await start_run(
                session, keys, found, number, actor_of(request, caller), datetime.now(UTC), approved_by_id
            )
        return 200, {"data": describe_run(run, await list_steps(session, run.id))}

    answer = await respond_idempotently(request, session, caller.key, b"", start)
    await end_transaction(session)
    request.app.state.wake_configuration_runs()
    return answer


@router.get("/applications/{application}")
async def read_application(
    project: str, application: str, caller: _Reader, session: Session
) -> dict[str, Any]:
    """Return a configuration run with its steps."""
    found = await find_project(session, caller, project, Right.READ)
    run = await find_run(session, found, parse_number(application))
    return {"data": describe_run(run, await list_steps(session, run.id))}


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
    """Cancel or retry a step: for callers who could have applied the step alone."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    if action not in STEP_TRANSITIONS:
        raise InvalidInput(
            "Nothing was changed.",
            errors=[FieldError("action", f"must be {' or '.join(sorted(STEP_TRANSITIONS))}")],
        )

    run_id, step_id = parse_number(application), parse_number(operation)
    run = await find_run(session, found, run_id)
    step = describe_step(await find_step(session, run, step_id))
    for scope in find_required_scopes([step]):
        require_scope(caller, scope)
    approved_by_id = None
    try:
        await find_project(session, caller, project, Right.DECIDE)
        approved_by_id = caller.person.id
    except DeployNotAllowed:
        if find_required_right([step]) > Right.DEPLOY:
            raise
    await end_transaction(session)
    keys = request.app.state.variable_keys

    async def move() -> RouteResponse:
        actor, now = actor_of(request, caller), datetime.now(UTC)
        with converting_configuration_faults():
            moved = await cancel_or_retry_step(
                session, found, run_id, step_id, action, actor, now, keys, approved_by_id
            )
        return 200, {"data": describe_step(moved)}

    answer = await respond_idempotently(request, session, caller.key, b"", move)
    await end_transaction(session)
    request.app.state.wake_configuration_runs()
    return answer
