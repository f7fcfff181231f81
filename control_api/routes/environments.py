"""Changes of an environment: `POST …/deploy`, `PATCH …/scale`, `PATCH …/runtime`, `PUT …/variables`."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import actor_of, api_token
from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.request_session import Session, end_transaction
from control_api.requests.deploy_bodies import read_deploy, read_runtime, read_scale, read_variables
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.deployments.describe import describe_deployment
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.environments import operations
from control_domain.projects.describe import describe_environment
from control_domain.projects.find import find_environment
from control_domain.variables.dotenv import read_dotenv
from control_domain.variables.operations import replace_variables

router = APIRouter(tags=["Deploy"])

_Writer = Annotated[Caller, Depends(api_token("deploy:write"))]


@router.post("/v1/environments/{environment}/deploy", status_code=202)
async def deploy(environment: str, request: Request, caller: _Writer, session: Session) -> Response:
    """Queue a deploy: 409 while another deploy of the environment is not finished."""
    target = await find_environment(session, caller, environment, Right.DEPLOY)
    await end_transaction(session)
    body, ref = await read_deploy(request)

    async def queue() -> RouteResponse:
        deployment = await queue_deployment(
            session, target, DeploymentRequest("api", ref=ref), actor_of(request, caller), datetime.now(UTC)
        )
        return 202, {"data": describe_deployment(deployment, target.environment.public_id)}

    return await respond_idempotently(request, session, caller.key, body, queue)


@router.patch("/v1/environments/{environment}/scale", status_code=202)
async def scale(environment: str, request: Request, caller: _Writer, session: Session) -> dict[str, Any]:
    """Set the number of replicas."""
    target = await find_environment(session, caller, environment, Right.DEPLOY)
    await end_transaction(session)
    replicas = await read_scale(request)
    await operations.scale_environment(
        session, target, replicas, actor_of(request, caller), datetime.now(UTC)
    )
    return {"data": describe_environment(target.environment)}


@router.patch("/v1/environments/{environment}/runtime", status_code=202)
async def change_state(
    environment: str, request: Request, caller: _Writer, session: Session
) -> dict[str, Any]:
    """Hibernate the environment, or wake it."""
    target = await find_environment(session, caller, environment, Right.DEPLOY)
    await end_transaction(session)
    state = await read_runtime(request)
    await operations.change_environment_state(
        session, target, state, actor_of(request, caller), datetime.now(UTC)
    )
    return {"data": describe_environment(target.environment)}


@router.put("/v1/environments/{environment}/variables")
async def set_variables(
    environment: str, request: Request, response: Response, caller: _Writer, session: Session
) -> dict[str, Any]:
    """Replace all variables: 200, or 202 if a second person has to approve the change."""
    target = await find_environment(session, caller, environment, Right.DEPLOY)
    await end_transaction(session)
    values = read_dotenv(await read_variables(request))
    change_id = await replace_variables(
        session,
        request.app.state.variable_keys,
        target,
        values,
        actor_of(request, caller),
        datetime.now(UTC),
    )
    if change_id is None:
        return {"data": {"count": len(values)}}
    response.status_code = 202
    return {"data": {"status": "pending_approval", "change_id": change_id}}
