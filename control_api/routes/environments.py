"""Changes of an environment: `POST …/deploy`, `PATCH …/scale`, `PATCH …/runtime`, `PUT …/variables`."""

from typing import Annotated, Any

from fastapi import APIRouter, Response

from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.operations.access import At, at
from control_api.requests.deploy_bodies import read_deploy, read_runtime, read_scale, read_variables
from control_domain.accounts.roles import Right
from control_domain.deployments.describe import describe_deployment
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.environments import operations
from control_domain.projects.describe import describe_environment
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.variables.dotenv import read_dotenv
from control_domain.variables.operations import replace_variables

router = APIRouter(prefix="/api", tags=["Deploy"])

_Deploy = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:write", Right.DEPLOY)]


@router.post("/v1/environments/{environment}/deploy", status_code=202)
async def deploy(at: _Deploy) -> Response:
    """Queue a deploy: 409 while another deploy of the environment is not finished."""
    body, ref = await at.read_body(read_deploy)

    async def queue() -> RouteResponse:
        deployment = await queue_deployment(
            at.session, at.found, DeploymentRequest("api", ref=ref), at.actor, at.now
        )
        return 202, {"data": describe_deployment(deployment, at.found.environment.public_id)}

    return await respond_idempotently(at.request, at.session, at.caller.key, body, queue)


@router.patch("/v1/environments/{environment}/scale", status_code=202)
async def scale(at: _Deploy) -> dict[str, Any]:
    """Set the number of replicas."""
    replicas = await at.read_body(read_scale)
    await operations.scale_environment(at.session, at.found, replicas, at.actor, at.now)
    return {"data": describe_environment(at.found.environment)}


@router.patch("/v1/environments/{environment}/runtime", status_code=202)
async def change_state(at: _Deploy) -> dict[str, Any]:
    """Hibernate the environment, or wake it."""
    state = await at.read_body(read_runtime)
    await operations.change_environment_state(at.session, at.found, state, at.actor, at.now)
    return {"data": describe_environment(at.found.environment)}


@router.put("/v1/environments/{environment}/variables")
async def set_variables(at: _Deploy, response: Response) -> dict[str, Any]:
    """Replace all variables: 200, or 202 if a second person has to approve the change."""
    values = read_dotenv(await at.read_body(read_variables))
    change_id = await replace_variables(
        at.session,
        at.sealing_keys,
        at.found,
        values,
        at.actor,
        at.now,
    )
    if change_id is None:
        return {"data": {"count": len(values)}}
    response.status_code = 202
    return {"data": {"status": "pending_approval", "change_id": change_id}}
